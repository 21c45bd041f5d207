import json
from pathlib import Path

import pytest
from click.testing import CliRunner, Result

from tests.support.exchanges import exchange
from tests.support.logs import write_log
from turnstile.addon.tracelog.frames import RecordType, pack_record
from turnstile.cli.main import main
from turnstile.compiler.finding import Finding
from turnstile.compiler.replay import Replay


def show(*arguments: object, color: bool = False) -> Result:
    return CliRunner().invoke(main, ["show", *map(str, arguments)], color=color)


def offsets(log: Path) -> list[int]:
    with Replay([log]) as replay:
        return [
            item.offset
            for group in replay.groups
            for item in replay.exchanges_of(group)
            if not isinstance(item, Finding)
        ]


HEADER = "began          seconds number status outcome        request reply group/rollout"


def test_an_exchange_is_a_line_of_a_narrow_terminal(tmp_path: Path) -> None:
    write_log(
        tmp_path,
        exchange(1, rollout_id="r", request=b"x" * 1234, reply=b"y" * 123_456),
        exchange(2, status=None, outcome="client_left", reply=b"", delivered=False, started_at=1.7e9),
        exchange(3, delivered=False, path="/v1/completions", duration_s=70.0),
    )
    lines = show(tmp_path).output.splitlines()
    assert lines == [
        HEADER,
        "01-01 00:16:41    0.50 000001    200 complete         1.2k   123k g/r",
        "11-14 22:13:20    0.50 000002      - client_left        15      0 g",
        "01-01 00:16:43   70.00 000003    200 undelivered        15     14 g /v1/completions",
    ]
    assert max(map(len, lines[:3])) <= 80


def test_a_group_that_is_not_there_is_told(tmp_path: Path) -> None:
    write_log(tmp_path, exchange(1))
    assert show(tmp_path, "--group", "zz").stderr == "Warning: no exchange of group zz is in these logs\n"


def test_only_the_groups_that_are_named_are_listed(tmp_path: Path) -> None:
    write_log(tmp_path, *(exchange(number, group_id=group) for number, group in enumerate("abc", 1)))
    result = show(tmp_path, "--json", "--group", "c", "--group", "a", "--group", "zz")
    assert [json.loads(line)["group_id"] for line in result.stdout.splitlines()] == ["a", "c"]
    assert result.stderr == "Warning: no exchange of group zz is in these logs\n"


def test_outcomes_are_coloured_on_a_terminal(tmp_path: Path) -> None:
    write_log(tmp_path, exchange(1), exchange(2, status=400), exchange(3, outcome="refused", status=None))
    _, *lines = show(tmp_path, color=True).output.splitlines()
    assert [
        "\x1b[32m   200 complete" in lines[0],
        "\x1b[31m   400 complete" in lines[1],
        "\x1b[33m     - refused" in lines[2],
    ] == [True] * 3


def test_json_tells_all_that_is_known_without_the_bodies(tmp_path: Path) -> None:
    log = write_log(tmp_path, exchange(1, rollout_id="r", error="slow"))
    (offset,) = offsets(log)
    assert [json.loads(line) for line in show(tmp_path, "--json").output.splitlines()] == [
        {
            "exchange_id": "0123456789abcdef-000001",
            "group_id": "g",
            "rollout_id": "r",
            "started_at": 1001.0,
            "duration_s": 0.5,
            "method": "POST",
            "path": "/v1/chat/completions",
            "status": 200,
            "outcome": "complete",
            "delivered": True,
            "error": "slow",
            "request_bytes": len(exchange(1).request),
            "reply_bytes": len(exchange(1).reply),
            "log": str(log),
            "offset": offset,
        }
    ]


def test_only_the_group_that_is_named_is_shown(tmp_path: Path) -> None:
    write_log(tmp_path, exchange(1, group_id="a"), exchange(2, group_id="b"))
    lines = show(tmp_path, "--group", "b", "--json").output.splitlines()
    assert [json.loads(line)["exchange_id"] for line in lines] == [exchange(2).exchange_id]


def test_several_logs_are_shown_one_after_the_other(tmp_path: Path) -> None:
    one, other = write_log(tmp_path / "1", exchange(1)), write_log(tmp_path / "2", exchange(2))
    logs = [json.loads(line)["log"] for line in show(other, one, "--json").output.splitlines()]
    assert logs == [str(one), str(other)]


def test_what_is_whole_of_a_torn_log_is_shown_with_a_warning(tmp_path: Path) -> None:
    log = write_log(tmp_path, exchange(1), exchange(2), close=False)
    log.write_bytes(log.read_bytes()[:-1])
    result = show(tmp_path)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 2)
    assert result.stderr.startswith(f"Warning: {log}: log_torn: the record at offset ")


def test_what_is_no_log_exits_with_3(tmp_path: Path) -> None:
    assert show(tmp_path / "absent").exit_code == 3


@pytest.mark.parametrize(("content", "kind"), [(bytes(4096), "log_corrupt"), (b"TSLOG", "log_torn")])
def test_a_file_that_is_no_log_is_passed_over_with_a_warning(
    tmp_path: Path, content: bytes, kind: str
) -> None:
    write_log(tmp_path, exchange(1))
    other = tmp_path / "0.tslog"
    other.write_bytes(content)
    result = show(tmp_path)
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 2)
    assert result.stderr.startswith(f"Warning: {other}: {kind}: the file ")
    assert show(other).exit_code == 3


def test_a_record_of_the_wrong_types_is_passed_over_with_a_warning(tmp_path: Path) -> None:
    log = write_log(tmp_path, exchange(1), close=False)
    end = log.stat().st_size
    with log.open("ab") as file:
        file.write(pack_record(RecordType.EXCHANGE, {"id": 2, "group_id": [], "sizes": [1, 1]}, b""))
    result = show(tmp_path, "--json")
    assert (result.exit_code, len(result.stdout.splitlines())) == (0, 1)
    assert result.stderr.startswith(f"Warning: {log}: record at offset {end}: cannot be read")
