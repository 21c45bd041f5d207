import base64
import contextlib
import json
import os
import random
import struct
import tempfile
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.support.exchanges import exchange
from tests.support.routed_rollouts import routed_turns
from turnstile.addon.tracelog import reader as reader_module
from turnstile.addon.tracelog.encoding import decode_exchange
from turnstile.addon.tracelog.errors import LogCorruptError, LogFormatError
from turnstile.addon.tracelog.frames import HEAD_SIZE, MAGIC, RecordType, pack_record, packed
from turnstile.addon.tracelog.reader import log_paths, open_log
from turnstile.addon.tracelog.records import Exchange
from turnstile.addon.tracelog.writer import LogWriter


def written(directory: Path, exchanges: list[Exchange], *, closed: bool = True) -> tuple[Path, list[int]]:
    """(the log, the offset of each exchange's record)."""
    writer = LogWriter(directory, program="test")
    for each in exchanges:
        writer.write([each])
    path = Path(writer.position.path)
    if closed:
        writer.close()
    with open_log(path) as log:
        return path, [summary.offset for summary in log.summaries()]


def whole(path: Path) -> list[Exchange]:
    with open_log(path) as log:
        return [each for _, each in log.exchanges()]


ROLLOUT = [
    exchange(number, request=b"history " * 1000 * number + b"%d" % number, rollout_id="r")
    for number in (1, 2, 3)
]


def test_unclosed_log_reads_like_a_closed_one(tmp_path: Path) -> None:
    open_path, _ = written(tmp_path / "a", ROLLOUT, closed=False)
    closed_path, _ = written(tmp_path / "b", ROLLOUT)
    assert whole(open_path) == whole(closed_path) == ROLLOUT
    with open_log(open_path) as log:
        assert log.damage is None


def test_summaries_tell_what_the_bodies_are_not_needed_for(tmp_path: Path) -> None:
    made = exchange(
        7, group_id="h", outcome="client_left", status=None, reply=b"", error="left", delivered=False
    )
    path, offsets = written(tmp_path, [made])
    with open_log(path) as log:
        (summary,) = log.summaries()
    assert summary.offset == offsets[0]
    assert (summary.exchange_id, summary.group_id, summary.outcome) == (made.exchange_id, "h", "client_left")
    assert (summary.status, summary.error, summary.delivered) == (None, "left", False)
    assert (summary.request_bytes, summary.reply_bytes) == (len(made.request), 0)


def test_one_group_is_read_without_the_others(tmp_path: Path) -> None:
    path, _ = written(tmp_path, [exchange(1), exchange(2, group_id="h"), exchange(3)])
    with open_log(path) as log:
        assert log.groups == ["g", "h"]
        assert [each.exchange_id[-1] for _, each in log.exchanges("g")] == ["1", "3"]


@pytest.mark.parametrize("size", range(1, 60))
def test_file_cut_anywhere_in_its_last_record_gives_all_before_it(tmp_path: Path, size: int) -> None:
    path, offsets = written(tmp_path, ROLLOUT, closed=False)
    data = path.read_bytes()
    path.write_bytes(data[: offsets[2] + size])
    with open_log(path) as log:
        assert [each for _, each in log.exchanges()] == ROLLOUT[:2]
        assert log.damage is not None
        assert (log.damage.kind, log.damage.offset) == ("log_torn", offsets[2])


def test_damaged_head_ends_the_readable_part(tmp_path: Path) -> None:
    path, offsets = written(tmp_path, ROLLOUT, closed=False)
    data = bytearray(path.read_bytes())
    data[offsets[1] + 5] ^= 0xFF
    path.write_bytes(data)
    with open_log(path) as log:
        assert [each for _, each in log.exchanges()] == ROLLOUT[:1]
        assert log.damage is not None
        assert (log.damage.kind, log.damage.offset) == ("log_corrupt", offsets[1])


def test_damaged_body_costs_that_record_and_those_that_rest_on_it(tmp_path: Path) -> None:
    other = exchange(9, group_id="other")
    path, offsets = written(tmp_path, [*ROLLOUT, other])
    data = bytearray(path.read_bytes())
    data[offsets[2] - 1] ^= 0xFF  # the last byte of the second record
    path.write_bytes(data)
    with open_log(path) as log:
        assert [summary.offset for summary in log.summaries()] == offsets
        assert log.exchange(offsets[0]) == ROLLOUT[0]
        assert log.exchange(offsets[3]) == other
        for damaged in offsets[1:3]:
            with pytest.raises(LogCorruptError, match=f"offset {offsets[1]}"):
                log.exchange(damaged)
        with pytest.raises(LogCorruptError):
            log.check()


