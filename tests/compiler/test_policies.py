from tests.support.turns import turn
from turnstile.compiler.policies import POLICIES

TURNS = (turn(1, [1], [2]), turn(2, [1, 2, 3], [4]))


def merged(policy: str) -> list[list[int]]:
    merger = POLICIES[policy]()
    for added in TURNS:
        merger.add(added)
    return [sequence.tokens_T.tolist() for sequence in merger.sequences]


def test_strict_merges_exact_prefixes() -> None:
    assert merged("strict") == [[1, 2, 3, 4]]


def test_per_request_makes_a_sequence_of_every_turn() -> None:
    assert merged("per-request") == [[1, 2], [1, 2, 3, 4]]
