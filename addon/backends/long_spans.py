"""Cuts the long values out of a reply, so that the rest can be parsed for next to nothing.

Nearly all of a captured reply is ids, logprobs and routed experts: 240 kB of 243 for 16,000 prompt ids and
1,000 sampled ones, and two kilobytes for each of these in a large mixture of experts. Who only drops them, or
hands them on, need not parse them. A cut value leaves a placeholder string behind and is put back as the
bytes that it was; one that is dropped was never copied.

Found by text. In JSON a quote inside a string has a backslash before it, so `"key":[` stands for a key at
some depth. A span that ends too early leaves more closing brackets than opening ones, and what is left is no
JSON: who cuts must be ready to parse the whole. One that ends too late is excluded by what may stand at its
end.
"""

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass

_PLACEHOLDER = b'"\\u0000cut%d"'
_PLACED = re.compile(rb'"\\u0000cut(\d+)"')

_Span = tuple[int, int]  # [start, end) of a value
_Field = Callable[[bytes, int], _Span | None]  # its next value from an offset on


@dataclass(frozen=True, slots=True)
class Cut:
    """A reply without its long values."""

    rest: bytes
    views: Mapping[str, memoryview]  # of the values, by the string that stands in their place

    @property
    def values(self) -> dict[str, bytes]:
        """The values; each time they are copied."""
        return {name: bytes(view) for name, view in self.views.items()}

    def put_back(self, text: bytes) -> bytes:
        """JSON text written from what was parsed out of `rest`, with the values in it again."""
        if not self.views:
            return text
        views = tuple(self.views.values())
        return _PLACED.sub(lambda place: bytes(views[int(place[1])]), text)


def cut_long_values(reply: bytes) -> Cut:
    """Cuts the prompt ids, logprobs of both forms and routed experts of a reply that SGLang laid out."""
    fields = (_logprobs, _prompt_ids, _output_token_logprobs, _routed_experts)
    return _cut_if_told_apart(reply, _sglang_spans(reply, fields))


def cut_routed_experts(reply: bytes) -> Cut:
    """Cuts the routed experts, wherever they stand, of a reply or of a chunk of a stream."""
    return _cut_if_told_apart(reply, _sglang_spans(reply, (_routed_experts,)))


def cut_prompts_and_logprobs(reply: bytes, *, and_routing: bool = False) -> Cut:
    """Cuts the prompt ids wherever they stand, and OpenAI's logprobs in the layout of SGLang.

    Prompt ids are arrays (`prompt_token_ids`, sglext's `input_ids`), logprobs objects with a `content`. The
    routed experts are cut only where `and_routing` says so.
    """
    fields = (_logprobs, _prompt_ids, _routed_experts) if and_routing else (_logprobs, _prompt_ids)
    cut = _cut(uncut(reply), _sglang_spans(reply, fields))
    for key in (b'"prompt_token_ids"', b'"input_ids"'):
        if key in cut.rest:  # of what is left, next to nothing in the usual layout
            cut = _cut(cut, _arrays(cut.rest, key))
    return cut if _is_told_apart(cut) else uncut(reply)


def uncut(reply: bytes) -> Cut:
    """The reply as it is."""
    return Cut(reply, {})


def _cut_if_told_apart(reply: bytes, spans: Iterable[_Span]) -> Cut:
    cut = _cut(uncut(reply), spans)
    return cut if _is_told_apart(cut) else uncut(reply)


def _cut(before: Cut, spans: Iterable[_Span]) -> Cut:
    """With these spans of its rest cut out as well."""
    rest, views = before.rest, dict(before.views)
    parts, at = [], 0
    for start, end in spans:
        parts += [rest[at:start], _PLACEHOLDER % len(views)]
        views[f"\0cut{len(views)}"] = memoryview(rest)[start:end]
        at = end
    return Cut(b"".join([*parts, rest[at:]]), views)


def _is_told_apart(cut: Cut) -> bool:
    """Whether the model wrote nothing that looks like a placeholder; where it did, nothing may be cut."""
    return cut.rest.count(b'"\\u0000cut') == len(cut.views)


def _arrays(reply: bytes, quoted_key: bytes) -> Iterator[_Span]:
    """The arrays without strings or arrays in them that are values of the key."""
    at = 0
    while (found := reply.find(quoted_key, at)) >= 0:
        at = found + len(quoted_key)
        colon = _behind_space(reply, at)
        start = _behind_space(reply, colon + 1)
        is_key = reply[found - 1 : found] != b"\\" and reply[colon : colon + 1] == b":"
        if is_key and reply[start : start + 1] == b"[" and (end := reply.find(b"]", start)) >= 0:
            if reply.find(b'"', start, end) < 0:  # else it may hold what was cut before
                yield start, end + 1
            at = end + 1


def _sglang_spans(reply: bytes, fields: Iterable[_Field]) -> Iterator[_Span]:
    """Choice by choice, in the order of ChatCompletionResponseChoice, so that no byte is searched twice."""
    at, found = 0, True
    while found:
        found = False
        for span_from in fields:
            if (span := span_from(reply, at)) is not None:
                yield span
                at, found = span[1], True


def _logprobs(reply: bytes, at: int) -> _Span | None:
    """`{"content": [rows]}`, up to the finish_reason that follows in the same choice.

    A member between them would show as `]},"`, which also ends a token's text now and then: then it stays.
    """
    key, end_mark = b'"logprobs":{"content":[{', b'}]},"finish_reason":'
    if (found := reply.find(key, at)) < 0:
        return None
    start = found + len(b'"logprobs":')
    end = reply.find(b']},"', start)
    is_end = end >= 0 and reply.startswith(end_mark, end - 1)
    return (start, end + len(b"]}")) if is_end else None


def _prompt_ids(reply: bytes, at: int) -> _Span | None:
    key = b'"prompt_token_ids":['
    found = reply.find(key, at)
    end = reply.find(b"]", found) if found >= 0 else -1
    return (found + len(key) - 1, end + 1) if end >= 0 else None


def _output_token_logprobs(reply: bytes, at: int) -> _Span | None:
    """The rows `[logprob, id, text]`, up to the count that follows them."""
    key, end_mark = b'"output_token_logprobs":[[', b']],"output_token_logprobs_length":'
    if (found := reply.find(key, at)) < 0:
        return None
    end = reply.find(b']],"', found)
    is_end = end >= 0 and reply.startswith(end_mark, end)
    return (found + len(key) - 2, end + 2) if is_end else None


def _routed_experts(reply: bytes, at: int) -> _Span | None:
    """The base64 of a choice, or of the reply in its `sglext`; an empty or escaped string is none."""
    key = b'"routed_experts":"'
    if (found := reply.find(key, at)) < 0:
        return None
    start = found + len(key) - 1
    end = reply.find(b'"', start + 1)
    return (start, end + 1) if end > start + 1 and reply[end - 1 : end] != b"\\" else None


def _behind_space(reply: bytes, at: int) -> int:
    while reply[at : at + 1] in (b" ", b"\t", b"\n", b"\r"):
        at += 1
    return at
