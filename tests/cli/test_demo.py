import subprocess
import sys
from pathlib import Path

from turnstile import TrainingSequence, read_sequences
from turnstile.compiler.compilation import compile_logs


def run(*arguments: str, python: str = sys.executable) -> subprocess.CompletedProcess[str]:
    command = [str(Path(python).with_name("turnstile")), "demo", *arguments]
    return subprocess.run(command, capture_output=True, text=True, check=False)


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
    assert done.stderr.splitlines()[-1].endswith(f"turnstile explain {tmp_path / 'kept' / 'traces'}")
    captured = list(compile_logs([tmp_path / "kept" / "traces"]))
    assert tokens_of(captured) == tokens_of(expected)


def test_demo_without_a_backend_at_its_url_says_so(tmp_path: Path) -> None:
    done = run("--backend", "http://127.0.0.1:9", "--keep", str(tmp_path))
    assert done.returncode == 3
    assert done.stderr.splitlines()[-1].startswith("Error: the demo did not get through")
