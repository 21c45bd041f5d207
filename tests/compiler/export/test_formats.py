from pathlib import Path

import pytest

from tests.support.sequences import SEQUENCE
from turnstile.compiler.errors import SequenceFileError, UnknownFormat
from turnstile.compiler.export import FORMATS, format_named, read_sequences


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


def test_a_file_that_cannot_be_opened_is_named(tmp_path: Path) -> None:
    with pytest.raises(SequenceFileError, match=r"absent\.jsonl: cannot be opened: No such file"):
        read_sequences(tmp_path / "absent.jsonl")
