import base64
import os
import random
import resource
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.support.exchanges import exchange
from turnstile.addon.tracelog.errors import LogWriteError
from turnstile.addon.tracelog.reader import log_paths, open_log
from turnstile.addon.tracelog.records import Arrival, Exchange, Group, Reward, Splice, WeightReading
from turnstile.addon.tracelog.writer import LogWriter


def read(directory: Path) -> list[Exchange]:
    found = []
    for path in log_paths([directory]):
        with open_log(path) as log:
            found += [each for _, each in log.exchanges()]
    return found


def turns(count: int, writer: LogWriter) -> list[Exchange]:
    """A rollout that resends its history, with ids that grow as a prompt's do."""
    history, ids, made = "", "1", []
    for number in range(count):
        history += f'{{"role":"user","content":"question {number} {"x" * 900}"}},'
        ids += "".join(f",{number * 1000 + at}" for at in range(250))
        made.append(
            exchange(
                number,
                log_id=writer.log_id,
                request=f'{{"messages":[{history}null]}}'.encode(),
                reply=f'{{"id":"{number}","prompt_token_ids":[{ids}],"text":"answer {number}"}}'.encode(),
            )
        )
    return made


def test_record_is_readable_as_soon_as_write_returns(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path / "deep" / "log", program="test")
    sent = exchange(log_id=writer.log_id)
    writer.write([sent])
    assert read(tmp_path) == [sent]
    writer.close()


def test_resent_history_costs_next_to_nothing(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, program="test")
    made = turns(40, writer)
    for each in made:
        writer.write([each])
    size = writer.position.offset
    writer.close()
    assert read(tmp_path) == made
    raw = sum(len(each.request) + len(each.reply) for each in made)
    assert size < raw / 25


def test_rotation_begins_a_part_that_stands_on_its_own(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, program="test", rotate_bytes=900)
    made = turns(8, writer)
    for each in made:
        writer.write([each])
    writer.close()
    assert len(log_paths([tmp_path])) > 1
    assert read(tmp_path) == made
    headers = []
    for path in log_paths([tmp_path]):
        with open_log(path) as log:
            headers.append(log.header)
    assert [header.part for header in headers] == list(range(len(headers)))
    assert {header.log_id for header in headers} == {writer.log_id}


def test_two_writers_share_a_directory(tmp_path: Path) -> None:
    one, other = LogWriter(tmp_path, program="a"), LogWriter(tmp_path, program="b")
    one.write([exchange(1, log_id=one.log_id)])
    other.write([exchange(1, log_id=other.log_id)])
    one.close()
    other.close()
    assert len({each.exchange_id for each in read(tmp_path)}) == 2


def test_write_after_close_begins_the_next_part(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, program="test")
    made = turns(2, writer)
    writer.write(made[:1])
    writer.close()
    writer.write(made[1:])
    writer.close()
    assert len(log_paths([tmp_path])) == 2
    assert read(tmp_path) == made


def test_directory_that_cannot_be_made_is_told_at_once(tmp_path: Path) -> None:
    (tmp_path / "file").write_text("")
    with pytest.raises(LogWriteError, match="cannot begin a trace log"):
        LogWriter(tmp_path / "file" / "log", program="test")


def test_failed_write_leaves_no_half_record_and_the_next_succeeds(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, program="test")
    first, second, third = turns(3, writer)
    writer.write([first])
    before = writer.position
    soft, hard = resource.getrlimit(resource.RLIMIT_FSIZE)
    resource.setrlimit(resource.RLIMIT_FSIZE, (before.offset + 100, hard))
    try:
        with pytest.raises(LogWriteError, match="cannot append"):
            writer.write([second])
    finally:
        resource.setrlimit(resource.RLIMIT_FSIZE, (soft, hard))
    assert (writer.position, os.path.getsize(before.path)) == (before, before.offset)  # noqa: PTH202
    writer.write([third])
    writer.close()
    assert read(tmp_path) == [first, third]


@pytest.mark.parametrize(
    ("spoil", "what"), [(Path.unlink, "was deleted"), (lambda path: path.write_bytes(b"x"), "has 1 bytes")]
)
def test_log_that_somebody_took_away_is_told_and_the_next_begun(
    tmp_path: Path, spoil: Callable[[Path], object], what: str
) -> None:
    writer = LogWriter(tmp_path / "log", program="test")
    first, second, third = turns(3, writer)
    writer.write([first])
    spoilt = Path(writer.position.path)
    spoil(spoilt)
    with pytest.raises(LogWriteError, match=what):
        writer.write([second])
    writer.write([third])
    writer.close()
    spoilt.unlink(missing_ok=True)
    assert read(tmp_path) == [third]


