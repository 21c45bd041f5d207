import base64
from dataclasses import replace
from pathlib import Path

import pytest

from tests.support.exchanges import exchange
from tests.support.logs import FACTS, weight_reading, write_log
from turnstile.addon.tracelog.errors import LogCorruptError, LogFormatError
from turnstile.addon.tracelog.frames import RecordType, pack_record
from turnstile.addon.tracelog.records import Exchange, Reward
from turnstile.addon.tracelog.writer import LogWriter
from turnstile.compiler import replay as replay_module
from turnstile.compiler.finding import Finding
from turnstile.compiler.replay import Replay

FIRST_LOG, SECOND_LOG = "a" * 16, "b" * 16


def replayed(*paths: Path, groups: tuple[str, ...] = ()) -> dict[str, list[str]]:
    """Group -> its exchange ids, findings by their kind."""
    with Replay(paths, groups) as replay:
        return {
            group: [
                item.kind if isinstance(item, Finding) else item.exchange.exchange_id
                for item in replay.exchanges_of(group)
            ]
            for group in replay.groups
        }


def test_exchanges_come_in_the_order_in_which_they_began(tmp_path: Path) -> None:
    slow = exchange(1, started_at=2.0)
    quick = exchange(2, started_at=1.0)
    also = exchange(3, started_at=2.0)
    write_log(tmp_path, also, slow, quick)
    assert replayed(tmp_path) == {"g": [quick.exchange_id, slow.exchange_id, also.exchange_id]}


def test_groups_come_in_the_order_of_their_first_exchange(tmp_path: Path) -> None:
    records = [
        exchange(1, group_id="late", started_at=3.0),
        exchange(2, group_id="b", started_at=2.0),
        exchange(3, group_id="a", started_at=2.0),
        exchange(4, group_id="early", started_at=9.0),
        exchange(5, group_id="early", started_at=1.0),
    ]
    write_log(tmp_path, *records)
    assert list(replayed(tmp_path)) == ["early", "a", "b", "late"]


def test_a_group_is_read_from_all_logs_in_whatever_order_they_are_named(tmp_path: Path) -> None:
    first, second, third = (exchange(n, started_at=float(n)) for n in (1, 2, 3))
    one = write_log(tmp_path / "one", third, first)
    other = write_log(tmp_path / "other", second)
    expected = {"g": [first.exchange_id, second.exchange_id, third.exchange_id]}
    assert replayed(one, other) == replayed(other, one) == replayed(tmp_path, one) == expected


def test_only_the_wanted_groups_are_read(tmp_path: Path) -> None:
    write_log(tmp_path, exchange(1, group_id="a"), exchange(2, group_id="b"), exchange(3, group_id="c"))
    assert list(replayed(tmp_path, groups=("c", "a", "none"))) == ["a", "c"]


def test_an_exchange_in_two_logs_is_read_once(tmp_path: Path) -> None:
    path = write_log(tmp_path / "log", exchange(1), exchange(2))
    copy = tmp_path / "copy" / path.name
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    first, second = exchange(1).exchange_id, exchange(2).exchange_id
    assert replayed(tmp_path) == {"g": [first, "duplicate_exchange", second, "duplicate_exchange"]}


def offsets(path: Path) -> list[int]:
    with Replay([path]) as replay:
        return [item.offset for item in replay.exchanges_of("g") if not isinstance(item, Finding)]


def damage(path: Path, offset: int) -> None:
    content = bytearray(path.read_bytes())
    content[offset] ^= 1
    path.write_bytes(content)


def test_a_log_cut_off_gives_what_is_whole_and_a_finding(tmp_path: Path) -> None:
    path = write_log(tmp_path, exchange(1), exchange(2), close=False)
    _, second = offsets(path)
    path.write_bytes(path.read_bytes()[:-1])
    with Replay([tmp_path]) as replay:
        (finding,) = replay.findings
    assert replayed(tmp_path) == {"g": [exchange(1).exchange_id]}
    assert (finding.kind, finding.severity, finding.exchange_id) == ("log_torn", "error", None)
    assert (finding.log, finding.offset) == (path.name, second)


