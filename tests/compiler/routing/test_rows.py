import numpy as np
import pytest

from tests.support.routing import rows
from turnstile.compiler.routing.rows import narrowed


def test_rows_end_behind_their_last_token() -> None:
    assert (rows(1, 2, 3).end, rows(1, 2, start=5).end, rows(start=4).end) == (3, 7, 4)


@pytest.mark.parametrize(
    ("highest", "dtype"),
    [(0, np.uint8), (255, np.uint8), (256, np.uint16), (65_535, np.uint16)],
)
def test_ids_take_the_smallest_type_that_holds_all_of_them(highest: int, dtype: type[np.integer]) -> None:
    ids = np.array([[[0, highest]]], np.int64)
    assert (narrowed(ids).dtype, narrowed(ids).tolist()) == (dtype, ids.tolist())


def test_no_rows_take_the_smallest_type() -> None:
    none = narrowed(np.empty((0, 2, 2), np.int32))
    assert (none.dtype, none.shape) == (np.uint8, (0, 2, 2))


def test_ids_of_another_byte_order_stay_the_same_ids() -> None:
    assert narrowed(np.array([[[1, 300]]], ">i4")).tolist() == [[[1, 300]]]
