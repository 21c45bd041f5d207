from pathlib import Path

import pytest

from tests.support.sequences import SEQUENCE
from turnstile.compiler.errors import SequenceFileError, UnknownFormat
from turnstile.compiler.export import FORMATS, format_named, is_compiled, read_sequences


@pytest.mark.parametrize("name", FORMATS)
def test_a_file_tells_its_format_whatever_its_name(tmp_path: Path, name: str) -> None:
    path = tmp_path / "out"
    with format_named(name, path).open_writer(path) as writer:
        writer.write(SEQUENCE)
    for given in (path, str(path)):
        assert [sequence.sequence_id for sequence in read_sequences(given)] == ["e1.0"]


@pytest.mark.parametrize(("name", "suffix"), [(name, suffix) for name, (_, suffix) in FORMATS.items()])
def test_a_suffix_names_a_format(name: str, suffix: str) -> None:
    assert format_named(None, Path(f"out{suffix}")) is format_named(name, Path("out"))


def test_a_named_format_comes_before_the_suffix() -> None:
    assert format_named("msgpack", Path("out.jsonl")) is format_named("msgpack", Path("out"))


@pytest.mark.parametrize(
    ("name", "output", "message"),
    [
        (
            None,
            "out.txt",
            r"the name out\.txt tells no format: end it in \.jsonl or \.tseq or \.parquet, or give --format",
        ),
        ("csv", "out", "there is no format 'csv'; there are jsonl, msgpack"),
    ],
)
def test_an_unknown_format_is_refused(name: str | None, output: str, message: str) -> None:
    with pytest.raises(UnknownFormat, match=message):
        format_named(name, Path(output))


def test_an_empty_file_holds_no_sequences(tmp_path: Path) -> None:
    (tmp_path / "out.jsonl").touch()
    assert list(read_sequences(tmp_path / "out.jsonl")) == []


@pytest.mark.parametrize("name", ["out.tseq", "out.parquet"])
def test_an_empty_file_of_a_format_that_is_never_empty_is_refused(tmp_path: Path, name: str) -> None:
    (tmp_path / name).touch()
    with pytest.raises(SequenceFileError) as caught:
        read_sequences(tmp_path / name)
    assert str(caught.value) == (
        f"{tmp_path / name}: 0 bytes, and a {Path(name).suffix} file of no sequences has some: "
        "it was not written whole; compile it again"
    )


def test_a_file_of_findings_is_no_file_of_sequences(tmp_path: Path) -> None:
    with pytest.raises(SequenceFileError, match="holds findings; name the compiled file"):
        read_sequences(tmp_path / "out.jsonl.findings.jsonl")


def test_a_name_tells_what_is_to_be_read_as_compiled(tmp_path: Path) -> None:
    for name in ("out", "a.tslog"):
        (tmp_path / name).touch()
    (tmp_path / "logs.jsonl").mkdir()
    names = ("out", "a.tslog", "absent.tseq", "absent.tslog", "absent", "logs.jsonl")
    assert [name for name in names if is_compiled(tmp_path / name)] == ["out", "absent.tseq"]


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(SequenceFileError, match=r"absent\.jsonl: cannot be opened: No such file"):
        read_sequences(tmp_path / "absent.jsonl")
