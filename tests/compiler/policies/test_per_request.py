from tests.support.routing import experts, rows
from tests.support.turns import turn
from turnstile.compiler.policies import POLICIES
from turnstile.compiler.policies.per_request import PerRequest
from turnstile.compiler.routing.outcome import routed_experts_of

TURNS = (turn(1, [1], [2]), turn(2, [1, 2, 3], [4]))


def merged(policy: str) -> list[list[int]]:
    merger = POLICIES[policy].merger()
    for added in TURNS:
        merger.add(added)
    return [sequence.tokens_T.tolist() for sequence in merger.sequences]


def test_strict_merges_exact_prefixes() -> None:
    assert merged("strict") == [[1, 2, 3, 4]]


def test_per_request_makes_a_sequence_of_every_turn() -> None:
    assert merged("per-request") == [[1, 2], [1, 2, 3, 4]]


def test_per_request_gives_every_turn_the_rows_that_it_was_told() -> None:
    merger = PerRequest()
    for added, told in zip(TURNS, (rows(1), rows(9, 2, 3)), strict=True):
        started = merger.add(added, told)
        assert started is merger.sequences[-1]
        assert (started.parent, started.refusal) == (None, None)
    found = [routed_experts_of(sequence) for sequence in merger.sequences]
    assert [each.tolist() for each in found if each is not None] == [
        experts(1).tolist(),
        experts(9, 2, 3).tolist(),
    ]


def test_per_request_knows_no_rows_but_its_own() -> None:
    merger = PerRequest()
    merger.add(TURNS[0], rows(1))
    merger.add(turn(2, [1, 2, 3], [4], cached_tokens=3), rows(2, 3, start=1))
    assert routed_experts_of(merger.sequences[1]) is None
    assert merger.sequences[1].routing.first_unknown(3) == 0
