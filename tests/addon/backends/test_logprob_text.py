import json
from typing import Any

import pytest

from tests.support.chat import choice, compact
from turnstile.addon.backends.logprob_text import says_logprobs

SAMPLED = ((-0.5, 19, '"logprob":-1,'), (-1.5e-07, 20, "b"), (0.0, 21, "c"))
BLOCK = compact(choice(sampled=SAMPLED)["logprobs"]).replace(b"1.5e-07", b"1.5e-7")
VALUES = [-0.5, -1.5e-07, 0.0]


def test_equal_logprobs_are_recognised_by_their_text() -> None:
    assert says_logprobs(BLOCK, VALUES)
    assert [row["logprob"] for row in json.loads(BLOCK)["content"]] == VALUES


@pytest.mark.parametrize(
    "other",
    [
        [],
        VALUES[:2],
        [*VALUES, -0.5],
        [-0.5, -1.5e-07, -0.25],
        [-0.5, 0.0, -1.5e-07],
        ["a,b", 1],
        [2**70, 1, 1],
    ],
)
def test_other_logprobs_are_told_apart(other: list[Any]) -> None:
    assert not says_logprobs(BLOCK, other)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (b"-0.5", b"-0.51"),
        (b'"logprob":-0.5,"top_logprobs":[]', b'"logprob":-0.5,"top_logprobs":[{"logprob":-1e-5}]'),
        (b'"logprob":', b'"logprob": '),
        (b'{"token":"c"', b'{"token":"x"},{"token":"c"'),
        (b'"logprob":0.0,', b""),
    ],
)
def test_a_block_that_says_it_otherwise_is_not_recognised(before: bytes, after: bytes) -> None:
    changed = BLOCK.replace(before, after)
    assert changed != BLOCK
    assert not says_logprobs(changed, VALUES)