def test_records_that_do_not_reach_the_disk_are_not_in_the_log(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(tmp_path, program="test", fsync=True)
    first, second, third = turns(3, writer)
    writer.write([first])

    def broken(file: int) -> None:
        raise OSError("input/output error")

    with monkeypatch.context() as patched:
        patched.setattr(os, "fsync", broken)
        with pytest.raises(LogWriteError, match="input/output error"):
            writer.write([second])
    writer.write([third])
    writer.close()
    assert read(tmp_path) == [first, third]


def test_file_that_cannot_be_cut_is_given_up_for_the_next(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    writer = LogWriter(tmp_path, program="test")
    first, second, third = turns(3, writer)
    writer.write([first])
    given_up = Path(writer.position.path)

    def half_a_write(file: int, data: memoryview) -> int:
        real_write(file, data[:50])
        raise OSError("disk gone")

    def no_truncate(file: int, size: int) -> None:
        raise OSError("disk gone")

    real_write = os.write
    with monkeypatch.context() as patched:
        patched.setattr(os, "write", half_a_write)
        patched.setattr(os, "ftruncate", no_truncate)
        with pytest.raises(LogWriteError, match="cannot append"):
            writer.write([second])
    writer.write([third])
    writer.close()
    assert read(tmp_path) == [first, third]
    with open_log(given_up) as log:
        assert log.damage is not None
        assert log.damage.kind == "log_torn"


def test_backend_in_force_comes_with_each_exchange(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, program="test")
    made = turns(3, writer)
    writer.write(made[:1])
    writer.set_backend({"version": "0.5.22"})
    writer.write(made[1:2])
    writer.set_backend({"version": "0.5.23"})
    writer.write(made[2:])
    writer.close()
    assert [each.backend for each in read(tmp_path)] == [None, {"version": "0.5.22"}, {"version": "0.5.23"}]


def test_weight_readings_come_back_in_order(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, program="test")
    readings = [
        WeightReading(weight_version="step-1", asked_at=1.0, answered_at=1.5),
        WeightReading(weight_version=None, asked_at=2.0, answered_at=2.5),
    ]
    writer.write(readings)
    with open_log(log_paths([tmp_path])[0]) as log:
        assert list(log.weight_readings()) == readings
    writer.close()
    with open_log(log_paths([tmp_path])[0]) as log:
        assert list(log.weight_readings()) == readings


def test_arrivals_of_a_stream_come_back(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, program="test")
    arrivals = (Arrival(10, 0.000001), Arrival(10, 0.25), Arrival(35, 12.000345))
    sent = exchange(log_id=writer.log_id, reply=b"x" * 35, arrivals=arrivals)
    writer.write([sent])
    writer.close()
    assert read(tmp_path) == [sent]


def test_rewards_come_back_in_order(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, program="test")
    rewards = [
        Reward(group_id="g", rollout_id=None, sequence_id=None, reward=0.5, at=1.0),
        Reward(group_id="g", rollout_id="r", sequence_id="s", reward=-1.0, at=2.0, metadata={"why": ["x"]}),
    ]
    writer.write(rewards)
    writer.close()
    with open_log(log_paths([tmp_path])[0]) as log:
        assert list(log.rewards()) == rewards


SCREENSHOT = random.Random(4).randbytes(1 << 20)
BASE64 = base64.b64encode(SCREENSHOT)


SPELLINGS = pytest.mark.parametrize(
    "spelled",
    [
        BASE64,
        BASE64.rstrip(b"="),
        BASE64.replace(b"/", rb"\/"),
        rb"\n".join(BASE64[at : at + 76] for at in range(0, len(BASE64), 76)),
        base64.urlsafe_b64encode(SCREENSHOT),
    ],
    ids=["plain", "unpadded", "escaped slashes", "line breaks", "urlsafe"],
)


@SPELLINGS
def test_an_image_that_every_turn_sends_again_costs_its_bytes_once(tmp_path: Path, spelled: bytes) -> None:
    writer = LogWriter(tmp_path, program="test")
    url = b'{"type":"image_url","image_url":{"url":"data:image/png;base64,%b"}}' % spelled
    bodies = [
        b'{"messages":[{"role":"user","content":[%b]}%b]}'
        % (url, b',{"role":"user","content":"go on"}' * turn)
        for turn in range(30)
    ]
    sent = [exchange(turn, log_id=writer.log_id, request=body) for turn, body in enumerate(bodies)]
    writer.write(sent)
    writer.close()
    assert sum(path.stat().st_size for path in log_paths([tmp_path])) < 1.05 * len(SCREENSHOT)
    with open_log(log_paths([tmp_path])[0]) as log:
        last = list(log.offsets())[-1]
        assert log.exchange(last) == sent[-1]


@SPELLINGS
def test_an_image_behind_another_beginning_costs_its_bytes_once_all_the_same(
    tmp_path: Path, spelled: bytes
) -> None:
    writer = LogWriter(tmp_path, program="test")
    sent = [
        exchange(
            at, log_id=writer.log_id, rollout_id=str(at), request=b'{"now":%d,"url":"%b"}' % (at, spelled)
        )
        for at in range(3)
    ]
    writer.write(sent)
    writer.close()
    assert sum(path.stat().st_size for path in log_paths([tmp_path])) < 1.05 * len(SCREENSHOT)
    assert read(tmp_path) == sent


def test_an_image_that_was_put_into_requests_costs_its_bytes_once(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, program="test")
    url = Splice(2, 9, b'"data:image/png;base64,%b"' % BASE64)
    sent = [
        exchange(turn, log_id=writer.log_id, request=b'{"%d":"http:"}' % turn, splices=(url,))
        for turn in range(30)
    ]
    writer.write(sent)
    writer.close()
    assert sum(path.stat().st_size for path in log_paths([tmp_path])) < 1.05 * len(SCREENSHOT)
    assert read(tmp_path) == sent


def test_what_was_said_of_groups_comes_back_in_order(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, program="test")
    groups = [
        Group(group_id="g", max_trajectory_tokens=4096, at=1.0, metadata={"task": ["x", {"n": 1}]}),
        Group(group_id="h", max_trajectory_tokens=None, at=2.0),
    ]
    writer.write(groups)
    with open_log(log_paths([tmp_path])[0]) as log:
        assert list(log.groups_made()) == groups
        assert log.groups == []
    writer.close()
    with open_log(log_paths([tmp_path])[0]) as log:
        assert list(log.groups_made()) == groups
        log.check()
