import sys
from pathlib import Path

import pytest
from tokenizers import Tokenizer, decoders, models

from tests.support.report_pages import branch
from turnstile.compiler.errors import NotInstalled, UnusableFolder
from turnstile.compiler.report.texts import texts_of


def folder_of(folder: Path, vocabulary: list[str], decoder: object) -> Path:
    """A tokenizer with these tokens, whose ids are their places."""
    ids = {token: number for number, token in enumerate(vocabulary)}
    tokenizer = Tokenizer(models.BPE(ids, []))
    tokenizer.decoder = decoder
    tokenizer.add_special_tokens(["<|end|>"])
    tokenizer.save(str(folder / "tokenizer.json"))
    return folder


def test_bytes_are_decoded_and_part_of_a_character_is_an_escape(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, ["Ġhello", "Ċ", "ð", "é"], decoders.ByteLevel())
    texts = texts_of([branch(1, [0, 1, 2]), branch(2, [4, 4])], folder)
    assert texts == {0: " hello", 1: "\n", 2: r"\xf0", 4: "<|end|>"}


def test_the_space_before_a_word_is_kept(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, ["▁hello", "llo"], decoders.Metaspace())
    assert texts_of([branch(1, [0, 1])], folder) == {0: " hello", 1: "llo"}


def test_an_id_that_the_tokenizer_has_not_is_left_out(tmp_path: Path) -> None:
    folder = folder_of(tmp_path, ["a"], decoders.ByteLevel())
    assert texts_of([branch(1, [0, 999])], folder) == {0: "a"}


def test_without_sequences_there_are_no_texts(tmp_path: Path) -> None:
    assert texts_of([], folder_of(tmp_path, ["a"], decoders.ByteLevel())) == {}


@pytest.mark.parametrize(
    ("content", "says"), [(None, "holds no tokenizer.json"), ("{}", "cannot be read as a tokenizer")]
)
def test_a_folder_without_a_tokenizer_is_named(tmp_path: Path, content: str | None, says: str) -> None:
    if content is not None:
        (tmp_path / "tokenizer.json").write_text(content)
    with pytest.raises(UnusableFolder, match=f"{tmp_path}.*{says}"):
        texts_of([branch(1, [0, 1])], tmp_path)


def test_without_the_library_it_is_said_how_to_get_it(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    folder = folder_of(tmp_path, ["a"], decoders.ByteLevel())
    monkeypatch.setitem(sys.modules, "tokenizers", None)
    with pytest.raises(NotInstalled, match=r"package: install .* extra tokenizer"):
        texts_of([branch(1, [0, 1])], folder)
