from pathlib import Path

import pytest

from turnstile import compile_logs, read_sequences
from turnstile.addon.tracelog.reader import open_log
from turnstile.compiler.export import format_named

FOLDER = Path(__file__).parents[2] / "sample_traces"
LOGS = pytest.mark.parametrize("log", sorted(FOLDER.glob("*.tslog")), ids=lambda path: path.stem)


@LOGS
def test_sample_trace_compiles_to_the_sequences_beside_it(log: Path, tmp_path: Path) -> None:
    expected = log.with_suffix(".jsonl")
    compiled = compile_logs([log])
    assert compiled.findings == ()
    output = tmp_path / "out.jsonl"
    with format_named(None, output).open_writer(output) as writer:
        for sequence in compiled:
            writer.write(sequence)
    assert output.read_bytes() == expected.read_bytes()
    assert len(list(read_sequences(expected))) == len(compiled) > 0


@LOGS
def test_sample_trace_is_undamaged_and_its_source_is_told(log: Path) -> None:
    with open_log(log) as reader:
        reader.check()
        assert reader.damage is None
    assert f"`{log.name}`" in (FOLDER / "README.md").read_text()
