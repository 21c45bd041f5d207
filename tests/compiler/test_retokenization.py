import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.support.tokenizer import tokenizer
from turnstile.compiler.retokenization import Retokenization, retokenization
from turnstile.compiler.tokenizer import Tokenizer

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