def test_damaged_backend_record_costs_only_what_it_told(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, program="test")
    writer.write(ROLLOUT[:1])
    at = writer.position.offset
    writer.set_backend({"version": "0.5.23"})
    writer.write(ROLLOUT[1:])
    path = Path(writer.position.path)
    writer.close()
    data = bytearray(path.read_bytes())
    data[at + HEAD_SIZE + 3] ^= 0xFF
    path.write_bytes(data)
    assert whole(path) == ROLLOUT
    with open_log(path) as log, pytest.raises(LogCorruptError, match=f"offset {at}"):
        log.check()


SOUND = {"id": 1, "group_id": "g", "sizes": [0, 0], "path": "/", "started_at": 1.0, "duration_s": 1.0}
MALFORMED = [
    {},
    [],
    7,
    {"group_id": "g"},
    {"group_id": []},
    SOUND | {"group_id": 7},
    SOUND | {"sizes": 3},
    SOUND | {"started_at": "now"},
    SOUND | {"started_at": 1e300},
    SOUND | {"rollout_id": 3},
]


@pytest.mark.parametrize("envelope", MALFORMED)
def test_record_that_says_something_else_is_corrupt_and_no_crash(tmp_path: Path, envelope: object) -> None:
    path, _ = written(tmp_path, ROLLOUT, closed=False)
    path.write_bytes(path.read_bytes() + pack_record(RecordType.EXCHANGE, envelope, packed({})))
    with open_log(path) as log:
        if log.damage is None:
            with pytest.raises(LogCorruptError):
                list(log.summaries())
        else:
            assert log.damage.kind == "log_corrupt"
            assert len(list(log.summaries())) == 3


def test_blob_that_cannot_be_widened_is_corrupt_and_no_crash(tmp_path: Path) -> None:
    path, _ = written(tmp_path, ROLLOUT, closed=False)
    end = path.stat().st_size
    envelope = {"sha256": bytes(32), "item_sizes": [4, 3]}
    path.write_bytes(path.read_bytes() + pack_record(RecordType.NARROW_BLOB, envelope, b"12345"))
    with open_log(path) as log, pytest.raises(LogCorruptError, match=f"offset {end}: .*cannot be widened"):
        log.check()


@pytest.mark.parametrize("base", [-1, 0, 10**9, "x"])
def test_record_that_rests_on_nothing_is_corrupt_and_no_crash(tmp_path: Path, base: object) -> None:
    path, _ = written(tmp_path, ROLLOUT, closed=False)
    end = path.stat().st_size
    path.write_bytes(path.read_bytes() + pack_record(RecordType.EXCHANGE, SOUND | {"base": base}, packed({})))
    with open_log(path) as log, pytest.raises(LogCorruptError, match="rests on offset"):
        log.exchange(end)


@pytest.mark.parametrize("header", [[], {}, {"format": "x"}, {"format": [1]}])
def test_header_that_says_something_else_is_corrupt_and_no_crash(tmp_path: Path, header: object) -> None:
    path = tmp_path / "a.tslog"
    path.write_bytes(MAGIC + pack_record(RecordType.HEADER, {}, packed(header)))
    with pytest.raises(LogCorruptError, match="header cannot be read"):
        open_log(path)


@pytest.mark.parametrize("size", range(len(MAGIC)))
def test_file_torn_in_its_beginning_is_corrupt(tmp_path: Path, size: int) -> None:
    path = tmp_path / "a.tslog"
    path.write_bytes(MAGIC[:size])
    with pytest.raises(LogCorruptError, match=f"ends after {size} bytes"):
        open_log(path)


def test_zeros_behind_the_last_record_are_named(tmp_path: Path) -> None:
    path, _ = written(tmp_path, ROLLOUT, closed=False)
    size = path.stat().st_size
    path.write_bytes(path.read_bytes() + bytes(4096))
    with open_log(path) as log:
        assert len(list(log.exchanges())) == 3
        assert log.damage is not None
        assert (log.damage.kind, log.damage.offset) == ("log_corrupt", size)


