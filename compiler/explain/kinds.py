"""What made a split: the first of these that can be shown; never a likely one.

routing_changed           the same tokens, and some of them were routed to other experts
image_changed             another picture behind the same tokens, or in the place of an earlier one
retry                     exactly the prompt of a turn that was broken off or never delivered
sibling                   exactly the prompt of an earlier turn
retokenized               where the paths part they spell the same text
tools_changed             the request has other tools
template_options_changed  the request gives the chat template other options
system_prompt_changed     the system prompt is another
thinking_stripped         an answer's reasoning was not sent again, or the template left it out
tool_call_reprinted       a tool call means the same JSON and is written otherwise
history_edited            an earlier message or answer is not what it was
branch                    goes on from the same beginning with another message
template_marker           no message was changed, and the template writes another text
new_prompt                nothing that was sampled is shared or resent
unknown                   nothing of this can be shown

A change of a message counts only where the tokens differ: one that the template does not write is no reason.
"""

import re

from turnstile.compiler.causes import Explanation
from turnstile.compiler.explain.json_spelling import spelled_otherwise
from turnstile.compiler.explain.kind import Verdict
from turnstile.compiler.explain.pair import Pair
from turnstile.compiler.explain.said_difference import Change, change_in_prompt, change_of_answer
from turnstile.compiler.explain.token_texts import text_of
from turnstile.compiler.turn import Turn

_THINKING = re.compile(
    rb"<think>(.*?)</think>|<\|channel\|>analysis<\|message\|>(.*?)<\|end\|>|^(.*?)</think>", re.DOTALL
)


def by_cause(why: Explanation, refused_because: str) -> Verdict | None:
    """What the cause of a start already shows; None where it takes a look at the two turns."""
    name = f"choice {why.about.choice} of {why.about.exchange_id}" if why.about else "an earlier turn"
    if why.cause == "routing_changed":
        return Verdict("routing_changed", refused_because)
    if why.cause == "image_changed":
        changed = f"other pictures stand behind the tokens shared with {name}"
        return Verdict("image_changed", refused_because or changed)
    if why.cause == "aborted":
        return Verdict("retry", f"exactly the prompt of {name}, whose answer was broken off or not delivered")
    if why.cause == "sibling":
        return Verdict("sibling", f"exactly the prompt of {name}")
    return None


def by_comparison(pair: Pair) -> Verdict:
    """What the tokens, texts and requests of the two turns show."""
    if pair.spelling.text == "same":
        return Verdict("retokenized", "the same text in other tokens")
    if pair.is_in_prompt and (verdict := _of_request(pair)) is not None:
        return verdict
    if not pair.earlier_said.messages or not pair.later_said.messages:
        return Verdict("unknown", "the messages of a request cannot be read")
    change = change_in_prompt(pair.earlier_said, pair.later_said) if pair.is_in_prompt else None
    if change is not None:
        return _of_changed_prompt(pair, change)
    change = change_of_answer(pair.earlier_said, pair.later_said)
    if change is not None and not pair.is_in_prompt:
        return _of_changed_answer(change)
    return _of_template(pair, change)


def _of_request(pair: Pair) -> Verdict | None:
    earlier, later = pair.earlier_said, pair.later_said
    if earlier.tools != later.tools:
        return Verdict("tools_changed", "the request has other tools")
    if earlier.template_options != later.template_options:
        return Verdict("template_options_changed", "the request has other chat_template_kwargs")
    return None


def _of_changed_prompt(pair: Pair, change: Change) -> Verdict:
    if change.what == "system":
        return Verdict("system_prompt_changed", str(change))
    if change.what == "image":
        return Verdict("image_changed", str(change))
    if change.what == "thinking":
        return Verdict("thinking_stripped", str(change))
    if change.what == "tool_call":
        return Verdict("tool_call_reprinted", str(change))
    if change_of_answer(pair.earlier_said, pair.later_said) is None or change.role == "assistant":
        return Verdict("history_edited", str(change))
    if pair.is_first:
        return Verdict("new_prompt", f"{change}, and no answer is resent")
    return Verdict("branch", f"{change} than in {pair.earlier.exchange_id}, which went on from there too")


