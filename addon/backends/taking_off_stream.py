"""Takes off the events of a chat stream what the harness did not ask for, by edits of their bytes.

Where each thing lies: SGLang's serving_chat (`_generate_chat_stream`, 0.5.20 to 0.5.23). Routed experts and
ids come in the `sglext` of a chunk without choices, the usage that closes a stream in another one.
"""

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turnstile.addon.backends.asking import (
    INPUT_IDS_IN_SGLEXT,
    LOGPROBS,
    OUTPUT_IDS_IN_SGLEXT,
    ROUTED_EXPERTS,
    Asking,
)
from turnstile.addon.backends.exact_json import loads
from turnstile.addon.backends.json_edit import JsonObject, parse_object
from turnstile.addon.backends.nested_edits import edits_inside, edits_of_items, joined_edits
from turnstile.addon.backends.places import inner_object
from turnstile.addon.backends.sse import RawEvent, with_data
from turnstile.addon.backends.taking_off import ROUTING_FIELDS
from turnstile.addon.tracelog.records import Splice, spliced

FIELDS_OF: Mapping[str, tuple[str, ...]] = {
    INPUT_IDS_IN_SGLEXT: ("input_ids",),
    OUTPUT_IDS_IN_SGLEXT: ("output_ids",),
    ROUTED_EXPERTS: ROUTING_FIELDS,
}
"""By flag: what it brings into `sglext`."""

GOES_ON = b',"finish_reason":null,"matched_stop":null}]}'
"""The end of a chunk whose choice goes on, and which has nothing else in it."""

_LOGPROBS = b'"logprobs":'
_FIRST_ROW, _LAST_ROW = _LOGPROBS + b'{"content":[{', b'"top_logprobs":[]}]}' + GOES_ON
_NO_ROWS = _LOGPROBS + b"null" + GOES_ON
_NO_CHOICES = (b'"choices":[]', b'"choices": []')


@dataclass(frozen=True, slots=True)
class Hidden:
    """What was added to a stream, so that it is not for the harness."""

    logprobs: bool
    usage: bool  # the chunk that closes the stream
    sglext: frozenset[str]  # fields of it


def hidden_in(asking: Asking) -> Hidden:
    """What the reply to `asking` has for capture only."""
    fields = frozenset(name for flag in asking.added for name in FIELDS_OF.get(flag, ()))
    return Hidden(LOGPROBS in asking.added, asking.live and not asking.harness.include_usage, fields)


def without_logprobs(event: RawEvent, data: bytes) -> bytes | None:
    """The event with null for the logprobs in its `data`; None where they are not laid out as SGLang does it.

    Inside a JSON string a quote has a backslash before it, so none of what is looked for can stand in one.
    """
    start, end = data.find(_LOGPROBS), len(data) - len(GOES_ON)
    if not data.startswith(_FIRST_ROW, start) or not data.endswith(_LAST_ROW) or event.data_at < 0:
        return None
    if data.find(_LOGPROBS, start + len(_LOGPROBS)) >= 0:  # of another choice
        return None
    before, behind = event.raw[: event.data_at + start + len(_LOGPROBS)], event.raw[event.data_at + end :]
    return before + b"null" + behind


def says_no_logprobs(data: bytes) -> bool:
    """Whether the chunk is one of SGLang's whose choice goes on, without logprobs."""
    return data.endswith(_NO_ROWS) and data.find(_LOGPROBS) == len(data) - len(_NO_ROWS)


def take_off_chunk(data: bytes, chunk: Mapping[str, Any], hidden: Hidden) -> bytes | None:
    """The chunk's JSON for the harness, `data` itself where all is for it; None: the whole chunk is not.

    `chunk` is what `data` says.
    """
    sglext, usage = inner_object(chunk, "sglext"), chunk.get("usage")
    stays = any(value is not None for name, value in sglext.items() if name not in hidden.sglext)
    cuts_sglext = bool(hidden.sglext & sglext.keys())
    cuts_usage = hidden.usage and chunk.get("choices") == [] and usage is not None
    if (cuts_sglext or cuts_usage) and _is_empty(chunk, stays, usage is None or cuts_usage):
        return None
    cuts_logprobs = hidden.logprobs and _has_logprobs(chunk.get("choices"))
    if not (cuts_sglext or cuts_usage or cuts_logprobs):
        return data
    source = parse_object(data)
    inner = [edits_inside(source, "sglext", set={}, remove=hidden.sglext)] if cuts_sglext and stays else []
    if cuts_logprobs:
        inner.append(edits_of_items(source, "choices", _without_logprobs))
    removed = ("sglext",) if cuts_sglext and not stays else ()
    changed = {"usage": None} if cuts_usage else {}
    return spliced(data, joined_edits(source, *inner, set=changed, remove=removed))


def take_off_rest(event: RawEvent, hidden: Hidden) -> bytes:
    """For the harness, the bytes of an event whose blank line never came.

    To a reader it is none. Where its data is cut off as well, it goes up to where something was added.
    """
    try:
        chunk = loads(event.data or b"").value
    except ValueError:
        return _cut_before_hidden(event.raw, hidden)
    if event.data is None or not isinstance(chunk, dict):
        return event.raw
    edited = take_off_chunk(event.data, chunk, hidden)
    if edited is None:
        return b""
    return event.raw if edited is event.data else with_data(event, edited)


def _is_empty(chunk: Mapping[str, Any], sglext_stays: bool, no_usage: bool) -> bool:
    """Whether nothing is left in a chunk that was there for the sake of what is taken off."""
    return chunk.get("choices") == [] and not sglext_stays and no_usage and "error" not in chunk


def _has_logprobs(choices: Any) -> bool:
    of_choices = choices if isinstance(choices, list) else []
    return any(isinstance(each, dict) and each.get("logprobs") is not None for each in of_choices)


def _without_logprobs(choice: JsonObject) -> tuple[Splice, ...]:
    spans = [(each.value_start, each.value_end) for each in choice.members if each.key == "logprobs"]
    return tuple(Splice(*span, b"null") for span in spans)


def _cut_before_hidden(rest: bytes, hidden: Hidden) -> bytes:
    marks = [b'"logprobs"'] if hidden.logprobs else []
    marks += [b'"sglext"'] if hidden.sglext else []
    marks += _NO_CHOICES if hidden.usage else ()
    return rest[: min((at for mark in marks if (at := rest.find(mark)) >= 0), default=len(rest))]
