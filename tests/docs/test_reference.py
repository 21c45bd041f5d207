"""The tables of docs/, held against the code that they describe."""

import ast
import json
import re
from collections.abc import Iterable, Iterator
from dataclasses import fields
from pathlib import Path
from typing import Any, get_args

import pyarrow
import pytest
from click.testing import CliRunner

import turnstile
from tests.docs.markdown import code_blocks, names_in, table
from tests.house.link_tree import ROOT
from tests.support.exchanges import exchange
from tests.support.images import processor_folder
from tests.support.logs import write_log
from tests.support.sequences import SEQUENCE
from turnstile.cli.main import main
from turnstile.compiler.audit import Audit
from turnstile.compiler.explain.kind import MEANINGS
from turnstile.compiler.explain.split import Split
from turnstile.compiler.export import format_named
from turnstile.compiler.export.parquet import open_writer
from turnstile.compiler.finding import Finding
from turnstile.compiler.images.processor import ImageProcessor
from turnstile.compiler.policies import POLICIES
from turnstile.compiler.policy_comparison import Tally
from turnstile.compiler.report.wordings import CAUSES, FLAGS
from turnstile.compiler.retokenization import Kind
from turnstile.compiler.rewards import RESERVED
from turnstile.compiler.sequence import Cause
from turnstile.compiler.summary import Summary
from turnstile.doctor import Report
from turnstile.doctor.report import Check, Status

README, SEQUENCES = ROOT / "README.md", ROOT / "docs" / "sequences.md"
FINDINGS, JSON = ROOT / "docs" / "findings.md", ROOT / "docs" / "json.md"
SAMPLE = ROOT / "sample_traces" / "tool_loop.tslog"


def named(path: Path, *columns: str, under: str = "") -> list[str]:
    """What the first cells of a table name."""
    return [name for cell, *_ in table(path, *columns, under=under) for name in names_in(cell)]


def keys(under: str) -> list[str]:
    return named(JSON, "key", "type", "meaning", under=under)


def test_the_sample_of_explain_is_what_it_prints_of_the_demo() -> None:
    printed = CliRunner().invoke(main, ["explain", str(SAMPLE), "--examples", "1"]).stdout
    sample = code_blocks(README, "text")[-1]
    assert [line.rstrip() for line in printed.splitlines()] == sample.splitlines()


def test_every_kind_of_split_has_its_meaning_and_what_to_do() -> None:
    rows = table(README, "kind", "meaning", "what to do")
    assert {names_in(kind)[0]: meaning for kind, meaning, _ in rows} == MEANINGS
    assert all(advice for _, _, advice in rows)


def test_every_cause_has_the_reports_words() -> None:
    rows = table(SEQUENCES, "cause", "the first turn of this sequence")
    assert {names_in(cause)[0]: meaning for cause, meaning in rows} == CAUSES
    assert set(CAUSES) == set(get_args(Cause))


def test_every_flag_is_told() -> None:
    assert named(SEQUENCES, "flag", "meaning", "what to do") == sorted(FLAGS)


def test_every_key_that_turnstile_fills_in_is_told() -> None:
    assert named(SEQUENCES, "key", "type", "meaning", under="## Metadata") == list(RESERVED)


def test_what_a_processor_tells_of_itself_is_told(tmp_path: Path) -> None:
    (cell,) = (
        meaning
        for key, _, meaning in table(SEQUENCES, "key", "type", "meaning", under="## Images and tensors")
        if names_in(key) == ["processor"]
    )
    identity = ImageProcessor(processor_folder(tmp_path)).identity
    assert [name for name in names_in(cell) if name not in ("pil", "torchvision")] == list(identity)


def test_the_columns_of_parquet_are_those_that_are_written(tmp_path: Path) -> None:
    with open_writer(tmp_path / "out.parquet") as writer:
        writer.write(SEQUENCE)
    schema = pyarrow.parquet.read_schema(tmp_path / "out.parquet")
    assert sorted(named(SEQUENCES, "column", "type")) == sorted(schema.names)
    stated = {name: kind for names, kind in table(SEQUENCES, "column", "type") for name in names_in(names)}
    for field in schema:
        inner = field.type.value_type if pyarrow.types.is_list(field.type) else field.type
        members = [inner.field(at).name for at in range(inner.num_fields)] if _is_struct(inner) else []
        assert [name for name in members if f"`{name}`" not in stated[field.name]] == []


def _is_struct(kind: Any) -> bool:
    return bool(pyarrow.types.is_struct(kind))


def test_the_example_of_tensors_runs(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.chdir(tmp_path)
    with format_named(None, Path("sequences.jsonl")).open_writer(Path("sequences.jsonl")) as writer:
        writer.write(SEQUENCE)
    (example,) = code_blocks(SEQUENCES, "python")
    exec(example, names := dict[str, Any]())
    assert isinstance(names["sequence"], turnstile.TrainingSequence)


def test_every_kind_of_finding_is_told() -> None:
    sources = [path for name in ("compiler", "addon") for path in (ROOT / name).rglob("*.py")]
    trees = [ast.parse(path.read_text()) for path in sources]
    nodes = [node for tree in trees for node in ast.walk(tree)]
    texts = {node.value for node in nodes if isinstance(node, ast.Constant)}
    told = {*named(FINDINGS, "kind", "what was found")}
    assert (told - texts, {*_found(nodes)} - told) == (set(), set())
    assert named(FINDINGS, "key", "type", "meaning") == [field.name for field in fields(Finding)]


def _found(nodes: Iterable[ast.AST]) -> Iterator[str]:
    """The kinds that stand as a text where a finding is made."""
    for node in nodes:
        if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
            first = node.args[0] if node.args and node.func.attr in ("error", "warning") else None
            if isinstance(first, ast.Constant) and re.fullmatch("[a-z_]+", str(first.value)):
                yield str(first.value)


def test_the_keys_of_json_are_those_that_are_printed(tmp_path: Path) -> None:
    shown = CliRunner().invoke(main, ["show", str(write_log(tmp_path, exchange())), "--json"]).stdout
    split = CliRunner().invoke(main, ["explain", str(SAMPLE), "--json"]).stdout.splitlines()[0]
    assert keys("## show") == list(json.loads(shown))
    assert keys("## explain") == list(json.loads(split))
    assert {field.name for field in fields(Split)} - {*keys("## explain")} == {"parent_id"}
    assert sorted(keys("## audit")) == sorted(Audit().as_record())
    assert keys("## doctor") == list(Report("", "unknown", None, ()).as_record())
    assert sorted(keys("## compile")) == sorted(Summary().as_record())
    assert keys("## compile --policy compare") == list(Tally().as_record())


def test_the_values_of_json_are_those_that_can_be() -> None:
    text = JSON.read_text()
    assert named(JSON, "status", "meaning") == list(get_args(Status))
    assert [
        name for name in (*POLICIES, *(field.name for field in fields(Check))) if f"`{name}`" not in text
    ] == []
    compared = {*get_args(Kind)} - {"unknown_id"}  # an answer with such an id is not compared
    assert [kind for kind in compared if f"`{kind}`" not in text] == []
