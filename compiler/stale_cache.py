"""Finds the turns that read keys and values of older weights.

After a weight update an engine may go on with its cache. Then a turn attends to keys and values that the
new weights did not make, and its logprobs are not those of a clean prefill (off by 0.9 to 2.8 on SGLang
0.5.23). The weight version alone does not tell; two facts together do:

- `cached_tokens`: the engine took so many tokens of the prompt from its cache. If one of them was last
  computed by an earlier turn under another version, it is stale. What was not cached is computed anew.
- spans: the version changed within a generation that was never retracted, so it went on over its own cache.

Only what the group's own turns tell is known, however they were merged; tokens that nobody is known to have
computed accuse nobody.
"""

from collections.abc import Sequence

import numpy as np
from numpy.typing import NDArray

from turnstile.compiler.computed_tokens import NEW, UNKNOWN, Codes, ComputedTokens
from turnstile.compiler.open_sequence import OpenSequence
from turnstile.compiler.turn import Turn


def sequences_with_stale_cache(sequences: Sequence[OpenSequence]) -> set[int]:
    """The indexes of the sequences of one group that have such a turn."""
    codes = _version_codes(sequences)
    if len(codes) < 2:
        return set()
    computed, stale = ComputedTokens(), set[int]()
    for index, turn in _in_causal_order(sequences):
        path = computed.path(_as_cached(turn))
        before = np.concatenate(path)
        if _reads_stale(turn, before, codes):
            stale.add(index)
        at, after = 0, _after(turn, before, codes)
        for part in path:
            part[:] = after[at : at + len(part)]
            at += len(part)
    return stale


def _as_cached(turn: Turn) -> NDArray[np.int32]:
    """The ids [P + O] of a turn; an image's placeholders are negative numbers made of its bytes.

    A cache tells pictures apart, as SGLang's does by hashes in the place of placeholders.
    """
    ids_T: NDArray[np.int32] = np.concatenate((turn.prompt_ids, turn.sampled_ids))
    for image in turn.images:
        start, size = image.token_span
        ids_T[start : start + size] = -1 - int(image.sha256[:7], 16)
    return ids_T


def _version_codes(sequences: Sequence[OpenSequence]) -> dict[str, int]:
    versions = (version for each in sequences for turn in each.turns for _, version in turn.weight_spans)
    return {version: code for code, version in enumerate(dict.fromkeys(versions))}


def _in_causal_order(sequences: Sequence[OpenSequence]) -> list[tuple[int, Turn]]:
    """(index of the sequence, turn) of every turn."""
    turns = [(index, turn) for index, sequence in enumerate(sequences) for turn in sequence.turns]
    return sorted(turns, key=lambda item: (item[1].started_at, item[1].exchange_id, item[1].choice))


def _reads_stale(turn: Turn, before: Codes, codes: dict[str, int]) -> bool:
    if len(turn.weight_spans) > 1 and turn.num_retractions == 0:
        return True
    if not turn.weight_spans or not turn.cached_tokens:
        return False
    read = before[: min(turn.cached_tokens, len(turn.prompt_ids))]
    return bool(((read >= 0) & (read != codes[turn.weight_spans[0][1]])).any())


def _after(turn: Turn, before: Codes, codes: dict[str, int]) -> Codes:
    """Who computed which token once `turn` is over; `before` tells it of the time before."""
    if len(turn.weight_spans) > 1 and turn.num_retractions != 0:
        return np.full_like(before, UNKNOWN)  # who computed what again after it was taken off is not told
    version = codes[turn.weight_spans[0][1]] if turn.weight_spans else UNKNOWN
    if turn.cached_tokens is None:  # computed as before or by `version`: known where these agree
        after = np.where((before == version) | (before == NEW), version, UNKNOWN).astype(before.dtype)
    else:
        after = np.where(before == NEW, UNKNOWN, before).astype(before.dtype)
        after[turn.cached_tokens :] = version
    for start, later in turn.weight_spans[1:]:
        after[len(turn.prompt_ids) + start :] = codes[later]
    return after
