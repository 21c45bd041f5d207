from pathlib import Path
from typing import Any

import pytest

from tests.support.exchanges import exchange
from tests.support.images import prompt_image
from tests.support.logs import answered, write_log
from tests.support.sequences import sequence
from turnstile.addon.tracelog.errors import LogFormatError
from turnstile.addon.tracelog.records import Arrival, Splice
from turnstile.compiler.compilation import compile_logs
from turnstile.compiler.errors import InvariantBroken, SequenceFileError
from turnstile.compiler.export import jsonl
from turnstile.compiler.sequence import Call, Parent, TrainingSequence
from turnstile.compiler.verify import Verified, verify


def written(path: Path, *sequences: TrainingSequence) -> Path:
    with jsonl.open_writer(path) as writer:
        for each in sequences:
            writer.write(each)
    return path


def numbered(number: int, **fields: Any) -> TrainingSequence:
    """A sequence of the calls e<number> and f<number>."""
    calls = (Call(f"e{number}", 0), Call(f"f{number}", 0))
    return sequence(**{"sequence_id": f"e{number}.0", "exchanges": calls} | fields)


def fault_of(*paths: Path) -> str:
    with pytest.raises(InvariantBroken) as broken:
        verify(paths)
    return str(broken.value)


def test_what_was_recorded_and_compiled_holds(tmp_path: Path) -> None:
    added = Splice(14, 14, b',"n":1')
    streamed = exchange(
        4, reply=b"data: x\n\n", arrivals=(Arrival(4, 0.25), Arrival(4, 0.25), Arrival(9, 0.5))
    )
    log = write_log(
        tmp_path / "log",
        answered(1, [1, 2], [3]),
        answered(2, [1, 2], [4]),
        exchange(3, splices=(added,)),
        streamed,
    )
    compiled = written(tmp_path / "out.jsonl", *compile_logs([log]))
    assert verify([tmp_path / "log", compiled]) == Verified(1, 4, 1, 2)


def test_a_log_cut_off_is_named(tmp_path: Path) -> None:
    log = write_log(tmp_path, exchange(1), close=False)
    log.write_bytes(log.read_bytes()[:-1])
    assert fault_of(log).startswith(f"{log}: log_torn: the record at offset ")


def test_a_damaged_record_is_named(tmp_path: Path) -> None:
    log = write_log(tmp_path, exchange(1), close=False)
    content = bytearray(log.read_bytes())
    content[-1] ^= 1
    log.write_bytes(content)
    assert fault_of(log).startswith(f"{log}: log_corrupt")


@pytest.mark.parametrize(
    "fields",
    [
        {"splices": (Splice("a", "b", b""),)},
        {"splices": (Splice(0, 0, b""),), "request_headers": ((1, 2),)},
        {"reply_headers": 7},
    ],
)
def test_a_record_with_a_field_of_another_type_is_named(tmp_path: Path, fields: Any) -> None:
    log = write_log(tmp_path, exchange(1, **fields))
    assert str(log) in fault_of(log)


def test_an_exchange_in_two_logs_is_named(tmp_path: Path) -> None:
    write_log(tmp_path, exchange(1))
    write_log(tmp_path, exchange(1))
    one, other = sorted(tmp_path.iterdir())
    place = fault_of(tmp_path).partition(" at offset ")
    assert place[0] == f"{other}: exchange {exchange(1).exchange_id}"
    assert place[2].endswith(f" is also in {one}")


@pytest.mark.parametrize(
    ("fields", "fault"),
    [
        (
            {"splices": (Splice(4, 4, b""), Splice(2, 3, b""))},
            "a splice from 2 to 3 follows one that ends at 4",
        ),
        ({"splices": (Splice(3, 2, b""),)}, "a splice from 3 to 2 follows one that ends at 0"),
        ({"splices": (Splice(0, 99, b""),)}, "a splice ends at 99, the body at 15"),
        (
            {"splices": (Splice(0, 0, b"x"),), "request_headers": (("content-encoding", "br"),)},
            "content-encoding 'br' cannot be decoded here (known: gzip, deflate, zstd)",
        ),
    ],
)
def test_a_forwarded_body_that_cannot_be_rebuilt_is_named(tmp_path: Path, fields: Any, fault: str) -> None:
    log = write_log(tmp_path, exchange(1, **fields))
    assert fault_of(log).endswith(f": the forwarded body cannot be rebuilt: {fault}")


