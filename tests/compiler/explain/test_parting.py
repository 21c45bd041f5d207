import numpy as np
import pytest

from turnstile.compiler.explain.parting import WINDOW, Parting, parting


def parted(earlier: list[int], later: list[int]) -> Parting:
    return parting(np.array(earlier, np.int32), np.array(later, np.int32))


@pytest.mark.parametrize(
    ("earlier", "later", "found"),
    [
        ([1, 2, 7, 8, 3, 4, 5], [1, 2, 9, 3, 4, 5, 6], Parting(2, 4, 3)),
        ([1, 2, 7, 8, 3, 4], [1, 2, 3, 4, 6], Parting(2, 4, 2, "left_out")),
        ([1, 2, 3, 4], [1, 2, 7, 8, 3, 4, 6], Parting(2, 2, 4, "put_in")),
        ([1, 2, 3], [1, 2, 4, 5], Parting(2, 3, 4)),
        ([1, 2], [1, 2, 3], Parting(2, 2, 3)),
        ([1, 2, 3], [1, 2], Parting(2, 3, 2)),
    ],
)
def test_paths_part_and_meet_again(earlier: list[int], later: list[int], found: Parting) -> None:
    assert parted(earlier, later) == found


def test_the_fewest_ids_that_differ_are_taken() -> None:
    assert parted([1, 5, 2, 3, 4, 9], [1, 6, 2, 3, 4, 8]) == Parting(1, 2, 2)


def test_paths_that_do_not_meet_again_differ_as_far_as_the_search_goes() -> None:
    earlier, later = list(range(1000)), [0, *range(2000, 3000)]
    assert parted(earlier, later) == Parting(1, 1 + WINDOW, 1 + WINDOW)


def test_however_long_what_was_left_out_it_is_found() -> None:
    assert parted([1, *range(100, 1000), 2, 3], [1, 2, 3, 4]) == Parting(1, 901, 1, "left_out")
