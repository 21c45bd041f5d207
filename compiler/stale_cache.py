"""Finds the turns that read keys and values of older weights.

After a weight update an engine may go on with its cache. Then a turn attends to keys and values that the
new weights did not make, and its logprobs are not those of a clean prefill (off by 0.9 to 2.8 on SGLang
0.5.23). The weight version alone does not tell; two facts together do:

- `cached_tokens`: the engine took so many tokens of the prompt from its cache. If one of them was last
  computed by an earlier turn under another version, it is stale. What was not cached is computed anew.
- spans: the version changed within a generation that was never retracted, so it went on over its own cache.

Only what the group's own turns tell is known; tokens that nobody is known to have computed accuse nobody.
"""

from collections.abc import Iterator, Sequence

from turnstile.compiler.forest import OpenSequence
from turnstile.compiler.turn import Turn

Runs = list[tuple[int, str | None]]  # (token index, version that computed it and what follows; None unknown)


def sequences_with_stale_cache(sequences: Sequence[OpenSequence]) -> set[int]:
    """The indexes of the sequences of one group that have such a turn."""
    index_of = {id(sequence): index for index, sequence in enumerate(sequences)}
    computed: dict[int, Runs] = {}
    stale = set()
    for index, position in _in_causal_order(sequences):
        sequence = sequences[index]
        turn, known_end = sequence.turns[position], sequence.starts[position]
        runs = computed.get(index, [])
        if position == 0 and sequence.parent is not None:
            runs, known_end = computed[index_of[id(sequence.parent)]], sequence.shared_tokens
        known_end = min(known_end, len(turn.prompt_ids))
        if _reads_stale(turn, _cut(runs, known_end)):
            stale.add(index)
        computed[index] = _after(turn, _cut(runs, known_end), known_end)
    return stale


def _in_causal_order(sequences: Sequence[OpenSequence]) -> Iterator[tuple[int, int]]:
    """(index of the sequence, index of the turn in it) of every turn."""
    keyed = [
        (turn.started_at, turn.exchange_id, turn.choice, index, position)
        for index, sequence in enumerate(sequences)
        for position, turn in enumerate(sequence.turns)
    ]
    return ((index, position) for *_, index, position in sorted(keyed))


def _reads_stale(turn: Turn, runs: Runs) -> bool:
    if len(turn.weight_spans) > 1 and turn.num_retractions == 0:
        return True
    if not turn.weight_spans or not turn.cached_tokens:
        return False
    version = turn.weight_spans[0][1]
    return any(computed not in (None, version) for _, computed in _cut(runs, turn.cached_tokens))


def _after(turn: Turn, runs: Runs, known_end: int) -> Runs:
    """Who computed which token once `turn` is over; `runs` tell it of the first `known_end` before."""
    version = turn.weight_spans[0][1] if turn.weight_spans else None
    if len(turn.weight_spans) > 1 and turn.num_retractions != 0:
        return [(0, None)]  # taken off the device in between: who computed what again is not told
    if turn.cached_tokens is None:
        kept, fresh = _agreeing(runs, version, known_end), known_end
    elif turn.cached_tokens <= known_end:
        kept, fresh = _cut(runs, turn.cached_tokens), turn.cached_tokens
    else:
        kept, fresh = [*runs, (known_end, None)], turn.cached_tokens
    later = [(len(turn.prompt_ids) + start, span) for start, span in turn.weight_spans[1:]]
    return [*kept, (fresh, version), *later]


def _agreeing(runs: Runs, version: str | None, end: int) -> Runs:
    """Without `cached_tokens` a token was computed as before or by `version`: known when these agree."""
    return runs if end == 0 or all(computed == version for _, computed in runs) else [(0, None)]


def _cut(runs: Runs, end: int) -> Runs:
    """The runs of the tokens before index `end`."""
    return [run for run in runs if run[0] < end]