@pytest.mark.parametrize(
    ("arrivals", "fault"),
    [
        (
            (Arrival(9, 0.25), Arrival(4, 0.5)),
            "the pieces of the stream are not in the order in which they came",
        ),
        (
            (Arrival(4, 0.5), Arrival(9, 0.25)),
            "the pieces of the stream are not in the order in which they came",
        ),
        ((Arrival(4, 0.5), Arrival(8, 0.5)), "the pieces of the stream have 8 bytes, the reply has 9"),
    ],
)
def test_pieces_that_are_not_the_reply_are_named(tmp_path: Path, arrivals: Any, fault: str) -> None:
    log = write_log(tmp_path, exchange(1, reply=b"data: x\n\n", arrivals=arrivals))
    assert fault_of(log).endswith(f": {fault}")


def test_sequences_that_fit_each_other_hold(tmp_path: Path) -> None:
    child = numbered(2, parent=Parent("e1.0", 1, "history_rewritten"), tokens=[1, 9, 3, 4, 5])
    sibling = numbered(3, parent=Parent("e1.0", 5, "sibling"))
    other = numbered(4, group_id="h")
    assert verify([written(tmp_path / "out.jsonl", numbered(1), child, sibling, other)]) == Verified(
        0, 0, 1, 4
    )


@pytest.mark.parametrize(
    ("second", "fault"),
    [
        ({"flags": ("b", "a")}, "flags ('b', 'a') are not sorted"),
        ({"exchanges": (Call("e2", 0), Call("f1", 0))}, "choice 0 of f1 is in an earlier sequence as well"),
        ({"parent": Parent("e0.0", 1, "sibling")}, "its parent e0.0 does not stand before it in its group"),
        ({"parent": Parent("e2.0", 1, "sibling")}, "its parent e2.0 does not stand before it in its group"),
        ({"parent": Parent("e1.0", 0, "sibling")}, "shares 5 tokens with e1.0, not the 0 that are said"),
        ({"parent": Parent("e1.0", 6, "sibling")}, "shares 5 tokens with e1.0, not the 6 that are said"),
        (
            {"parent": Parent("e1.0", 2, "sibling"), "tokens": [1, 9, 3, 4, 5]},
            "shares 1 tokens with e1.0, not the 2 that are said",
        ),
        ({"parent": Parent("e1.0", 1, "new_prompt")}, "shares 5 tokens with e1.0, not the 1 that are said"),
    ],
)
def test_a_sequence_that_does_not_fit_the_others_is_named(tmp_path: Path, second: Any, fault: str) -> None:
    path = written(tmp_path / "out.jsonl", numbered(1), numbered(2, **second))
    assert fault_of(path) == f"{path}: sequence 2 (e2.0): {fault}"


def test_one_sequence_twice_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "out.jsonl", numbered(1), numbered(1))
    assert fault_of(path) == f"{path}: sequence 2 (e1.0): an earlier sequence is e1.0 too"


def test_a_group_in_two_places_is_named(tmp_path: Path) -> None:
    path = written(tmp_path / "out.jsonl", numbered(1), numbered(2, group_id="h"), numbered(3))
    assert fault_of(path) == f"{path}: sequence 3 (e3.0): its group stands in two places"


def test_what_is_neither_log_nor_output_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.txt").write_text("notes")
    with pytest.raises(SequenceFileError):
        verify([tmp_path / "notes.txt"])
    with pytest.raises(LogFormatError):
        verify([tmp_path / "absent"])


def test_a_parent_shares_no_tokens_behind_another_picture(tmp_path: Path) -> None:
    one, other = prompt_image("red", 1, 2), prompt_image("blue", 1, 2)
    tokens = {
        "tokens": [1, 9, 9, 4, 5],
        "segment_info": ((False, 3), (True, 2)),
        "logprobs": [0, 0, 0, -1, -1],
    }
    first = numbered(1, images=(one,), **tokens)
    second = numbered(2, images=(other,), parent=Parent("e1.0", 1, "image_changed"), **tokens)
    assert verify([written(tmp_path / "out.jsonl", first, second)]).sequences == 2
    wrong = numbered(2, images=(other,), parent=Parent("e1.0", 5, "image_changed"), **tokens)
    assert "shares 1 tokens with e1.0, not the 5" in fault_of(written(tmp_path / "o.jsonl", first, wrong))