def _of_changed_answer(change: Change) -> Verdict:
    if change.what == "thinking":
        return Verdict("thinking_stripped", str(change))
    if change.what == "tool_call":
        return Verdict("tool_call_reprinted", str(change))
    return Verdict("history_edited", str(change))


def _of_template(pair: Pair, change: Change | None) -> Verdict:
    """What no change of a message explains; `change` is one of an answer behind the place where they part."""
    unchanged = "no message was changed" if change is None else "no message before it was changed"
    thinking = _thinking_in(text_of(_gone(pair), pair.texts), pair)
    if thinking and thinking not in text_of(_new(pair), pair.texts):
        by_harness = change is not None and change.what == "thinking"
        left_out = f"{unchanged}, and the template leaves out the reasoning"
        return Verdict("thinking_stripped", str(change) if by_harness else left_out)
    if not pair.is_in_prompt and spelled_otherwise(*_answers(pair)):
        return Verdict("tool_call_reprinted", f"{unchanged}, and the template writes its JSON otherwise")
    if _is_only(pair):
        found = pair.parting
        count = max(found.earlier_end, found.later_end) - found.start
        does = "leaves out" if found.only == "left_out" else "puts in"
        return Verdict("template_marker", f"{unchanged}, and the template {does} {count} ids")
    if _ends_otherwise(pair):
        return Verdict("template_marker", f"{unchanged}, and the template ends the answer with another id")
    if pair.spelling.text == "other":
        return Verdict("template_marker", f"{unchanged}, and the template writes another text")
    return Verdict("unknown", f"{unchanged}, and the text of the ids is not known: --tokenizer DIR tells it")


def _gone(pair: Pair) -> list[int]:
    """The earlier turn's ids from where they part on; from its answer's first where they part inside that."""
    start = min(pair.parting.start, len(pair.earlier.prompt_ids))
    ids: list[int] = pair.earlier_T[start:].tolist()
    return ids


def _new(pair: Pair) -> list[int]:
    """What the later prompt has from there on, as far as the answer can go in it."""
    start = min(pair.parting.start, len(pair.earlier.prompt_ids))
    ids: list[int] = pair.later.prompt_ids[start : start + 2 * len(_gone(pair))].tolist()
    return ids


def _answers(pair: Pair) -> tuple[bytes, bytes]:
    return text_of(_gone(pair), pair.texts), text_of(_new(pair), pair.texts)


def _thinking_in(text: bytes, pair: Pair) -> bytes:
    """The first reasoning in a text that is not blank, or what the answer names so; b"" for none."""
    inside = (next(filter(None, found.groups()), b"").strip() for found in _THINKING.finditer(text))
    told = pair.earlier_said.answer.get("reasoning_content") or pair.earlier_said.answer.get("reasoning")
    known = told.strip().encode(errors="replace") if isinstance(told, str) else b""
    return next(filter(None, inside), b"") or (known if known and known in text else b"")


def _is_only(pair: Pair) -> bool:
    """Whether ids were only left out, or only put in, and the text cannot be the same for all that.

    Without texts that is sure where the path ends with a stop token that is not among these ids.
    """
    found = pair.parting
    if not found.only or pair.spelling.text == "other":
        return bool(found.only)
    extra = (
        pair.earlier_T[found.start : found.earlier_end]
        if found.only == "left_out"
        else pair.later.prompt_ids[found.start : found.later_end]
    )
    return _ends_with_stop_token(pair.earlier) and int(pair.earlier.sampled_ids[-1]) not in extra


def _ends_otherwise(pair: Pair) -> bool:
    """Whether the stop token, which the model sampled last, is what the template writes otherwise."""
    return pair.parting.start == len(pair.earlier_T) - 1 and _ends_with_stop_token(pair.earlier)


def _ends_with_stop_token(turn: Turn) -> bool:
    """Whether the last sampled id is a token that only ends answers, not one of the user's own stops."""
    own = {"stop", "stop_token_ids", "stop_regex"}.intersection(turn.sampling)
    return turn.finish_reason in ("stop", "tool_calls") and not own
