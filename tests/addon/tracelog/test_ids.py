import pytest

from turnstile.addon.tracelog.ids import is_id, is_sequence_id, shown


@pytest.mark.parametrize("text", ["a", "A-z_0.9:x", "...", "x" * 128])
def test_an_id(text: str) -> None:
    assert is_id(text)


@pytest.mark.parametrize("text", ["", ".", "..", "a/b", "a\\b", "ü", "a\n", "a b", "x" * 129])
def test_no_id(text: str) -> None:
    assert not is_id(text)


def test_a_sequence_id_is_an_exchange_id_and_a_choice() -> None:
    assert is_sequence_id("0123456789abcdef-000001.0")
    assert not is_sequence_id("")
    assert not is_sequence_id("a/b")


def test_a_long_text_is_not_shown_whole() -> None:
    assert shown("a") == "'a'"
    assert shown("x" * 41) == f"'{'x' * 40}... (41 characters)'"