def test_every_single_damaged_byte_is_met_with_an_error_or_the_true_exchanges(tmp_path: Path) -> None:
    made = [exchange(number, request=b"h" * 50 * number) for number in (1, 2)]
    path, _ = written(tmp_path, made)
    data = path.read_bytes()
    for at in range(len(data)):
        damaged = bytearray(data)
        damaged[at] ^= 0x55
        path.write_bytes(damaged)
        with contextlib.suppress(LogCorruptError, LogFormatError):
            assert whole(path) in (made, made[:1], [])


def test_other_files_are_no_trace_logs(tmp_path: Path) -> None:
    for name, content in (("empty", b""), ("text", b"hello, world"), ("magic", MAGIC)):
        path = tmp_path / name
        path.write_bytes(content)
        with pytest.raises((LogFormatError, LogCorruptError), match=name):
            open_log(path)
    with pytest.raises(LogFormatError, match="cannot be opened"):
        open_log(tmp_path / "absent")


def test_newer_major_version_is_refused_with_advice(tmp_path: Path) -> None:
    path = tmp_path / "new.tslog"
    path.write_bytes(MAGIC + pack_record(RecordType.HEADER, {}, packed({"format": [2, 0], "log_id": "x"})))
    with pytest.raises(LogFormatError, match=r"format 2\.0.*newer turnstile"):
        open_log(path)


def test_unknown_record_types_and_fields_are_stepped_over(tmp_path: Path) -> None:
    path, _ = written(tmp_path, ROLLOUT, closed=False)
    unknown = bytearray(pack_record(RecordType.REWARD, {"what": 1}, b"news"))
    data = path.read_bytes()
    header = {"format": [1, 9], "log_id": "x", "colour": "red"}
    path.write_bytes(MAGIC + pack_record(RecordType.HEADER, {}, packed(header)) + _retyped(unknown, 99))
    assert whole(path) == []
    path.write_bytes(data + _retyped(unknown, 99))
    assert whole(path) == ROLLOUT


def _retyped(record: bytearray, kind: int) -> bytes:
    import zlib

    record = bytearray(record)
    record[0] = kind
    record[24:28] = zlib.crc32(record[:24]).to_bytes(4, "little")
    return bytes(record)


def test_paths_name_files_and_directories(tmp_path: Path) -> None:
    path, _ = written(tmp_path / "deep", ROLLOUT)
    assert log_paths([tmp_path, path]) == [path]
    (tmp_path / "empty").mkdir()
    with pytest.raises(LogFormatError, match="holds no trace log"):
        log_paths([tmp_path / "empty"])
    with pytest.raises(LogFormatError, match="does not exist"):
        log_paths([tmp_path / "absent"])


def test_only_a_regular_file_of_a_directory_is_a_log_of_it(tmp_path: Path) -> None:
    path, _ = written(tmp_path, ROLLOUT)
    os.mkfifo(tmp_path / "pipe.tslog")
    (tmp_path / "deep.tslog").mkdir()
    assert log_paths([tmp_path]) == [path]
    with pytest.raises(LogFormatError, match=r"pipe\.tslog is no regular file; name a \.tslog file or a dir"):
        log_paths([tmp_path / "pipe.tslog"])
    (tmp_path / "lost.tslog").symlink_to(tmp_path / "absent")
    assert log_paths([tmp_path]) == sorted([path, tmp_path / "lost.tslog"])  # to be named when it is opened


