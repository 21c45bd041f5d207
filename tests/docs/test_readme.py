"""The README's commands, run as they stand: a replayed server, the proxy, the agent, the compiler."""

import json
import os
import shutil
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import turnstile
from tests.docs.markdown import code_blocks, commands, names_in, table
from tests.docs.recorded_policy import CALLS, write_log
from tests.house.link_tree import ROOT
from turnstile.cli.main import COMMANDS
from turnstile.free_port import free_port

README = ROOT / "README.md"
TIMEOUT_S = 60


@pytest.fixture(scope="module")
def environment(tmp_path_factory: pytest.TempPathFactory) -> dict[str, str]:
    """The user's environment, with the commands of this one first and a home of its own."""
    path = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
    return {**os.environ, "PATH": path, "HOME": str(tmp_path_factory.mktemp("home"))}


@pytest.fixture(scope="module")
def backend_port(environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Iterator[int]:
    """The port of `turnstile replay`, which answers the README's agent."""
    log = write_log(tmp_path_factory.mktemp("recorded"))
    command = ["turnstile", "replay", str(log), "--port", "0"]
    with subprocess.Popen(command, env=environment, text=True, stdout=subprocess.PIPE) as replay:
        assert replay.stdout is not None
        try:
            yield int(replay.stdout.readline())
        finally:
            replay.terminate()


@pytest.fixture(scope="module")
def ran(backend_port: int, environment: dict[str, str], tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The folder in which every command of the README has been run, in order."""
    if shutil.which("curl") is None:
        pytest.skip("the README's commands need curl, which is not on this machine")
    folder = tmp_path_factory.mktemp("readme")
    agent, _, _ = code_blocks(README, "python")
    (folder / "agent.py").write_text(agent)
    script = "\n".join(["set -e", "trap 'kill $!' EXIT", *commands(README)])
    script = script.replace(":30000", f":{backend_port}")
    script = script.replace("-p 8080", "-p PORT").replace(":8080", ":PORT").replace("PORT", str(free_port()))
    with subprocess.Popen(
        ["sh", "-c", script],
        cwd=folder,
        env=environment,
        text=True,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as shell:
        try:
            output, _ = shell.communicate(timeout=TIMEOUT_S)
        except subprocess.TimeoutExpired:
            os.killpg(shell.pid, signal.SIGKILL)
            raise
    assert shell.returncode == 0, output
    (folder / "output.txt").write_text(output)
    return folder


def test_every_console_line_is_a_command() -> None:
    lines = [line for block in code_blocks(README, "console") for line in block.splitlines()]
    assert lines == [f"$ {command}" for command in commands(README)]


def test_the_quickstart_compiles_what_the_policy_sampled(ran: Path) -> None:
    (_, prompt, first), (_, longer_prompt, second) = CALLS
    sampled = [*first, *second]
    assert longer_prompt[: len(prompt) + len(first)] == (*prompt, *(token for token, _, _ in first))
    lines = [json.loads(line) for line in (ran / "sequences.jsonl").read_text().splitlines()]
    assert [(line["group_id"], line["rollout_id"]) for line in lines] == [("task-7", "a"), ("task-7", "b")]
    for line in lines:
        assert line["tokens"] == [*longer_prompt, *(token for token, _, _ in second)]
        assert line["segment_info"] == [[False, 6], [True, 2], [False, 5], [True, 2]]
        assert [logprob for logprob in line["logprobs"] if logprob] == [logprob for _, _, logprob in sampled]
        assert line["weight_versions"][0][1] == "step-1"


def test_the_fields_are_those_of_the_table(ran: Path) -> None:
    named = [name for field, _, _ in table(README, "field", "type", "meaning") for name in names_in(field)]
    for line in (ran / "sequences.jsonl").read_text().splitlines():
        assert sorted(json.loads(line)) == sorted(named)


def test_the_other_outputs_are_written(ran: Path) -> None:
    assert (ran / "sequences.jsonl.findings.jsonl").read_text() == ""
    assert (ran / "task-7.tseq").stat().st_size > 0
    assert list((ran / "traces").glob("*.tslog"))


def test_the_sequences_can_be_read_in_python(ran: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(ran)
    _, _, reading = code_blocks(README, "python")
    names: dict[str, Any] = {}
    exec(reading, names)
    sampled = [*CALLS[0][2], *CALLS[1][2]]
    assert names["sampled_ids"].tolist() == [token for token, _, _ in sampled]
    assert names["logprobs"].tolist() == [logprob for _, _, logprob in sampled]
    compiled = [sequence.sequence_id for sequence in turnstile.compile_logs([ran / "traces"])]
    read = turnstile.read_sequences(ran / "sequences.jsonl")
    assert compiled == [sequence.sequence_id for sequence in read]


def test_a_program_can_run_the_proxy_by_itself(
    backend_port: int, environment: dict[str, str], tmp_path: Path
) -> None:
    agent, training, _ = code_blocks(README, "python")
    (tmp_path / "agent.py").write_text(agent)

    def run_agent(base_url: str) -> None:
        keys = {"OPENAI_BASE_URL": base_url, "OPENAI_API_KEY": "none"}
        subprocess.run([sys.executable, tmp_path / "agent.py"], env={**environment, **keys}, check=True)

    client = """...  # an OpenAI client at f"http://{proxy.addr}/group/{group_id}/v1\""""
    assert client in training
    names: dict[str, Any] = {"run_agent": run_agent}
    script = training.replace(client, 'run_agent(f"http://{proxy.addr}/group/{group_id}/v1")')
    exec(script.replace(":30000", f":{backend_port}"), names)
    (sequence,) = names["sequences"]
    assert isinstance(sequence, turnstile.TrainingSequence)
    assert sequence.group_id == names["group_id"]
    sampled = [token for _, _, answer in CALLS for token, _, _ in answer]
    assert sequence.tokens[sequence.loss_mask].tolist() == sampled


def test_the_table_of_commands_is_the_one_of_the_command() -> None:
    rows = table(README, "command", "what")
    assert [names_in(command)[0].split()[1] for command, _ in rows] == list(COMMANDS)


def test_the_table_of_options_is_the_one_of_the_addon() -> None:
    from turnstile.addon.capture.options import DEFAULTS

    stated = {
        names_in(option)[0]: "" if default == "empty" else names_in(default)[0]
        for option, default, _ in table(README, "option", "default", "meaning")
    }
    assert stated == {name: default for name, (default, _) in DEFAULTS.items()}


def test_what_make_is_said_to_do_it_does() -> None:
    parallel = "--numprocesses auto --dist loadfile"
    does_what = {"demo": ".venv/bin/turnstile demo", "test": f".venv/bin/python -m pytest {parallel}"}
    for target, does in does_what.items():
        assert f"`make {target}`" in README.read_text()
        command = ["make", "--no-print-directory", "-n", target]
        plan = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, check=True)
        assert plan.stdout.splitlines()[-1] == does
