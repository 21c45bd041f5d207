from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tests.support.images import prompt_image
from tests.support.turns import turn
from turnstile.compiler.forest import TrajectoryForest
from turnstile.compiler.policies import PerRequest
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


def test_a_prefix_that_another_rollout_computed_is_stale_whatever_the_parent() -> None:
    first = versioned(1, [1, 2, 3, 4, 5], [6], "v1", rollout_id="a")
    other = versioned(2, [1, 50], [51], "v2", rollout_id="b")
    reader = versioned(3, [1, 2, 3, 4, 5], [7], "v2", cached=4, rollout_id="b")
    assert stale(first, other, reader) == {2}


def test_turns_that_were_not_merged_read_each_others_cache() -> None:
    merger = PerRequest()
    for added in FIRST, versioned(2, [1, 2, 3, 4], [5], "v2", cached=1):
        merger.add(added)
    assert sequences_with_stale_cache(merger.sequences) == {1}


def test_choices_count_in_the_order_of_their_numbers_however_they_came() -> None:
    one, other = versioned(1, [1, 2], [3], "v1", choice=1), versioned(1, [1, 2], [4], "v1")
    assert stale(one, other, versioned(2, [1, 2, 4, 5], [6], "v2", cached=3)) == {1}


@given(st.data())
def test_what_is_remembered_is_what_a_table_of_all_prefixes_says(data: st.DataObject) -> None:
    token, versions = st.integers(1, 2), st.sampled_from(["v1", "v2"])
    turns = [
        versioned(
            number,
            data.draw(st.lists(token, min_size=1, max_size=6)),
            data.draw(st.lists(token, min_size=1, max_size=2)),
            data.draw(versions),
            cached=data.draw(st.none() | st.integers(0, 6)),
        )
        for number in range(data.draw(st.integers(1, 8)))
    ]
    merger = PerRequest()
    for added in turns:
        merger.add(added)
    assert sequences_with_stale_cache(merger.sequences) == stale_by_table(turns)


def stale_by_table(turns: list[Turn]) -> set[int]:
    computed: dict[tuple[int, ...], str] = {}  # by the tokens up to the one in question; "" is unknown
    found = set()
    for index, each in enumerate(turns):
        tokens, ((_, version),) = [*each.prompt_ids.tolist(), *each.sampled_ids.tolist()], each.weight_spans
        for end in range(1, len(tokens) + 1):
            prefix = tuple(tokens[:end])
            before, is_cached = (
                computed.get(prefix),
                each.cached_tokens is not None and end <= each.cached_tokens,
            )
            if is_cached and end <= len(each.prompt_ids) and before not in (None, "", version):
                found.add(index)
            if is_cached:
                computed[prefix] = before or ""
            elif each.cached_tokens is None and before not in (None, version):
                computed[prefix] = ""
            else:
                computed[prefix] = version
    return found


def test_a_cache_tells_pictures_of_the_same_tokens_apart() -> None:
    red, blue = prompt_image("red", 1, 2), prompt_image("blue", 1, 2)
    first = versioned(1, [1, 9, 9, 2], [3], "7", images=(red,))
    other = versioned(2, [1, 9, 9, 2], [4], "8", images=(blue,))
    again = versioned(3, [1, 9, 9, 2, 3, 5], [6], "8", cached=5, images=(red,))
    assert stale(first, other, again) == {0}
    assert stale(first, other, versioned(3, [1, 9, 9, 2, 5], [6], "8", cached=4, images=(blue,))) == set()
