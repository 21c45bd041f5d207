"""What became of each exchange of a group, in a few words: for lists of exchanges, while they are merged.

A split is told where a rollout that has turns already starts another sequence; of several choices only what
another exchange explains. Where no rollout is named, new prompts and further samples are what one expects.
"""

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from turnstile.compiler.causes import Explanation
from turnstile.compiler.finding import Finding
from turnstile.compiler.open_sequence import OpenSequence
from turnstile.compiler.pipeline import GroupPasses, Options, Progress, readers_for
from turnstile.compiler.replay import Replay, Replayed
from turnstile.compiler.sequence import Cause
from turnstile.compiler.turns import Readers


@dataclass(frozen=True, slots=True)
class Standing:
    """An exchange among those of its rollout."""

    exchange_id: str
    turn: int | None = None  # its number among them, from 1; None: it gave none
    split: Cause | None = None  # why it started another sequence; None: it did not, or is the first
    left: str | None = None  # of a split the earlier exchange that it is about, if there is one
    findings: tuple[str, ...] = ()  # their kinds, each once


class Standings:
    """Those of one group, whose exchanges are taken in in causal order."""

    def __init__(self, group_id: str, readers: Readers) -> None:
        self._passes = GroupPasses(group_id, Options(), readers)
        self._turns = Counter[str | None]()  # by rollout

    def add(self, item: Replayed | Finding) -> Standing | None:
        """What became of an exchange; None for what was found in the place of one."""
        added = self._passes.add(item)
        if isinstance(item, Finding):
            return None
        exchange = item.exchange
        before = self._turns[exchange.rollout_id]
        self._turns[exchange.rollout_id] += bool(added.turns)
        splits = [each for each in added.starts if before and _is_split(*each)]
        return Standing(
            exchange.exchange_id,
            turn=before + 1 if added.turns else None,
            split=splits[0][1].cause if splits else None,
            left=_left(*splits[0]) if splits else None,
            findings=tuple(dict.fromkeys(finding.kind for finding in added.findings)),
        )


def standings_of(replay: Replay, progress: Progress = lambda exchanges: None) -> Mapping[str, Standing]:
    """Those of all exchanges that can be read, by their ids."""
    found = dict[str, Standing]()
    with readers_for(Options()) as readers:
        for group_id in replay.groups:
            standings = Standings(group_id, readers)
            for item in replay.exchanges_of(group_id):
                progress(1)
                if (standing := standings.add(item)) is not None:
                    found[standing.exchange_id] = standing
    return found


def _is_split(sequence: OpenSequence, why: Explanation) -> bool:
    turn = sequence.turns[0]
    if why.about is not None and why.about.exchange_id == turn.exchange_id:
        return False
    return turn.rollout_id is not None or why.cause not in ("new_prompt", "sibling")


def _left(sequence: OpenSequence, why: Explanation) -> str | None:
    earlier = why.about or sequence.parent_turn
    return None if earlier is None else earlier.exchange_id
