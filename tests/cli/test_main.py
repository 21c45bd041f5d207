import errno
import importlib.metadata
import subprocess
import sys

import click
import pytest
from click.testing import CliRunner

from turnstile.addon.tracelog.errors import LogFormatError
from turnstile.cli.errors import CheckFailed, ExchangesLeftOut
from turnstile.cli.main import COMMANDS, CommandTable, load_command, main

HEAVY = {
    "mitmproxy", "numpy", "openai", "rich", "transformers", "orjson", "msgpack", "zstandard",
    "turnstile.compiler", "turnstile.addon.capture", "asyncio", "http", "urllib.request",
}  # fmt: skip


def help_of(name: str) -> str:
    result = CliRunner().invoke(main, [name, "--help"])
    assert result.exit_code == 0, result.output
    return result.output


@pytest.mark.parametrize("option", ["--help", "-h", "--version"])
def test_the_overview_imports_nothing_heavy(option: str) -> None:
    script = (
        "import sys\n"
        "from turnstile.cli.main import main\n"
        f"main([{option!r}], standalone_mode=False)\n"
        f"print('imported:', sorted({HEAVY!r} & set(sys.modules)))\n"
    )
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=True)
    assert done.stdout.splitlines()[-1] == "imported: []"


def test_the_overview_lists_every_command_with_its_line() -> None:
    output = CliRunner().invoke(main, ["--help"], terminal_width=110).output
    listed = output.partition("Commands:\n")[2].split("\n\n")[0].splitlines()
    assert [line.split(maxsplit=1) for line in listed] == [
        [name, entry.short_help] for name, entry in COMMANDS.items()
    ]


@pytest.mark.parametrize("name", COMMANDS)
def test_a_line_of_the_overview_is_the_first_sentence_of_the_help(name: str) -> None:
    assert load_command(name).get_short_help_str(200) == COMMANDS[name].short_help


@pytest.mark.parametrize("name", COMMANDS)
def test_a_commands_help_ends_with_an_example_of_it(name: str) -> None:
    _, heading, example = help_of(name).rpartition("\n  Example:\n")
    assert heading
    assert all(line.startswith("    ") for line in example.splitlines())
    assert f"turnstile {name}" in example


def test_the_version_is_that_of_the_distribution() -> None:
    result = CliRunner().invoke(main, ["--version"])
    assert result.output == f"turnstile, version {importlib.metadata.version('turnstile-rl')}\n"


@pytest.mark.parametrize("arguments", [["no-such-command"], ["--no-such-option"], ["addon-path", "surplus"]])
def test_a_wrong_command_line_exits_with_2(arguments: list[str]) -> None:
    result = CliRunner().invoke(main, arguments)
    assert result.exit_code == 2
    assert "Error: No such" in result.stderr or "Error: Got unexpected" in result.stderr


def table_that_fails_with(error: Exception) -> CommandTable:
    def fail() -> None:
        raise error

    return CommandTable("turnstile", commands={"fail": click.Command("fail", callback=fail)})


@pytest.mark.parametrize(
    ("error", "exit_code", "stderr"),
    [
        (LogFormatError("traces/a.tslog: no trace log"), 3, "Error: traces/a.tslog: no trace log\n"),
        (
            FileNotFoundError(errno.ENOENT, "No such file or directory", "traces"),
            3,
            "Error: traces: No such file or directory\n",
        ),
        (ConnectionRefusedError("nobody\nlistens"), 3, "Error: nobody listens\n"),
        (CheckFailed("sequence 3: lengths differ"), 1, "Error: sequence 3: lengths differ\n"),
        (ExchangesLeftOut("2 exchanges were left out"), 4, "Error: 2 exchanges were left out\n"),
    ],
)
def test_an_error_is_one_line_on_stderr_and_an_exit_code(
    error: Exception, exit_code: int, stderr: str
) -> None:
    result = CliRunner().invoke(table_that_fails_with(error), ["fail"])
    assert (result.exit_code, result.stdout, result.stderr) == (exit_code, "", stderr)


def test_a_bug_keeps_its_traceback() -> None:
    result = CliRunner().invoke(table_that_fails_with(ValueError("an invariant of ours")), ["fail"])
    assert isinstance(result.exception, ValueError)


def test_a_reader_that_leaves_is_no_error() -> None:
    table = table_that_fails_with(BrokenPipeError(errno.EPIPE, "Broken pipe"))
    assert CliRunner().invoke(table, ["fail"]).stderr == ""