def test_a_damaged_envelope_costs_that_record_and_what_rests_on_it(tmp_path: Path) -> None:
    path = write_log(tmp_path, exchange(1), exchange(2), exchange(3))
    _, second, _ = offsets(path)
    damage(path, second + 40)
    with Replay([tmp_path]) as replay:
        (finding,) = replay.findings
    assert replayed(tmp_path) == {"g": [exchange(1).exchange_id, "log_corrupt"]}
    assert (finding.kind, finding.severity, finding.log) == ("log_corrupt", "error", path.name)
    assert finding.offset == second


def test_a_damaged_image_spoils_only_the_exchange_that_holds_it(tmp_path: Path) -> None:
    image = base64.b64encode(bytes(range(256)) * 20)
    records = [
        exchange(1),
        exchange(2, request=b'{"url":"data:image/png;base64,%b"}' % image),
        exchange(3, rollout_id="other"),
    ]
    path = write_log(tmp_path, *records)
    _, second, _ = offsets(path)
    damage(path, second - 1)  # the image lies in a record of its own before it
    with Replay([tmp_path]) as replay:
        first, finding, third = replay.exchanges_of("g")
    assert not isinstance(first, Finding)
    assert not isinstance(third, Finding)
    assert (first.exchange, third.exchange) == (with_facts(records[0]), with_facts(records[2]))
    assert isinstance(finding, Finding)
    assert (finding.kind, finding.severity) == ("log_corrupt", "error")
    assert (finding.exchange_id, finding.offset) == (records[1].exchange_id, second)


def with_facts(recorded: Exchange) -> Exchange:
    return replace(recorded, backend=FACTS)


def test_a_log_without_a_readable_header_spoils_no_other(tmp_path: Path) -> None:
    good = write_log(tmp_path / "good", exchange(1))
    bad = write_log(tmp_path / "bad", exchange(2))
    damage(bad, 20)
    assert replayed(tmp_path) == {"g": [exchange(1).exchange_id]}
    with Replay([good, bad]) as replay:
        assert [(finding.kind, finding.log) for finding in replay.findings] == [("log_corrupt", bad.name)]
    with pytest.raises(LogCorruptError):
        Replay([bad])


def test_a_log_that_never_got_its_header_is_torn(tmp_path: Path) -> None:
    write_log(tmp_path, exchange(1))
    (tmp_path / "empty.tslog").write_bytes(b"")
    assert replayed(tmp_path) == {"g": [exchange(1).exchange_id]}
    with Replay([tmp_path]) as replay:
        (finding,) = replay.findings
    assert (finding.kind, finding.log, finding.offset) == ("log_torn", "empty.tslog", 0)


@pytest.mark.parametrize(
    ("content", "kind"),
    [(b"notes" * 50, "log_corrupt"), (bytes(4096), "log_corrupt"), (b"TSLOG", "log_torn"), (b"", "log_torn")],
)
def test_a_file_that_is_no_log_spoils_no_other(tmp_path: Path, content: bytes, kind: str) -> None:
    write_log(tmp_path, exchange(1))
    other = tmp_path / "other.tslog"
    other.write_bytes(content)
    assert replayed(tmp_path) == {"g": [exchange(1).exchange_id]}
    with Replay([tmp_path]) as replay:
        assert [(finding.kind, finding.severity, finding.log) for finding in replay.findings] == [
            (kind, "error", other.name)
        ]
    with pytest.raises((LogFormatError, LogCorruptError)):
        Replay([other])


@pytest.mark.parametrize("damaged", [0, 1])
def test_of_several_copies_of_an_exchange_a_whole_one_is_read(tmp_path: Path, damaged: int) -> None:
    image = base64.b64encode(bytes(range(256)) * 20)
    path = write_log(tmp_path / "0", exchange(1, request=b'{"url":"data:image/png;base64,%b"}' % image))
    copy = tmp_path / "1" / path.name
    copy.parent.mkdir()
    copy.write_bytes(path.read_bytes())
    damage((path, copy)[damaged], offsets(path)[0] - 1)
    with Replay([tmp_path]) as replay:
        found = [
            (item.kind, item.severity) if isinstance(item, Finding) else item.exchange.exchange_id
            for item in replay.exchanges_of("g")
        ]
    whole, first = exchange(1).exchange_id, ("log_corrupt", "warning")
    assert found == ([first, whole] if damaged == 0 else [whole, ("duplicate_exchange", "warning")])


