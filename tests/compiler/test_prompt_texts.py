import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from turnstile.compiler.prompt_texts import PromptTexts
from turnstile.compiler.token_ids import TokenIdsError


def spelled(ids: list[int]) -> bytes:
    return b"[%b]" % ",".join(map(str, ids)).encode()


@st.composite
def resent_prompts(draw: st.DrawFn) -> list[list[int]]:
    """Prompts that go on from any part of an earlier one; many ids begin with the digits of others."""
    ids = st.lists(st.sampled_from([0, 1, 2, 12, 123, 151644, 2**31 - 1]), max_size=30)
    prompts = [draw(ids)]
    for _ in range(draw(st.integers(0, 12))):
        earlier = draw(st.sampled_from(prompts))
        prompts.append(earlier[: draw(st.integers(0, len(earlier)))] + draw(ids))
    return [prompt for prompt in prompts if prompt]


@given(resent_prompts())
def test_ids_are_those_of_plain_parsing_whatever_came_before(prompts: list[list[int]]) -> None:
    texts = PromptTexts()
    found = [texts.ids(spelled(prompt)) for prompt in prompts]
    assert [ids_T.tolist() for ids_T in found] == prompts
    assert {ids_T.dtype for ids_T in found} <= {np.dtype(np.int32)}


def test_prompts_that_extend_each_other_lie_in_one_buffer() -> None:
    texts = PromptTexts()
    prompts = [list(range(size)) for size in range(10, 600)]
    found = [texts.ids(spelled(prompt)) for prompt in prompts]
    assert np.shares_memory(found[-1], found[-2])
    assert [ids_T.tolist() for ids_T in found] == prompts


def test_a_branch_leaves_the_ids_of_the_other_as_they_are() -> None:
    texts = PromptTexts()
    trunk = texts.ids(b"[1,2,3]")
    grown, branch = texts.ids(b"[1,2,3,4]"), texts.ids(b"[1,2,3,5]")
    assert (trunk.tolist(), grown.tolist(), branch.tolist()) == ([1, 2, 3], [1, 2, 3, 4], [1, 2, 3, 5])


def test_ids_given_out_cannot_be_written_to() -> None:
    with pytest.raises(ValueError, match="read-only"):
        PromptTexts().ids(b"[1,2]")[0] = 3


NO_JSON = ("undecodable", "they are no JSON")


@pytest.mark.parametrize("before", [b"[]", b"[1]"])
@pytest.mark.parametrize(
    ("array", "kind", "message"),
    [
        (b"[1,2147483648]", "token_out_of_range", "id 1 is 2147483648, expected 0 to 2147483647"),
        (b"[1,%d]" % 2**80, "token_out_of_range", f"id 1 is {2**80}, expected 0 to 2147483647"),
        (b"[1,02]", *NO_JSON),
        (b"[1,]", *NO_JSON),
        (b"[1 2]", *NO_JSON),
        (b"[1,x]", *NO_JSON),
        (b'[1,"\xff"]', *NO_JSON),
        (b"[1," + b"[" * 100_000 + b"]", *NO_JSON),
        (b"[1,2.5]", "token_type", "id 1 of 2 is the number 2.5, expected an integer"),
        (b"[1,NaN]", "token_type", "id 1 of 2 is the number nan, expected an integer"),
        (b"[1,true]", "token_type", "id 1 of 2 is a bool, expected an integer"),
        (b'[1,"2"]', "token_type", "id 1 of 2 is a str, expected an integer"),
    ],
)
def test_what_is_no_list_of_ids_is_refused_whatever_came_before(
    before: bytes, array: bytes, kind: str, message: str
) -> None:
    texts = PromptTexts()
    texts.ids(before)
    with pytest.raises(TokenIdsError) as refused:
        texts.ids(array)
    assert (refused.value.kind, str(refused.value)) == (kind, message)
    assert texts.ids(b"[1,2,3]").tolist() == [1, 2, 3]


@pytest.mark.parametrize("array", [b"[]", b"[ ]"])
def test_an_array_may_be_empty(array: bytes) -> None:
    assert PromptTexts().ids(array).tolist() == []


def test_space_between_ids_is_none_of_their_business() -> None:
    texts = PromptTexts()
    arrays = [b"[1, 2]", b"[1, 2, 3]", b"[1, 2, 3 ]", b"[1, 2,\n3, 4]"]
    assert [texts.ids(array).tolist() for array in arrays] == [[1, 2], [1, 2, 3], [1, 2, 3], [1, 2, 3, 4]]
