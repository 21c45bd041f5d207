import json
import os
import pty
import select
import subprocess
import sys
from pathlib import Path

import click
import pytest
from click.testing import CliRunner, Result

from tests.support.exchanges import exchange
from tests.support.images import processor_folder
from tests.support.logs import answered, write_log
from turnstile.cli.compile import command
from turnstile.cli.main import main
from turnstile.compiler.export import FORMATS, read_sequences
from turnstile.compiler.policies import POLICIES


def compile_(*arguments: object) -> Result:
    return CliRunner().invoke(main, ["compile", *map(str, arguments)])


def tokens(path: Path) -> list[list[int]]:
    return [sequence.tokens.tolist() for sequence in read_sequences(path)]


def findings(output: Path) -> list[str]:
    lines = Path(f"{output}.findings.jsonl").read_text().splitlines()
    return [json.loads(line)["kind"] for line in lines]


@pytest.fixture
def log(tmp_path: Path) -> Path:
    """Two calls that merge, a bad one, and one of another group."""
    return write_log(
        tmp_path / "traces",
        answered(1, [1, 2], [3]),
        answered(2, [1, 2, 3, 4], [5]),
        answered(3, [1, 2.5], [5]),
        answered(4, [1, 2], [7, 8], group_id="other"),
    )


def test_logs_become_sequences_and_a_table(log: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    result = compile_(log.parent, "-o", output)
    assert (result.exit_code, result.stdout) == (0, "")
    assert tokens(output) == [[1, 2, 3, 4, 5], [1, 2, 7, 8]]
    assert findings(output) == ["token_type"]
    *table, written = result.stderr.splitlines()
    assert written == f"written: {output} and {output}.findings.jsonl"
    assert [line.strip().split(maxsplit=1) for line in table] == [
        ["2", "groups"],
        ["4", "exchanges, 1 of them left out in part or whole"],
        ["3", "turns"],
        ["2", "sequences"],
        ["4", "trained tokens"],
        ["5", "context tokens"],
        ["1", "error: token_type"],
    ]


def test_splits_are_counted_by_cause_and_warnings_by_kind(tmp_path: Path) -> None:
    write_log(tmp_path / "traces", answered(1, [1], [2], delivered=False), answered(2, [1], [3]))
    result = compile_(tmp_path / "traces", "-o", tmp_path / "out.jsonl")
    assert [line.strip().split(maxsplit=1) for line in result.stderr.splitlines()][-3:-1] == [
        ["1", "sequences that left another: aborted"],
        ["1", "warning: undelivered"],
    ]


def test_the_summary_is_json_on_stdout_when_asked_for(log: Path, tmp_path: Path) -> None:
    result = compile_(log, "-o", tmp_path / "out.jsonl", "--json")
    assert json.loads(result.stdout) == {
        "groups": 2,
        "exchanges": 4,
        "exchanges_left_out": 1,
        "turns": 3,
        "sequences": 2,
        "trained_tokens": 4,
        "context_tokens": 5,
        "causes": {},
        "findings": {"error": {"token_type": 1}, "warning": {}},
    }


@pytest.mark.parametrize("arguments", [["-o", "out.tseq"], ["-o", "out.bin", "--format", "msgpack"]])
def test_the_format_follows_the_suffix_or_the_option(
    log: Path, arguments: list[str], monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    assert compile_(log, *arguments).exit_code == 0
    assert Path(arguments[1]).read_bytes()[:4] == b"\x28\xb5\x2f\xfd"
    assert len(tokens(Path(arguments[1]))) == 2


def test_a_suffix_without_a_format_is_a_usage_error(log: Path, tmp_path: Path) -> None:
    result = compile_(log, "-o", tmp_path / "out.txt")
    assert result.exit_code == 2
    assert (
        "Error: the name out.txt tells no format: end it in .jsonl or .tseq or .parquet, or give --format"
        in result.stderr
    )


def test_only_the_groups_that_are_named_are_compiled(log: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    result = compile_(log, "-o", output, "--group", "other", "--group", "none")
    assert (result.exit_code, tokens(output)) == (0, [[1, 2, 7, 8]])
    assert result.stderr.splitlines()[0] == "Warning: no exchange of group none is in these logs"


def test_a_policy_can_be_chosen(log: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    assert compile_(log, "-o", output, "--policy", "per-request", "--group", "g").exit_code == 0
    assert tokens(output) == [[1, 2, 3], [1, 2, 3, 4, 5]]


def test_sequences_that_are_too_long_are_cut(log: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    assert compile_(log, "-o", output, "--max-tokens", "4").exit_code == 0
    assert tokens(output) == [[1, 2, 3], [1, 2, 7, 8]]
    assert findings(output) == ["token_type", "truncated"]


def test_a_folder_that_is_no_models_is_refused(log: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    result = compile_(log, "-o", output, "--model", tmp_path)
    assert (result.exit_code, output.exists()) == (3, False)
    assert result.stderr == f"Error: {tmp_path} holds no model: expected a readable config.json in it\n"


def test_strict_tells_by_its_exit_code_that_something_was_left_out(log: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    result = compile_(log, "-o", output, "--strict")
    assert (result.exit_code, len(tokens(output))) == (4, 2)
    assert result.stderr.splitlines()[-1] == (
        f"Error: something was left out (token_type 1); see {output}.findings.jsonl"
    )
    assert compile_(log, "-o", output, "--strict", "--group", "other").exit_code == 0


def test_input_that_is_no_log_exits_with_3(tmp_path: Path) -> None:
    result = compile_(tmp_path / "absent", "-o", tmp_path / "out.jsonl")
    assert result.exit_code == 3
    assert result.stderr.startswith(f"Error: {tmp_path / 'absent'} does not exist")
    assert list(tmp_path.iterdir()) == []


@pytest.mark.parametrize(
    ("output", "message"),
    [
        ("absent/out.jsonl", "there is no directory absent to write out.jsonl into"),
        ("traces", "traces is a directory; name the file to write"),
        ("out.jsonl.findings.jsonl", "has the name of a file of findings; name another file to write"),
        ("mine.tslog", "mine.tslog has the name of a trace log; name another file to write"),
    ],
)
def test_an_output_that_cannot_be_meant_is_a_usage_error(
    log: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, output: str, message: str
) -> None:
    monkeypatch.chdir(tmp_path)
    before = log.read_bytes()
    result = compile_(log, "-o", output, "--format", "jsonl")
    assert (result.exit_code, message in result.stderr) == (2, True)
    assert log.read_bytes() == before


def test_only_regular_files_are_written_over(log: Path, tmp_path: Path) -> None:
    os.mkfifo(tmp_path / "pipe.jsonl")
    (tmp_path / "own.log").write_bytes(log.read_bytes())
    (tmp_path / "link.jsonl").symlink_to("pipe.jsonl")
    for name, message in (
        ("pipe.jsonl", "is no regular file"),
        ("link.jsonl", "is no regular file"),
        ("own.log", "is one of the files to read"),
    ):
        result = compile_(tmp_path / "own.log", "-o", tmp_path / name, "--format", "jsonl")
        assert (result.exit_code, message in result.stderr) == (2, True)
    assert (tmp_path / "pipe.jsonl").is_fifo()
    assert (tmp_path / "own.log").read_bytes() == log.read_bytes()


@pytest.mark.parametrize("name", ["/dev/stdout", "/dev/fd/1", "/proc/self/fd/1"])
def test_nothing_is_written_beside_a_device(log: Path, tmp_path: Path, name: str) -> None:
    turnstile = Path(sys.executable).with_name("turnstile")
    command = [turnstile, "compile", log, "-o", name, "--format", "jsonl"]
    with (tmp_path / "out").open("wb") as out:
        done = subprocess.run(command, stdout=out, stderr=subprocess.PIPE, text=True, check=False)
    assert (done.returncode, f"{name} is no place for files" in done.stderr) == (2, True)
    assert (tmp_path / "out").stat().st_size == 0
    assert not Path(f"{name}.findings.jsonl").exists()


def test_findings_never_take_the_place_of_an_input(log: Path, tmp_path: Path) -> None:
    own = tmp_path / "out.jsonl.findings.jsonl"
    own.write_bytes(log.read_bytes())
    result = compile_(own, "-o", tmp_path / "out.jsonl")
    assert (result.exit_code, "is one of the files to read" in result.stderr) == (2, True)
    assert own.read_bytes() == log.read_bytes()


def test_a_link_stays_one_and_what_it_points_to_is_written(log: Path, tmp_path: Path) -> None:
    (tmp_path / "there").mkdir()
    link, target = tmp_path / "link.jsonl", tmp_path / "there" / "out.jsonl"
    link.symlink_to(target)
    for _ in "no target yet", "a target":
        assert compile_(log, "-o", link).exit_code == 0
        assert (link.is_symlink(), tokens(target)) == (True, [[1, 2, 3, 4, 5], [1, 2, 7, 8]])
    assert findings(link) == ["token_type"]
    assert [path.name for path in target.parent.iterdir()] == ["out.jsonl"]


def test_files_that_are_no_logs_are_findings_beside_the_others(log: Path, tmp_path: Path) -> None:
    (log.parent / "zeros.tslog").write_bytes(bytes(4096))
    output = tmp_path / "out.jsonl"
    assert compile_(log.parent, "-o", output).exit_code == 0
    assert findings(output) == ["log_corrupt", "token_type"]
    assert compile_(log.parent / "zeros.tslog", "-o", output).exit_code == 3


def test_a_group_that_is_not_there_leaves_the_output_as_it_was(log: Path, tmp_path: Path) -> None:
    output = tmp_path / "out.jsonl"
    output.write_text("precious")
    result = compile_(log, "-o", output, "--group", "none")
    assert (result.exit_code, output.read_text()) == (3, "precious")
    assert result.stderr == "Error: no exchange of group none is in these logs; nothing is written\n"


def test_the_options_offer_what_there_is() -> None:
    choices = {parameter.name: parameter.type for parameter in command.params}
    assert isinstance(choices["format_name"], click.Choice)
    assert isinstance(choices["policy"], click.Choice)
    assert list(choices["format_name"].choices) == list(FORMATS)
    assert list(choices["policy"].choices) == [*POLICIES, "compare"]


def test_a_terminal_gets_a_progress_bar(tmp_path: Path) -> None:
    write_log(tmp_path / "traces", *(exchange(number) for number in range(20)))
    script = "from turnstile.cli.main import main; main()"
    arguments = ["compile", str(tmp_path / "traces"), "-o", str(tmp_path / "out.jsonl")]
    ours, theirs = pty.openpty()
    environment = {**os.environ, "TERM": "xterm", "COLUMNS": "100"}
    subprocess.run([sys.executable, "-c", script, *arguments], stderr=theirs, env=environment, check=True)
    os.close(theirs)
    shown = b""
    while select.select([ours], [], [], 0)[0]:
        try:
            shown += os.read(ours, 4096)
        except OSError:  # the other end is closed
            break
    os.close(ours)
    assert b"exchanges" in shown
    assert b"20/20" in shown


def test_folders_for_images_are_looked_at_before_anything_is_written(log: Path, tmp_path: Path) -> None:
    for option in ("--model", "--tokenizer", "--image-processor"):
        result = compile_(log, "-o", tmp_path / "out.jsonl", option, tmp_path)
        assert (result.exit_code, result.stderr.startswith(f"Error: {tmp_path} holds no ")) == (3, True)
        assert compile_(log, "-o", tmp_path / "out.jsonl", option, tmp_path / "absent").exit_code == 2
        assert not (tmp_path / "out.jsonl").exists()
    processor = processor_folder(tmp_path / "processor")
    assert compile_(log, "-o", tmp_path / "out.jsonl", "--image-processor", processor).exit_code == 0


def test_a_file_of_rewards_adds_to_those_of_the_log(log: Path, tmp_path: Path) -> None:
    rewards, output = tmp_path / "rewards.jsonl", tmp_path / "out.jsonl"
    lines = ({"group_id": "g", "reward": 0.5}, {"group_id": "gone", "reward": 1})
    rewards.write_text("".join(f"{json.dumps(line)}\n" for line in lines))
    assert compile_(log.parent, "-o", output, "--rewards", rewards).exit_code == 0
    assert [sequence.reward for sequence in read_sequences(output)] == [0.5, None]
    assert findings(output) == ["unmatched_reward", "token_type"]
    assert compile_(log.parent, "-o", output, "--rewards", rewards, "--group", "g").exit_code == 0
    assert findings(output) == ["token_type"]


def test_a_file_of_rewards_that_cannot_be_meant_ends_with_3(log: Path, tmp_path: Path) -> None:
    rewards, output = tmp_path / "rewards.jsonl", tmp_path / "out.jsonl"
    rewards.write_text('{"group_id": "g"}\n')
    result = compile_(log.parent, "-o", output, "--rewards", rewards)
    assert (result.exit_code, output.exists()) == (3, False)
    assert result.stderr == f"Error: {rewards}, line 1: reward is missing, expected a finite number\n"
    result = compile_(log.parent, "-o", output, "--rewards", tmp_path / "absent.jsonl")
    assert (result.exit_code, "absent.jsonl: No such file" in result.stderr) == (3, True)


def test_the_file_of_rewards_is_not_written_over(log: Path, tmp_path: Path) -> None:
    rewards = tmp_path / "rewards.jsonl"
    rewards.write_text("")
    assert compile_(log.parent, "-o", rewards, "--rewards", rewards).exit_code == 2
    assert rewards.read_text() == ""


def test_compare_prints_a_table_and_writes_nothing(log: Path, tmp_path: Path) -> None:
    before = sorted(tmp_path.rglob("*"))
    result = compile_(log, "--policy", "compare", "--group", "g")
    assert (result.exit_code, sorted(tmp_path.rglob("*"))) == (0, before)
    rows = [line.replace("│", " ").split() for line in result.stdout.splitlines() if "strict" in line]
    assert rows == [["strict", "1", "2", "3", "0", "0"]]
    assert "did not happen" in " ".join(result.stderr.split())


def test_compare_is_json_for_programs(log: Path) -> None:
    told = json.loads(compile_(log, "--policy", "compare", "--json", "--group", "g").stdout)
    assert list(told) == list(POLICIES)
    assert told["per-request"] == {
        "sequences": 2,
        "trained_tokens": 2,
        "context_tokens": 6,
        "repeated_tokens": 3,
        "unseen_tokens": 0,
    }


def test_compare_takes_no_output_and_everything_else_needs_one(log: Path, tmp_path: Path) -> None:
    result = compile_(log, "--policy", "compare", "-o", tmp_path / "out.jsonl")
    assert (result.exit_code, "--policy compare only prints a table" in result.stderr) == (2, True)
    result = compile_(log)
    assert (result.exit_code, "Missing option '-o' / '--output'." in result.stderr) == (2, True)


def test_what_another_policy_made_says_so_and_does_not_pass_verify(tmp_path: Path) -> None:
    sample, output = Path(__file__).parents[2] / "sample_traces" / "tool_loop.tslog", tmp_path / "out.jsonl"
    assert compile_(sample, "-o", output, "--policy", "splice-at-end-of-turn").exit_code == 0
    marks = [(each.metadata["policy"], each.flags) for each in read_sequences(output)]
    assert marks == [("splice-at-end-of-turn", ()), ("splice-at-end-of-turn", ("context_not_seen",))]
    result = CliRunner().invoke(main, ["verify", str(sample), str(output)])
    assert (result.exit_code, "tokens that are not the first" in result.stderr) == (1, True)