def test_records_of_the_wrong_types_spoil_no_other(tmp_path: Path) -> None:
    path = write_log(tmp_path, exchange(1), close=False)
    envelope = {"id": 2, "group_id": "g", "started_at": 1e9, "duration_s": 1.0, "path": "/", "sizes": [1, 1]}
    with path.open("ab") as file:
        for wrong in {"started_at": "x"}, {"group_id": 5}, {"group_id": []}, {"base": "x"}:
            file.write(pack_record(RecordType.EXCHANGE, envelope | wrong, b""))
    assert replayed(tmp_path) == {"g": [exchange(1).exchange_id, "log_corrupt"]}
    with Replay([tmp_path]) as replay:
        assert [(finding.kind, finding.severity) for finding in replay.findings] == [
            ("log_corrupt", "error")
        ] * 3


def test_what_is_no_log_is_refused(tmp_path: Path) -> None:
    (tmp_path / "notes.tslog").write_text("no log")
    for path in (tmp_path, tmp_path / "absent"):
        with pytest.raises(LogFormatError):
            Replay([path])


def test_few_logs_stay_open(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(replay_module, "KEPT_OPEN", 1)
    for number in (1, 2, 3):
        write_log(tmp_path, exchange(number), exchange(number + 3, group_id=f"own{number}"))
    assert replayed(tmp_path) == {
        "g": [exchange(number).exchange_id for number in (1, 2, 3)],
        "own1": [exchange(4).exchange_id],
        "own2": [exchange(5).exchange_id],
        "own3": [exchange(6).exchange_id],
    }


def test_an_exchange_comes_with_the_versions_read_around_it_by_its_own_proxy(tmp_path: Path) -> None:
    write_log(tmp_path / "one", weight_reading("7", 0), exchange(1, started_at=1.0), weight_reading("7", 9))
    write_log(
        tmp_path / "two",
        weight_reading("8", 0),
        exchange(2, started_at=2.0),
        weight_reading("9", 9),
        exchange(3),
    )
    with Replay([tmp_path], ["g"]) as replay:
        found = [item.versions_read for item in replay.exchanges_of("g") if not isinstance(item, Finding)]
    assert found == [("7",), ("8", "9"), ()]


def test_the_parts_of_a_log_share_their_readings(tmp_path: Path) -> None:
    writer = LogWriter(tmp_path, program="test")
    writer.write([weight_reading("7", 0)])
    writer.close()
    writer.write([exchange(1), weight_reading("7", 9999)])
    writer.close()
    assert len(list(tmp_path.iterdir())) == 2
    with Replay([tmp_path]) as replay:
        found = [item.versions_read for item in replay.exchanges_of("g") if not isinstance(item, Finding)]
    assert found == [("7",)]


def test_rewards_come_in_the_order_in_which_they_were_posted(tmp_path: Path) -> None:
    late, early = (
        Reward(group_id="g", rollout_id=None, sequence_id=None, reward=value, at=at)
        for value, at in ((1.0, 9.0), (0.5, 3.0))
    )
    other = Reward(group_id="other", rollout_id=None, sequence_id=None, reward=2.0, at=1.0)
    write_log(tmp_path / "one", exchange(1), late, other)
    write_log(tmp_path / "two", early)
    with Replay([tmp_path], ["g"]) as replay:
        assert [given.reward for given in replay.rewards_of("g")] == [early, late]
        assert replay.rewards_of("other") == []


def test_an_exchange_can_be_read_again(tmp_path: Path) -> None:
    wanted = exchange(2, request=b'{"messages":[2]}')
    same_time = exchange(4, started_at=wanted.started_at)
    write_log(tmp_path, exchange(1), wanted, exchange(3), same_time)
    with Replay([tmp_path]) as replay:
        again = replay.exchange_again("g", wanted.started_at, wanted.exchange_id)
        assert again is not None
        assert again.request == wanted.request
        assert replay.exchange_again("g", wanted.started_at, "another") is None
