import builtins
import json
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, pre_tokenizers

from tests.support.tokenizer import tokenizer, write_tokenizer
from turnstile.compiler.errors import NotInstalled, UnusableFolder
from turnstile.compiler.tokenizer import Tokenizer, tokenizer_in


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return tokenizer(tmp_path_factory.mktemp("tokenizer"))


def test_every_byte_and_mark_has_its_bytes(small: Tokenizer) -> None:
    told = {small.bytes_of(token_id) for token_id in range(256)}
    assert told == {bytes([byte]) for byte in range(256)}
    for mark in ("<|im_end|>", "<think>"):
        (token_id,) = small.ids_of(mark)
        assert (small.bytes_of(token_id), small.is_added(token_id)) == (mark.encode(), True)
    assert not any(small.is_added(token_id) for token_id in small.ids_of("hello"))


def test_an_id_beyond_the_vocabulary_has_no_bytes(small: Tokenizer) -> None:
    assert small.bytes_of(100_000) is None


@given(text=st.text(max_size=40))
def test_the_bytes_of_the_ids_of_a_text_are_the_texts(small: Tokenizer, text: str) -> None:
    assert b"".join(small.bytes_of(each) or b"?" for each in small.ids_of(text)) == text.encode()


def test_a_tokenizer_of_sentencepiece_spells_spaces_and_single_bytes(tmp_path: Path) -> None:
    vocabulary = {"<unk>": 0, "<0xE2>": 1, "▁hi": 2}
    library = Library(models.BPE(vocab=vocabulary, merges=[], unk_token="<unk>", byte_fallback=True))
    library.decoder = decoders.Sequence([decoders.Replace("▁", " "), decoders.ByteFallback()])
    library.save(str(tmp_path / "tokenizer.json"))
    read = tokenizer_in(tmp_path)
    assert [read.bytes_of(token_id) for token_id in (1, 2)] == [b"\xe2", b" hi"]


@pytest.mark.parametrize("piece", ["<pad token>", "▁x"])
def test_an_entry_that_no_bytes_spell_is_spelled_as_it_stands(tmp_path: Path, piece: str) -> None:
    alphabet = sorted(pre_tokenizers.ByteLevel.alphabet())
    vocabulary = {each: at for at, each in enumerate([*alphabet, piece])}
    library = Library(models.BPE(vocab=vocabulary, merges=[]))
    library.decoder = decoders.ByteLevel()
    library.save(str(tmp_path / "tokenizer.json"))
    assert tokenizer_in(tmp_path).bytes_of(len(alphabet)) == piece.encode()


def test_a_folder_without_a_tokenizer_is_refused(tmp_path: Path) -> None:
    with pytest.raises(UnusableFolder, match=r"holds no tokenizer\.json"):
        tokenizer_in(tmp_path)
    (tmp_path / "tokenizer.json").write_text(json.dumps({"version": "1.0"}))
    with pytest.raises(UnusableFolder, match="cannot be read as a tokenizer"):
        tokenizer_in(tmp_path)


def test_without_the_library_the_message_says_what_to_install(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    write_tokenizer(tmp_path)
    import_ = builtins.__import__

    def without(name: str, *rest: object) -> object:
        if name == "tokenizers":
            raise ModuleNotFoundError(name)
        return import_(name, *rest)  # type: ignore[arg-type]

    monkeypatch.setattr(builtins, "__import__", without)
    with pytest.raises(NotInstalled, match=r"package: install .* extra tokenizer"):
        tokenizer_in(tmp_path)
