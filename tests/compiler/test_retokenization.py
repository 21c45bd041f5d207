from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st
from tokenizers import Tokenizer as Library
from tokenizers import decoders, models, normalizers, pre_tokenizers

from tests.support.tokenizer import tokenizer
from turnstile.compiler.retokenization import Retokenization, retokenization
from turnstile.compiler.tokenizer import Tokenizer, tokenizer_in

END = "<|im_end|>"


@pytest.fixture(scope="module")
def small(tmp_path_factory: pytest.TempPathFactory) -> Tokenizer:
    return tokenizer(tmp_path_factory.mktemp("tokenizer"))


def ids(small: Tokenizer, *pieces: str) -> list[int]:
    return [token_id for piece in pieces for token_id in small.ids_of(piece)]


def test_ids_that_come_back_do_not_differ(small: Tokenizer) -> None:
    assert retokenization(ids(small, "hello", " world", END), small) is None


def test_a_word_sampled_in_letters_comes_back_in_one_token(small: Tokenizer) -> None:
    sampled = ids(small, "?", *"hello", "?", *"hello", END)
    assert retokenization(sampled, small) == Retokenization(
        "split_differently", 10, 1, ids(small, *"hello"), ids(small, "hello")
    )


def test_a_mark_sampled_in_letters_comes_back_as_a_mark(small: Tokenizer) -> None:
    sampled = ids(small, *"<think>", "?")
    assert retokenization(sampled, small) == Retokenization(
        "mark_as_text", 7, 0, ids(small, *"<think>"), ids(small, "<think>")
    )


def test_half_a_character_never_comes_back(small: Tokenizer) -> None:
    euro = ids(small, "€")
    sampled = [*ids(small, "?"), *euro[:2], *ids(small, "!")]
    found = retokenization(sampled, small)
    assert found == Retokenization("half_character", 2, 1, euro[:2], ids(small, "\ufffd"))
    assert retokenization(euro, small) is None


def test_an_id_of_another_tokenizer_is_told(small: Tokenizer) -> None:
    sampled = [*ids(small, "?"), 100_000, 100_001]
    assert retokenization(sampled, small) == Retokenization("unknown_id", 2, 1, [100_000], [])


@given(sampled=st.lists(st.integers(0, 275), min_size=1, max_size=30))
def test_what_does_not_differ_is_what_comes_back(small: Tokenizer, sampled: list[int]) -> None:
    found = retokenization(sampled, small)
    spelled = b"".join(small.bytes_of(each) or b"" for each in sampled)
    back = small.ids_of(spelled.decode(errors="replace"))
    assert (found is None) == (back == sampled)
    if found is not None:
        assert 0 < found.tokens <= len(sampled) or found.kind == "half_character"
        end = found.start + len(found.sampled_ids)
        assert list(found.sampled_ids) == sampled[found.start : end]
        assert back[: found.start] == sampled[: found.start] or found.kind == "split_differently"


PIECES = ("▁", *"Helowrd", "▁H", "▁He", "▁Hel", "▁Hell", "▁Hello", "▁w", "▁wo", "▁wor", "▁worl", "▁world")


def of_sentencepiece(kind: str, folder: Path) -> tuple[Library, Tokenizer]:
    """One that puts a space in front of a text, in either of the two ways in which such files say so."""
    merges = [(piece[:-1], piece[-1]) for piece in PIECES if len(piece) > 1]
    library = Library(models.BPE(vocab={piece: at for at, piece in enumerate(PIECES)}, merges=merges))
    if kind == "Prepend":
        library.normalizer = normalizers.Sequence([normalizers.Prepend("▁"), normalizers.Replace(" ", "▁")])
        library.decoder = decoders.Sequence(
            [decoders.Replace("▁", " "), decoders.Fuse(), decoders.Strip(" ", 1, 0)]
        )
    else:
        library.pre_tokenizer = pre_tokenizers.Metaspace(prepend_scheme="first")
        library.decoder = decoders.Metaspace(prepend_scheme="first")
    library.save(str(folder / "tokenizer.json"))
    return library, tokenizer_in(folder)


@pytest.mark.parametrize("kind", ["Prepend", "Metaspace"])
@pytest.mark.parametrize(
    "sampled",
    [
        ["▁Hello", "▁world"],
        ["▁", "▁Hello"],
        ["▁", *"Hello", "▁world"],
        ["H", "▁world"],
        ["e", "▁world"],
        ["e"],
        ["▁"],
        ["▁", "e"],
        ["▁world", "▁", "▁world"],
    ],
)
def test_a_space_put_in_front_of_a_text_is_no_difference(
    kind: str, sampled: list[str], tmp_path: Path
) -> None:
    library, read = of_sentencepiece(kind, tmp_path)
    ids = [PIECES.index(piece) for piece in sampled]
    back = library.encode(library.decode(ids, skip_special_tokens=False)).ids
    found = retokenization(ids, read)
    assert (found is None) == (back == ids)


def test_behind_a_space_that_was_not_sampled_the_rest_comes_back(tmp_path: Path) -> None:
    _, read = of_sentencepiece("Prepend", tmp_path)
    ids = [PIECES.index(piece) for piece in ("H", "▁world")]
    assert retokenization(ids, read) == Retokenization(
        "split_differently", 1, 0, ids[:1], [PIECES.index("▁H")]
    )
    ids = [PIECES.index(piece) for piece in ("e", "▁world")]
    assert retokenization(ids, read) == Retokenization("split_differently", 0, 0, [], [PIECES.index("▁")])
