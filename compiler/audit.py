"""What a trainer that works from text would have got wrong about a log: how many answers, how many tokens.

Only what was sampled is compared, each answer by itself and with its marks written out: its ids are made text
and encoded again. Prompts are not: a chat template makes them of the messages, and no log holds one. Nor are
answers that a tokenizer of another model would be blamed for: with an id that it lacks, or of a group whose
first answer spells an id otherwise than it does.
"""

from collections import Counter
from dataclasses import dataclass, field
from typing import Any

from turnstile.compiler.explain.checked_tokenizer import contradicted_id
from turnstile.compiler.explain.token_texts import LearnedTexts
from turnstile.compiler.pipeline import Options, Progress, compile_groups
from turnstile.compiler.replay import Replay
from turnstile.compiler.retokenization import Retokenization, retokenization
from turnstile.compiler.tokenizer import Tokenizer
from turnstile.compiler.turn import Turn


@dataclass(frozen=True, slots=True)
class Example:
    """An answer that differs."""

    turn: Turn
    found: Retokenization


@dataclass(slots=True)
class Audit:
    """The counts of a log."""

    turns: int = 0  # that were compared
    turns_not_compared: int = 0  # because the tokenizer is another model's
    foreign_id: int | None = None  # the first id that shows it
    tokens: int = 0  # sampled in those that were compared
    turns_differing: int = 0
    tokens_differing: int = 0
    stops_lost: int = 0
    """Answers that end with a mark, such as <|im_end|>, which the text of a message does not hold."""
    kinds: Counter[str] = field(default_factory=Counter)  # turns by what differs
    examples: list[Example] = field(default_factory=list)

    def as_record(self) -> dict[str, Any]:
        """As `turnstile audit --json` prints it, but for the texts."""
        return {
            "turns": self.turns,
            "turns_not_compared": self.turns_not_compared,
            "foreign_id": self.foreign_id,
            "tokens": self.tokens,
            "turns_differing": self.turns_differing,
            "tokens_differing": self.tokens_differing,
            "stops_lost": self.stops_lost,
            "kinds": dict(sorted(self.kinds.items())),
            "examples": [_example_record(example) for example in self.examples],
        }


def audit(
    replay: Replay,
    tokenizer: Tokenizer,
    options: Options,
    examples: int,
    progress: Progress = lambda exchanges: None,
) -> Audit:
    """Goes through all turns of a log; keeps the first so many `examples` of each kind."""
    found = Audit()
    for group in compile_groups(replay, options, progress):
        turns = [turn for sequence in group.merged for turn in sequence.turns]
        foreign_id = _contradicted_id(replay, turns[0], tokenizer) if turns else None
        for turn in turns:
            if foreign_id is None:
                _add(found, turn, tokenizer, examples)
            else:
                _leave_out(found, foreign_id)
    return found


def _contradicted_id(replay: Replay, turn: Turn, tokenizer: Tokenizer) -> int | None:
    exchange = replay.exchange_again(turn.group_id, turn.started_at, turn.exchange_id)
    learned = LearnedTexts()
    if exchange is not None:
        learned.learn(exchange, turn.choice, turn.sampled_ids.tolist())
    return contradicted_id(learned, tokenizer)


def _add(found: Audit, turn: Turn, tokenizer: Tokenizer, examples: int) -> None:
    ids = turn.sampled_ids.tolist()
    difference = retokenization(ids, tokenizer)
    if difference is not None and difference.kind == "unknown_id":
        _leave_out(found, difference.sampled_ids[0])
        return
    found.turns += 1
    found.tokens += len(ids)
    found.stops_lost += tokenizer.is_added(ids[-1]) and turn.finish_reason in ("stop", "tool_calls")
    if difference is None:
        return
    found.turns_differing += 1
    found.tokens_differing += difference.tokens
    found.kinds[difference.kind] += 1
    if found.kinds[difference.kind] <= examples:
        found.examples.append(Example(turn, difference))


def _leave_out(found: Audit, foreign_id: int) -> None:
    found.turns_not_compared += 1
    found.foreign_id = foreign_id if found.foreign_id is None else found.foreign_id


def _example_record(example: Example) -> dict[str, Any]:
    return {
        "exchange_id": example.turn.exchange_id,
        "choice": example.turn.choice,
        "kind": example.found.kind,
        "start": example.found.start,
        "sampled_ids": list(example.found.sampled_ids),
        "encoded_ids": list(example.found.encoded_ids),
    }
