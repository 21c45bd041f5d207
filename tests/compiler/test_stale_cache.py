from typing import Any

from tests.support.turns import turn
from turnstile.compiler.forest import TrajectoryForest
from turnstile.compiler.stale_cache import sequences_with_stale_cache
from turnstile.compiler.turn import Turn


def stale(*turns: Turn) -> set[int]:
    forest = TrajectoryForest()
    for added in turns:
        forest.add(added)
    return sequences_with_stale_cache(forest.sequences)


def versioned(
    number: int,
    prompt_ids: list[int],
    sampled_ids: list[int],
    *versions: str,
    cached: int | None = 0,
    retractions: int | None = 0,
    **fields: Any,
) -> Turn:
    """The n-th version begins with the n-th sampled id."""
    return turn(
        number,
        prompt_ids,
        sampled_ids,
        weight_spans=tuple(enumerate(versions)),
        cached_tokens=cached,
        num_retractions=retractions,
        **fields,
    )


FIRST = versioned(1, [1, 2], [3], "v1")


def test_a_new_version_on_a_cached_prefix_is_stale() -> None:
    assert stale(FIRST, versioned(2, [1, 2, 3, 4], [5], "v2", cached=1)) == {0}


def test_a_new_version_on_a_prefix_computed_anew_is_not() -> None:
    assert stale(FIRST, versioned(2, [1, 2, 3, 4], [5], "v2", cached=0)) == set()


def test_the_same_version_on_a_cached_prefix_is_not() -> None:
    assert stale(FIRST, versioned(2, [1, 2, 3, 4], [5], "v1", cached=3)) == set()


def test_a_prefix_computed_anew_may_be_cached_again() -> None:
    second = versioned(2, [1, 2, 3, 4], [5], "v2", cached=0)
    third = versioned(3, [1, 2, 3, 4, 5, 6], [7], "v2", cached=5)
    assert stale(FIRST, second, third) == set()


def test_a_prefix_partly_computed_anew_is_stale_where_it_was_not() -> None:
    second = versioned(2, [1, 2, 3, 4], [5], "v1", cached=3)
    third = versioned(3, [1, 2, 3, 4, 5, 6], [7], "v2", cached=0)
    fourth = versioned(4, [1, 2, 3, 4, 5, 6, 7, 8], [9], "v1", cached=2)
    assert stale(FIRST, second, third) == set()
    assert stale(FIRST, second, third, fourth) == {0}


def test_tokens_that_nobody_is_known_to_have_computed_accuse_nobody() -> None:
    assert stale(versioned(1, [1, 2], [3], "v2", cached=2)) == set()
    assert stale(FIRST, versioned(2, [1, 2, 3, 4], [5], cached=3)) == set()
    unknown = versioned(1, [1, 2], [3])
    assert stale(unknown, versioned(2, [1, 2, 3, 4], [5], "v2", cached=3)) == set()


def test_without_cached_tokens_an_update_makes_the_prefix_unknown() -> None:
    second = versioned(2, [1, 2, 3, 4], [5], "v2", cached=None)
    third = versioned(3, [1, 2, 3, 4, 5, 6], [7], "v3", cached=3)
    fourth = versioned(3, [1, 2, 3, 4, 5, 6], [7], "v3", cached=4)
    assert stale(FIRST, second, third) == set()
    assert stale(FIRST, second, fourth) == {0}


def test_a_branch_reads_what_its_parent_computed() -> None:
    branch = versioned(2, [1, 2, 9], [5], "v2", cached=2)
    assert stale(FIRST, branch) == {1}
    assert stale(FIRST, versioned(2, [1, 2, 9], [5], "v2", cached=0)) == set()


def test_a_branch_reads_the_cache_as_it_was_when_it_began() -> None:
    branch = versioned(2, [1, 2, 9], [5], "v1", cached=2)
    later = versioned(3, [1, 2, 3, 4], [5], "v2", cached=0)
    assert stale(FIRST, branch, later) == set()


def test_a_version_that_changes_within_a_generation_in_place_is_stale() -> None:
    assert stale(versioned(1, [1, 2], [3, 4], "v1", "v2", retractions=0)) == {0}


def test_a_generation_that_was_retracted_in_between_is_not() -> None:
    assert stale(versioned(1, [1, 2], [3, 4], "v1", "v2", retractions=1)) == set()


def test_after_a_retraction_nothing_is_known_of_the_cache() -> None:
    first = versioned(1, [1, 2], [3, 4], "v1", "v2", retractions=1)
    assert stale(first, versioned(2, [1, 2, 3, 4, 5], [6], "v3", cached=4)) == set()


def test_an_unknown_number_of_retractions_accuses_nobody() -> None:
    assert stale(versioned(1, [1, 2], [3, 4], "v1", "v2", retractions=None)) == set()
