from pathlib import Path

import orjson
import pytest

from tests.support.exchanges import exchange
from tests.support.logs import answered, write_log
from turnstile.compiler.export import format_named, read_sequences
from turnstile.compiler.output import findings_path, write_compilation
from turnstile.compiler.pipeline import Options
from turnstile.compiler.replay import Replay
from turnstile.compiler.summary import Summary


def compiled(output: Path, *logs: Path) -> Summary:
    with Replay(logs) as replay:
        return write_compilation(
            replay, output, format_named(None, output), Options(), lambda exchanges: None
        )


def files(output: Path) -> tuple[bytes, bytes]:
    return output.read_bytes(), findings_path(output).read_bytes()


@pytest.mark.parametrize("name", ["out.jsonl", "out.tseq"])
def test_sequences_and_findings_are_written(tmp_path: Path, name: str) -> None:
    bad = answered(3, [1, 2.5], [4])
    write_log(tmp_path / "log", answered(1, [1], [2]), answered(2, [1, 2, 3], [4]), bad)
    output = tmp_path / name
    summary = compiled(output, tmp_path / "log")
    assert [sequence.tokens.tolist() for sequence in read_sequences(output)] == [[1, 2, 3, 4]]
    (finding,) = map(orjson.loads, findings_path(output).read_bytes().splitlines())
    assert (finding["kind"], finding["exchange_id"], finding["choice"]) == ("token_type", bad.exchange_id, 0)
    assert summary.as_record() == {
        "groups": 1,
        "exchanges": 3,
        "exchanges_left_out": 1,
        "turns": 2,
        "sequences": 1,
        "trained_tokens": 2,
        "context_tokens": 2,
        "causes": {},
        "findings": {"error": {"token_type": 1}, "warning": {}},
    }
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", name, f"{name}.findings.jsonl"]


def test_a_findings_file_is_written_even_when_there_are_none(tmp_path: Path) -> None:
    write_log(tmp_path / "log", answered(1, [1], [2]))
    compiled(tmp_path / "out.jsonl", tmp_path / "log")
    assert (tmp_path / "out.jsonl.findings.jsonl").read_bytes() == b""


@pytest.mark.parametrize("name", ["out.jsonl", "out.tseq"])
def test_the_same_logs_give_the_same_bytes(tmp_path: Path, name: str) -> None:
    first = write_log(tmp_path / "one", answered(1, [1], [2]), answered(2, [1, 2.5], [2]))
    second = write_log(
        tmp_path / "two", answered(3, [1, 2, 3], [4]), answered(4, [-1], [2], group_id="h"), close=False
    )
    second.write_bytes(second.read_bytes()[:-1])
    for directory, logs in (("a", [first, second]), ("b", [second, first]), ("c", [tmp_path, first])):
        (tmp_path / directory).mkdir()
        compiled(tmp_path / directory / name, *logs)
    assert files(tmp_path / "a" / name) == files(tmp_path / "b" / name) == files(tmp_path / "c" / name)


def test_words_that_are_no_unicode_are_written(tmp_path: Path) -> None:
    write_log(tmp_path / "log", exchange(1, outcome="refused", error="caf\udce9"))
    compiled(tmp_path / "out.jsonl", tmp_path / "log")
    assert b"forwarded nothing: caf\\udce9" in findings_path(tmp_path / "out.jsonl").read_bytes()


def test_a_compilation_that_fails_leaves_what_was_there(tmp_path: Path) -> None:
    write_log(tmp_path / "log", answered(1, [1], [2]), answered(2, [1], [2], group_id="h"))
    output = tmp_path / "out.jsonl"
    output.write_text("earlier")

    def stop(exchanges: int) -> None:
        raise KeyboardInterrupt

    with Replay([tmp_path / "log"]) as replay, pytest.raises(KeyboardInterrupt):
        write_compilation(replay, output, format_named(None, output), Options(), stop)
    assert output.read_text() == "earlier"
    assert sorted(path.name for path in tmp_path.iterdir()) == ["log", "out.jsonl"]


def test_an_output_that_cannot_be_written_is_an_error(tmp_path: Path) -> None:
    write_log(tmp_path / "log", answered(1, [1], [2]))
    with pytest.raises(FileNotFoundError):
        compiled(tmp_path / "absent" / "out.jsonl", tmp_path / "log")
