import numpy as np
from hypothesis import given
from hypothesis import strategies as st

from turnstile.compiler.computed_tokens import NEW, ComputedTokens

PATHS = st.lists(st.lists(st.integers(1, 2), min_size=1, max_size=8), max_size=12)


def write(computed: ComputedTokens, tokens: list[int], code: int) -> list[int]:
    """Gives what was known of the tokens and makes it `code`."""
    pieces = computed.path(np.array(tokens, np.int32))
    before = np.concatenate(pieces).tolist()
    for piece in pieces:
        piece[:] = code
    return [int(found) for found in before]


def test_a_path_is_new_until_it_was_walked() -> None:
    computed = ComputedTokens()
    assert write(computed, [1, 2], 7) == [NEW, NEW]
    assert write(computed, [1, 2, 3], 8) == [7, 7, NEW]
    assert write(computed, [1, 9], 9) == [8, NEW]
    assert write(computed, [1, 2, 3], 0) == [9, 8, 8]


@given(PATHS)
def test_every_path_of_tokens_has_its_own_code(paths: list[list[int]]) -> None:
    computed, expected = ComputedTokens(), dict[tuple[int, ...], int]()
    for code, tokens in enumerate(paths):
        prefixes = [tuple(tokens[:end]) for end in range(1, len(tokens) + 1)]
        assert write(computed, tokens, code) == [expected.get(prefix, NEW) for prefix in prefixes]
        expected |= dict.fromkeys(prefixes, code)
