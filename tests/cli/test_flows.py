import errno
import os
from pathlib import Path
from typing import BinaryIO

import pytest
from click.testing import CliRunner, Result
from mitmproxy.flow import Flow
from mitmproxy.io import FlowReader

from tests.support.exchanges import exchange
from tests.support.logs import answered, write_log
from turnstile.addon.tracelog.reader import open_log
from turnstile.cli.main import main


def flows(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["flows", *map(str, arguments)])


def written(path: Path) -> list[Flow]:
    with path.open("rb") as file:
        return list(FlowReader(file).stream())


def exchange_ids(path: Path) -> list[str]:
    return [flow.id[-1] for flow in written(path)]


@pytest.fixture
def out(tmp_path: Path) -> Path:
    return tmp_path / "trace.mitm"


def test_every_exchange_becomes_a_flow(tmp_path: Path, out: Path) -> None:
    write_log(tmp_path / "1", exchange(1), exchange(2))
    write_log(tmp_path / "2", exchange(3))
    result = flows(tmp_path / "1", tmp_path / "2", "-o", out)
    assert (result.exit_code, result.stdout) == (0, "")
    assert result.stderr == f"written: {out}, 3 flows\n"
    assert exchange_ids(out) == ["1", "2", "3"]


def test_a_flow_names_its_log_wherever_it_will_be_read(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    log = write_log(tmp_path / "logs", exchange(1))
    monkeypatch.chdir(tmp_path)
    assert flows("logs", "-o", out).exit_code == 0
    assert [flow.metadata["turnstile_log"] for flow in written(out)] == [str(log)]


def test_only_the_groups_that_are_named(tmp_path: Path, out: Path) -> None:
    groups = [exchange(number, group_id=group) for number, group in enumerate("abc", start=1)]
    write_log(tmp_path, *groups)
    assert flows(tmp_path, "-o", out, "--group", "c", "--group", "a").exit_code == 0
    assert exchange_ids(out) == ["1", "3"]


def test_comments_and_marks_tell_turns_splits_and_findings(tmp_path: Path, out: Path) -> None:
    talk = [([1, 2], [3]), ([1, 2, 3, 4], [5]), ([1, 9], [6])]
    turns = [answered(at, *ids, rollout_id="r") for at, ids in enumerate(talk, 1)]
    write_log(tmp_path / "2", turns[2], answered(4, [1], [2], choice_fields={"token_ids": [3]}))
    write_log(tmp_path / "1", turns[0], turns[1])
    assert flows(tmp_path, "-o", out).exit_code == 0
    assert [(flow.comment, flow.marked) for flow in written(out)] == [
        ("g/r  turn 1  2+1 tokens  stop", ""),
        ("g/r  turn 2  4+1 tokens  stop", ""),
        ("g/r  turn 3  2+1 tokens  stop  split: new_prompt", ":scissors:"),
        ("g  1+1 tokens  stop  token_source_conflict", ":warning:"),
    ]


def test_nothing_to_show_writes_nothing(tmp_path: Path, out: Path) -> None:
    write_log(tmp_path, exchange(1))
    result = flows(tmp_path, "-o", out, "--group", "zz")
    assert (result.exit_code, out.exists()) == (3, False)
    assert "no exchange of group zz can be read" in result.stderr


def test_what_is_whole_of_a_torn_log_is_written_with_a_warning(tmp_path: Path, out: Path) -> None:
    log = write_log(tmp_path, exchange(1), exchange(2), close=False)
    log.write_bytes(log.read_bytes()[:-1])
    result = flows(tmp_path, "-o", out)
    assert (result.exit_code, exchange_ids(out)) == (0, ["1"])
    assert f"Warning: {log}: log_torn" in result.stderr


def test_a_damaged_exchange_is_passed_over_with_a_warning(tmp_path: Path, out: Path) -> None:
    log = write_log(tmp_path, exchange(1), exchange(2, group_id="other"))
    content = bytearray(log.read_bytes())
    with open_log(log) as reader:
        first, second = reader.offsets()
    content[second - 1] ^= 1  # the end of the first one's body
    log.write_bytes(content)
    result = flows(tmp_path, "-o", out)
    assert (result.exit_code, exchange_ids(out)) == (0, ["2"])
    assert f"offset {first}" in result.stderr


def test_a_log_of_any_name_becomes_flows(tmp_path: Path, out: Path) -> None:
    log = write_log(tmp_path, exchange(1))
    log.rename(tmp_path / os.fsdecode(b"caf\xe9.tslog"))
    assert (flows(tmp_path, "-o", out).exit_code, exchange_ids(out)) == (0, ["1"])


def test_a_file_of_flows_is_whole_or_not_there(
    tmp_path: Path, out: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_log(tmp_path / "traces", exchange(1))

    def full(file: BinaryIO, *_: object) -> int:
        file.write(b"half")
        raise OSError(errno.ENOSPC, "No space left on device")

    monkeypatch.setattr("turnstile.addon.capture.log_flows.write_flows", full)
    assert flows(tmp_path / "traces", "-o", out).exit_code == 3
    assert [path.name for path in tmp_path.iterdir()] == ["traces"]


def test_a_log_is_not_written_over(tmp_path: Path) -> None:
    log = write_log(tmp_path, exchange(1))
    assert flows(log, "-o", log).exit_code == 2
    assert flows(log, "-o", tmp_path).exit_code == 2
