"""Requests read once however often their messages are resent.

Every turn of an agent loop repeats the messages of the turn before. `RequestTexts` remembers the latest
requests of a group. Of a new one that begins with the same bytes, up to the end of a remembered one's last
message, only the messages behind these are parsed.
"""

import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from turnstile.addon.backends.errors import AskingError
from turnstile.addon.backends.exact_json import loads
from turnstile.addon.backends.json_edit import parse_object
from turnstile.compiler.beginnings import Beginnings, Kept
from turnstile.compiler.images.request_images import ImageStore
from turnstile.compiler.wording import Conversation

_SPACES = b" \t\n\r"
_AFTER_A_MESSAGE = (b",", b"]", b" ", b"\n", b"\r", b"\t")
_decode = json.JSONDecoder().raw_decode


@dataclass(frozen=True, slots=True)
class ReadRequest:
    """What a chat request says."""

    fields: Mapping[str, Any]  # all but the messages
    conversation: Conversation


@dataclass(frozen=True, slots=True)
class _Known:
    """What follows from the text up to the end of the last message, which is what is kept."""

    inside: int  # offset behind the bracket that opens the messages
    tail: bytes  # from the bracket that closes them on
    request: ReadRequest


class RequestTexts:
    """The latest requests of one group."""

    def __init__(self) -> None:
        self._kept = Beginnings[_Known]()
        self._images = ImageStore()

    def read(self, body: bytes) -> ReadRequest:
        """What the request in `body` says. Raises ValueError when it is no JSON object."""
        known = self._kept.whole_in(body, followed_by=_AFTER_A_MESSAGE)
        if known is not None and (more := _continued(known, body, self._images)) is not None:
            self._kept.keep(more, instead_of=known)
            return more.value.request
        request, whole = _read_whole(body, self._images)
        if whole is not None:
            self._kept.keep(whole)
        return request


def _continued(known: Kept[_Known], body: bytes, images: ImageStore) -> Kept[_Known] | None:
    """The request in `body`, which begins with the text of `known`; None where that is not the easy case."""
    before = known.value
    try:
        messages, end, tail = _more_messages(body[known.size :])
        fields = before.request.fields
        if tail != before.tail:
            if b'"messages"' in tail:  # perhaps a second member of that name, which would count
                return None
            fields = _value(body[: before.inside] + tail)
            del fields["messages"]
    except (ValueError, RecursionError):
        return None  # what is wrong with it is for the whole reading to say
    conversation = before.request.conversation.extended(messages, images)
    request = ReadRequest(fields, conversation)
    return Kept(body, known.size + end, _Known(before.inside, tail, request))


def _more_messages(rest: bytes) -> tuple[list[Any], int, bytes]:
    """The elements of an array after one of them, where the last of them ends, what is there from `]` on."""
    text = "[0" + rest.decode()  # as if they followed a zero
    messages, end = _decode(text)
    close = len(text[2 : end - 1].encode())
    return messages[1:], len(rest[:close].rstrip(_SPACES)), rest[close:]


def _read_whole(body: bytes, images: ImageStore) -> tuple[ReadRequest, Kept[_Known] | None]:
    """The request, and what to remember of it: None unless it has one array of messages, with some in it."""
    try:
        members = parse_object(body).members
    except AskingError as error:
        raise ValueError(str(error)) from error
    fields = {member.key: _value(body[member.value_start : member.value_end]) for member in members}
    messages = fields.pop("messages", None)
    if not isinstance(messages, list) or not messages:
        return ReadRequest(fields, Conversation()), None
    request = ReadRequest(fields, Conversation().extended(messages, images))
    places = [member for member in members if member.key == "messages"]
    if len(places) > 1:
        return request, None
    close = places[0].value_end - 1
    known = _Known(places[0].value_start + 1, body[close:], request)
    return request, Kept(body, len(body[:close].rstrip(_SPACES)), known)


def _value(text: bytes) -> Any:
    text.decode()  # the standard library would let surrogates in UTF-8 pass
    return loads(text).value
