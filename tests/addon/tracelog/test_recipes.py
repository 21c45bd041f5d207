import base64
import random

import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.addon.tracelog.recipes import REPLY, REQUEST, Recipe, rebuild

RAW = random.Random(2).randbytes(4000)


def no_blob(digest: bytes) -> bytes:
    raise AssertionError(digest)


def test_steps_are_put_together_in_order() -> None:
    steps = [3, [REQUEST, 1, 2], 2, [REPLY, 0, 4]]
    body, taken = rebuild(steps, memoryview(b"abcdefg"), (b"0123", b"wxyz!"), no_blob, 11)
    assert (body, taken) == (b"abc12dewxyz", 5)


@pytest.mark.parametrize("steps", [[[REQUEST, 2, 9]], [9], [3, 1], [2], []])
def test_steps_that_do_not_give_the_size_are_refused(steps: list[object]) -> None:
    with pytest.raises(ValueError, match="bytes"):
        rebuild(steps, memoryview(b"abc"), (b"0123", b""), no_blob, 3)


def test_no_more_is_put_together_than_the_body_has() -> None:
    many = [[REQUEST, 0, 4]] * 1_000_000
    with pytest.raises(ValueError, match="step 2 gives 4 bytes of 4, 12 of 10 in all"):
        rebuild(many, memoryview(b""), (b"0123", b""), no_blob, 10)


def test_base64_becomes_a_blob_and_comes_back() -> None:
    body = b'{"a":"' + base64.b64encode(RAW) + b'","b":"' + base64.b64encode(RAW) + b'"}'
    recipe = Recipe()
    recipe.add_new(body, 0, len(body))
    assert list(recipe.blobs.values()) == [RAW]
    assert sum(map(len, recipe.new)) < 30
    new = memoryview(b"".join(recipe.new))
    assert rebuild(recipe.steps, new, (b"", b""), recipe.blobs.__getitem__, len(body))[0] == body


@given(st.binary(max_size=300), st.binary(max_size=300), st.integers(0, 6000))
def test_any_bytes_come_back(before: bytes, after: bytes, size: int) -> None:
    body = before + base64.b64encode(RAW[:size]) + after
    recipe = Recipe()
    recipe.add_new(body, 0, len(body))
    new = memoryview(b"".join(recipe.new))
    assert rebuild(recipe.steps, new, (b"", b""), recipe.blobs.__getitem__, len(body)) == (body, len(new))
