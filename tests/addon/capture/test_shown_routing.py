import hashlib
from typing import Any

import pytest

from tests.support.routing import encoded, experts, npy, reading_of, routed
from turnstile.addon.backends.moe_shape import MoeShape
from turnstile.addon.capture.shown_routing import ShownRouting, shown_routing

SHAPE = MoeShape(2, 2)
UNKNOWN = MoeShape()


def shown(
    rows: Any, counts: tuple[int, int] = (3, 3), first_row: int = 0, shape: MoeShape = SHAPE, **told: Any
) -> ShownRouting | None:
    """Of an answer to a prompt of so many ids, with so many sampled ones."""
    return shown_routing(reading_of(routed(1, [1], [2], rows, meta_info=told)), counts, first_row, shape)


def digests(*arguments: Any, **fields: Any) -> Any:
    found = shown(*arguments, **fields)
    return found and found.digests


def digest(number: int) -> str:
    return hashlib.blake2b(experts(number).astype("<i4").tobytes(), digest_size=3).hexdigest()


def test_each_sampled_token_but_the_last_has_the_digest_of_its_row() -> None:
    rows = experts(10, 11, 12, 13, 14)
    summary = f"80 bytes of int32, sha256 {hashlib.sha256(rows.tobytes()).hexdigest()[:12]}"
    assert shown(rows) == ShownRouting(summary, [digest(13), digest(14), "-"])


def test_tokens_with_the_same_experts_have_the_same_digest() -> None:
    (first, second, _) = digests(experts(0, 1, 2, 7, 7))
    assert first == second


@pytest.mark.parametrize("first_row", [2, 4])
def test_rows_that_were_left_out_are_not_mistaken_for_others(first_row: int) -> None:
    whole = (10, 11, 12, 13, 14)
    found = digests(experts(*whole[first_row:]), first_row=first_row)
    assert found == ["-" if at < first_row else digest(10 + at) for at in (3, 4)] + ["-"]
    assert digests(experts(*whole), first_row=first_row) == [digest(13), digest(14), "-"]


def test_a_tail_for_the_last_token_is_no_row_of_it() -> None:
    assert digests(experts(10, 11, 12, 13, 14, 15)) == [digest(13), digest(14), "-"]


def test_without_the_models_shape_the_number_of_ids_tells() -> None:
    assert digests(experts(10, 11, 12, 13, 14), shape=UNKNOWN) == [digest(13), digest(14), "-"]


@pytest.mark.parametrize(
    ("rows", "counts", "shape", "told"),
    [
        (experts(1, 2, 3), (3, 3), SHAPE, {}),  # too few
        (experts(1, 2, 3), (2, 2), UNKNOWN, {}),  # three rows of four ids, or four of three
        (npy(experts(1, 2, 3, 4, 5)), (3, 3), SHAPE, {}),
        (experts(1, 2, 3, 4, 5), (3, 3), SHAPE, {"routed_experts_dtype": "bf16"}),
    ],
)
def test_where_it_is_not_certain_which_row_is_whose_no_token_has_a_digest(
    rows: Any, counts: tuple[int, int], shape: MoeShape, told: dict[str, Any]
) -> None:
    found = shown(rows, counts, shape=shape, **told)
    assert found is not None
    assert (found.digests, found.summary.endswith("; which rows are whose is not certain")) == (None, True)


def test_ids_of_another_type_are_as_long_as_they_say() -> None:
    rows = encoded(experts(1, 2, 3, 4, 5), "uint8")
    assert digests(rows, routed_experts_dtype="uint8")[2] == "-"


def test_what_is_no_base64_is_said_and_nothing_is_nothing() -> None:
    assert shown("A") == ShownRouting("1 characters that are no base64")
    assert shown(None) is None
