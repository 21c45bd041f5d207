import numpy as np

from turnstile.compiler.repeated_tokens import RepeatedTokens


def repeated(*sequences: tuple[list[int], list[int]]) -> list[int]:
    """Of sequences as (tokens, indexes of those that are trained)."""
    known, found = RepeatedTokens(), list[int]()
    for tokens, trained in sequences:
        mask_T = np.zeros(len(tokens), np.bool_)
        mask_T[trained] = True
        found.append(known.add(np.array(tokens, np.int32), mask_T))
    return found


def test_context_at_the_beginning_of_an_earlier_sequence_is_repeated() -> None:
    assert repeated(([1, 2, 3, 4], [3]), ([1, 2, 5, 4], [3]), ([1, 2, 5, 6], [3])) == [0, 2, 3]


def test_what_is_trained_again_is_not_context() -> None:
    assert repeated(([1, 2, 3], [2]), ([1, 2, 3], [2])) == [0, 2]


def test_the_same_tokens_behind_another_beginning_are_not_repeated() -> None:
    assert repeated(([1, 2, 3], [2]), ([9, 2, 3], [2])) == [0, 0]
