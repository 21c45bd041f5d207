import random
from typing import Any

import pytest

from tests.support.chat import choice, compact, completion
from turnstile.addon.backends.reading import read_chat
from turnstile.addon.capture.token_texts import (
    TokenTexts,
    prompt_text,
    prompt_text_of,
    shared_ids,
    whole_text_of,
)


def text(*ids: int) -> bytes:
    return prompt_text(compact(list(ids)))


def test_an_array_of_ids_becomes_text() -> None:
    assert prompt_text(b"[151644, 872 ,\n198]") == b"151644,872,198,"


@pytest.mark.parametrize("array", [b"", b"[]", b"[1", b"1", b"[1.5]", b"[-1]", b"[null]", b'["1"]', b"[[1]]"])
def test_what_is_no_array_of_ids_becomes_nothing(array: bytes) -> None:
    assert prompt_text(array) == b""


@pytest.mark.parametrize(
    ("one", "other", "expected"),
    [
        ((), (), 0),
        ((1,), (), 0),
        ((1, 2), (1, 2), 2),
        ((1, 2), (1, 2, 3), 2),
        ((1, 23), (1, 2), 1),
        ((1, 23, 4), (1, 24, 4), 1),
        ((12, 3), (1, 2, 3), 0),
    ],
)
def test_shared_ids_are_whole_ids(one: tuple[int, ...], other: tuple[int, ...], expected: int) -> None:
    assert shared_ids(text(*one), text(*other)) == shared_ids(text(*other), text(*one)) == expected


def test_shared_ids_are_those_that_a_loop_would_count() -> None:
    rng = random.Random(1)
    for _ in range(300):
        same = rng.choices(range(2000), k=rng.randrange(40))
        one, other = (same + rng.choices(range(30), k=rng.randrange(4)) for _ in range(2))
        pairs = enumerate(zip(one, other, strict=False))
        expected = next((at for at, (a, b) in pairs if a != b), min(len(one), len(other)))
        assert shared_ids(text(*one), text(*other)) == expected


def test_the_text_of_an_exchange_is_its_prompt_and_its_answer() -> None:
    (reading,) = read_chat(compact(completion(choice())))
    assert whole_text_of(prompt_text_of(reading), reading, 4) == b"151644,872,19,151645,"
    assert whole_text_of(prompt_text_of(reading), reading, 5) == b""


@pytest.mark.parametrize("sampled_id", [None, "19", 1.5, -1, True])
def test_an_answer_without_ids_has_no_text(sampled_id: Any) -> None:
    (reading,) = read_chat(compact(completion(choice(sampled=((-0.5, sampled_id, "4"),)))))
    assert whole_text_of(prompt_text_of(reading), reading, 3) == b""


def test_the_texts_longest_unused_are_forgotten() -> None:
    texts = TokenTexts(at_most_bytes=10)
    texts.put(b"a", b"1234,")
    texts.put(b"b", b"1234,")
    assert texts.get(b"a")
    texts.put(b"c", b"1,")
    assert [texts.get(key) for key in (b"a", b"b", b"c")] == [b"1234,", b"", b"1,"]
    texts.put(b"c", b"12,")
    texts.forget(b"a")
    texts.put(b"d", b"123456,")
    assert [texts.get(key) for key in (b"a", b"c", b"d")] == [b"", b"12,", b"123456,"]
    texts.put(b"e", b"1" * 11)
    assert [texts.get(key) for key in (b"c", b"d", b"e")] == [b"", b"", b""]
