import pytest

from turnstile.addon.tracelog.frames import (
    HEAD_SIZE,
    BodyUnpacker,
    Head,
    RecordType,
    pack_record,
    packed,
    unpacked,
)


def split(record: bytes) -> tuple[Head, bytes, bytes]:
    head = Head.unpack(record[:HEAD_SIZE])
    assert head is not None
    front = record[HEAD_SIZE : HEAD_SIZE + head.envelope_size]
    return head, front, record[HEAD_SIZE + head.envelope_size :]


def test_record_comes_back() -> None:
    head, front, stored = split(pack_record(RecordType.BLOB, {"a": 1}, b"body" * 100))
    assert (head.type, head.body_size, head.stored_size) == (RecordType.BLOB, 400, len(stored))
    assert unpacked(front) == {"a": 1}
    assert BodyUnpacker().body(head, stored) == b"body" * 100


def test_dictionary_makes_a_repeat_small() -> None:
    text = b"".join(b"%d;" % (number * number) for number in range(1000))
    head, _, stored = split(pack_record(RecordType.EXCHANGE, {}, text, dictionary=text))
    assert len(stored) < 50
    assert BodyUnpacker().body(head, stored, text) == text


@pytest.mark.parametrize("wrong", [b"", b"another"])
def test_wrong_dictionary_is_an_error_not_other_bytes(wrong: bytes) -> None:
    text = b"".join(b"%d;" % (number * number) for number in range(1000))
    head, _, stored = split(pack_record(RecordType.EXCHANGE, {}, text, dictionary=text))
    unpacker = BodyUnpacker()
    assert unpacker.body(head, stored, text) == text
    with pytest.raises(ValueError, match="decompress"):
        unpacker.body(head, stored, wrong)


def test_what_a_dictionary_was_for_leaves_no_trace_behind() -> None:
    records = [(b"a" * 100, b""), (b"bc" * 100, b"c" * 50), (b"", b""), (b"bc" * 99, b"")]
    unpacker = BodyUnpacker()
    for body, dictionary in records:
        head, _, stored = split(pack_record(RecordType.EXCHANGE, {}, body, dictionary))
        assert unpacker.body(head, stored, dictionary) == body


@pytest.mark.parametrize("at", range(HEAD_SIZE))
def test_head_with_any_byte_changed_is_not_believed(at: int) -> None:
    head = bytearray(pack_record(RecordType.BLOB, {}, b"x")[:HEAD_SIZE])
    head[at] ^= 1
    assert Head.unpack(bytes(head)) is None


def test_frame_that_claims_more_than_its_head_is_not_decompressed() -> None:
    head, _, _ = split(pack_record(RecordType.BLOB, {}, b"x" * 10))
    _, _, bomb = split(pack_record(RecordType.BLOB, {}, b"\0" * 10_000_000))
    with pytest.raises(ValueError, match="claims 10000000 bytes, its head says 10"):
        BodyUnpacker().body(head, bomb)


def test_bytes_that_are_not_utf8_survive_in_strings() -> None:
    text = b"caf\xe9".decode("utf-8", "surrogateescape")
    assert unpacked(packed({"value": text})) == {"value": text}


def test_rubbish_is_no_msgpack() -> None:
    with pytest.raises(ValueError, match="no msgpack"):
        unpacked(b"\xc1")
