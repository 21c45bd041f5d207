import os
import subprocess
import sys
from pathlib import Path

import pytest
from click.testing import CliRunner

from turnstile import TrainingSequence, read_sequences
from turnstile.cli.main import main
from turnstile.compiler.compilation import compile_logs

TURNSTILE = Path(sys.executable).with_name("turnstile")


def run(*arguments: str) -> subprocess.CompletedProcess[str]:
    command = [TURNSTILE, "demo", *arguments]
    environment = {**os.environ, "PATH": "/usr/bin:/bin"}
    return subprocess.run(command, env=environment, capture_output=True, text=True, check=False)


def tokens_of(
    sequences: list[TrainingSequence],
) -> list[tuple[str | None, list[int], tuple[tuple[bool, int], ...]]]:
    return [(each.rollout_id, each.tokens.tolist(), each.segment_info) for each in sequences]


def test_demo_captures_and_compiles_what_the_recorded_server_sampled(tmp_path: Path) -> None:
    done = run("--keep", str(tmp_path / "kept"))
    assert done.returncode == 0, done.stderr
    assert "Rome is warmer by" in done.stderr
    for word in ("steady", "drifting", "retokenized"):
        assert word in done.stdout
    expected = list(read_sequences(Path(__file__).parents[2] / "sample_traces" / "tool_loop.jsonl"))
    assert done.stderr.splitlines()[-1].endswith(f" {TURNSTILE} explain {tmp_path / 'kept' / 'traces'}")
    captured = list(compile_logs([tmp_path / "kept" / "traces"]))
    assert tokens_of(captured) == tokens_of(expected)


def test_demo_without_a_backend_at_its_url_says_so(tmp_path: Path) -> None:
    done = run("--backend", "http://127.0.0.1:9", "--keep", str(tmp_path))
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith("Error: the demo did not get through")


def test_demo_without_the_openai_client_says_how_to_install_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setitem(sys.modules, "openai", None)
    result = CliRunner().invoke(main, ["demo"])
    assert (result.exit_code, result.stderr.splitlines()[-1]) == (
        2,
        "Error: the demo needs the OpenAI client: install turnstile-rl with its extra demo "
        "(in a clone: pip install '.[demo]')",
    )