def test_small_cache_reads_the_same(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    path, offsets = written(tmp_path, ROLLOUT)
    monkeypatch.setattr(reader_module, "CACHE_BYTES", 1)
    with open_log(path) as log:
        assert [log.exchange(offset) for offset in reversed(offsets)] == ROLLOUT[::-1]


def side_by_side(seeds: int, turns: int) -> list[Exchange]:
    rollouts = [routed_turns(seed, turns) for seed in range(seeds)]
    return [rollouts[seed][turn] for turn in range(turns) for seed in range(seeds)]


class Decoded:
    """Counts what is rebuilt."""

    def __init__(self, monkeypatch: pytest.MonkeyPatch) -> None:
        self.count = 0
        monkeypatch.setattr(reader_module, "decode_exchange", self._decode)

    def _decode(self, *arguments: Any) -> Exchange:
        self.count += 1
        return decode_exchange(*arguments)


@pytest.mark.parametrize("memory", [1, 100_000, 10_000_000])
def test_every_exchange_is_rebuilt_once_however_many_rollouts_lie_side_by_side(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, memory: int
) -> None:
    made = side_by_side(6, 5)
    path, _ = written(tmp_path, made)
    monkeypatch.setattr(reader_module, "CACHE_BYTES", memory)
    decoded = Decoded(monkeypatch)
    with open_log(path) as log:
        assert [each for _, each in log.exchanges()] == made
        assert decoded.count == len(made)
        assert [each for _, each in log.exchanges()] == made  # a second time
        assert decoded.count == 2 * len(made)
        log.forget()
        assert [each for _, each in log.exchanges("g")] == made
        assert decoded.count == 3 * len(made)


def test_a_group_read_in_nearly_its_order_is_rebuilt_nearly_once(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = side_by_side(6, 8)
    path, offsets = written(tmp_path, made)
    monkeypatch.setattr(reader_module, "CACHE_BYTES", 1)
    decoded = Decoded(monkeypatch)
    with open_log(path) as log:
        for at in range(
            0, len(made), 2
        ):  # by twos in the wrong order, as the beginnings of exchanges may lie
            assert log.exchange(offsets[at + 1]) == made[at + 1]
            assert log.exchange(offsets[at]) == made[at]
    assert decoded.count == len(made)


def test_records_that_rest_on_a_later_read_one_cost_it_twice(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    made = routed_turns(1, 12)
    path, offsets = written(tmp_path, made)
    monkeypatch.setattr(reader_module, "CACHE_BYTES", 1)
    decoded = Decoded(monkeypatch)
    with open_log(path) as log:
        for at in range(0, len(made), 2):
            assert log.exchange(offsets[at + 1]) == made[at + 1]
            assert log.exchange(offsets[at]) == made[at]
    assert decoded.count <= 2 * len(made)


def test_without_a_disk_to_spill_to_all_reads_the_same(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def no_file() -> Any:
        raise OSError(28, "No space left on device")

    made = side_by_side(3, 3)
    path, _ = written(tmp_path, made)
    monkeypatch.setattr(reader_module, "CACHE_BYTES", 1)
    monkeypatch.setattr(tempfile, "TemporaryFile", no_file)
    assert whole(path) == made


def _integers(numbers: int, largest: int, seed: int) -> str:
    raw = struct.pack(f"<{numbers}I", *(random.Random(seed).choices(range(largest + 1), k=numbers)))
    return base64.b64encode(raw).decode()


ROUTING = st.builds(
    _integers, st.integers(0, 2000), st.sampled_from([127, 255, 256, 70_000, 2**31]), st.integers(0, 2)
)
SPANS = st.integers(0, 6000).map(lambda size: base64.b64encode(random.Random(size).randbytes(size)).decode())
BODIES = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | SPANS | ROUTING,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=5), inner, max_size=4),
    max_leaves=12,
)


@settings(max_examples=60)
@given(st.lists(st.tuples(BODIES, BODIES, st.none() | BODIES), min_size=1, max_size=5))
def test_wire_bodies_come_back_byte_for_byte(bodies: list[tuple[Any, Any, Any]]) -> None:
    made = [
        exchange(
            number,
            request=json.dumps(one).encode(),
            reply=json.dumps(other).encode(),
            all_rows_reply=b"" if more is None else json.dumps(more).encode(),
        )
        for number, (one, other, more) in enumerate(bodies)
    ]
    with tempfile.TemporaryDirectory() as directory:
        path, _ = written(Path(directory), made)
        assert whole(path) == made


LONG = _integers(4500, 127, 1)


def _grown(size: int, changed: int) -> str:
    """The beginning of one long span, with a character changed where it reaches that far."""
    text = LONG[:size]
    return (
        text[:changed] + ("B" if text[changed] == "A" else "A") + text[changed + 1 :]
        if changed < size
        else text
    )


GROWN = st.builds(_grown, st.integers(0, len(LONG)), st.integers(0, 3 * len(LONG)))


@settings(max_examples=60, deadline=None)
@given(st.lists(st.tuples(GROWN, GROWN, st.integers(0, 900)), min_size=2, max_size=6))
def test_replies_that_repeat_each_other_come_back_byte_for_byte(turns: list[tuple[str, str, int]]) -> None:
    made = [
        exchange(number, reply=json.dumps({"a": one, "ids": [*range(ids)], "b": other}).encode())
        for number, (one, other, ids) in enumerate(turns)
    ]
    with tempfile.TemporaryDirectory() as directory:
        path, _ = written(Path(directory), made)
        assert whole(path) == made
