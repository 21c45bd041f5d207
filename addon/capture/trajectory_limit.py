"""Keeps the trajectories of a group within its `max_trajectory_tokens`.

What is promised, for chat completions of a group that has a limit:
- Where the backend counts tokens (SGLang from 0.5.12 on and vLLM, by /tokenize) or the request gives its
  prompt in tokens: a prompt that leaves no room is refused beforehand, and prompt and answer together stay
  within the limit. Images are counted by their placeholders there, and so as below.
- Else a prompt counts for what is known of it, see known_lengths: it may be longer. A whole reply that shows
  a prompt which leaves no room is recorded and not handed on; of a live stream, the next turn is refused. An
  answer can pass the limit by as much as the prompt was longer than known.
- No number is added that the backend's context might not hold, for SGLang refuses such a request: not where
  nobody tells its context, nor where a prompt that is not counted has more bytes than would be left. A whole
  reply to a request without a number is recorded and not handed on where it passes the limit.
- A harness's own smaller `max_tokens` or `max_completion_tokens` stays. Which of the two the harness names is
  lowered, `max_completion_tokens` is added where it names none; `n` choices get as much each, and the
  longest is held against the limit.

The proxy keeps limits in memory: after a restart a group has to be made again, and until then has none.
"""

from collections.abc import Mapping
from dataclasses import dataclass, field

from turnstile.addon.backends.errors import AskingError
from turnstile.addon.backends.limiting import lowered, names_limit
from turnstile.addon.backends.tokenizing import TokenizedPrompt
from turnstile.addon.backends.usage import TokenCounts, longest_answer, token_counts
from turnstile.addon.capture.answers import Answer, invalid_request
from turnstile.addon.capture.groups import GroupState
from turnstile.addon.capture.in_flight import InFlight
from turnstile.addon.capture.known_lengths import openings
from turnstile.addon.capture.session import Session

_IMAGE = b"image_url"


@dataclass(frozen=True, slots=True)
class Room:
    """What is left for an answer."""

    fields: Mapping[str, int] = field(default_factory=dict)  # to set in the request


def room_for_answer(
    session: Session,
    held: InFlight,
    body: bytes,
    context: int | None,
    counted: TokenizedPrompt | None,
) -> Room | Answer:
    """What the request may sample, as its group wants; the refusal where nothing is left.

    `context` are the tokens that the backend's context holds, where it says so; `counted` is the prompt as
    the backend counts it, None where it does not.
    """
    group = session.groups.used(held.route.group_id)
    limit = group.max_trajectory_tokens
    if limit is None:
        return Room()
    if counted is None:
        found = openings(body)
        held.opening = found[-1] if found else None
        prompt = group.lengths.at_least(held.route.rollout_id, found)
    else:
        prompt = counted.count
    if prompt >= limit:
        return _no_room(group, limit, prompt)
    is_sure = counted is not None and _IMAGE not in body
    longest = prompt if is_sure else max(prompt, len(body))  # a token has a byte at least
    try:
        return Room(lowered(body, limit - prompt, None if context is None else context - longest))
    except AskingError:
        return Room()


def without_room(session: Session, held: InFlight, reply: bytes | None) -> Answer | None:
    """What the harness gets instead of a whole reply that passes the limit, see above.

    `reply` is without content-encoding, None where that cannot be told.
    """
    group = session.groups.used(held.route.group_id)
    limit = group.max_trajectory_tokens
    counts = token_counts(reply) if limit is not None and reply is not None else None
    if limit is None or reply is None or counts is None:
        return None
    if counts.prompt >= limit:
        return _no_room(group, limit, counts.prompt)
    if counts.prompt + counts.sampled <= limit or names_limit(held.flow.request.content or b""):
        return None
    choices = max(1, held.asking.harness.n) if held.asking is not None else 1
    whole = counts.prompt + longest_answer(reply, counts.sampled, choices=choices)
    return _no_room(group, limit, whole, "your messages and the answer") if whole > limit else None


def note_length(group: GroupState, held: InFlight, counts: TokenCounts | None) -> None:
    """Keeps what a reply told of its prompt, for those that go on from it."""
    if held.opening is not None and counts is not None:
        one_choice = held.asking is not None and held.asking.harness.n == 1
        known = counts if one_choice else TokenCounts(counts.prompt, 0)
        group.lengths.note(held.route.rollout_id, held.opening, known)


def _no_room(group: GroupState, limit: int, tokens: int, what: str = "your messages") -> Answer:
    message = (
        f"This trajectory's maximum length is {limit} tokens (max_trajectory_tokens of {group.group_id}). "
        f"However, {what} resulted in {tokens} tokens. Please reduce the length of the messages."
    )
    return invalid_request(400, message, code="context_length_exceeded", param="messages")
