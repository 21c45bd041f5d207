"""A body as a recipe: new bytes, bytes of the base exchange, and blobs.

On disk (FORMAT.md, "Recipes") a step is an int (so many new bytes), `[body, start, size]` (a copy from
the base exchange: body 0 its request, 1 its reply), 32 bytes (the SHA-256 of a blob that stands here
in base64) or `[SHA-256, ...]` (the same, in another spelling of base64).
"""

import hashlib
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Any

import pybase64

from turnstile.addon.tracelog.base64_spans import USUAL, base64_spans
from turnstile.addon.tracelog.base64_spelling import Spelling

REQUEST, REPLY = 0, 1  # the two bodies of an exchange


@dataclass(slots=True)
class Recipe:
    """How to rebuild one body, and what is new in it."""

    steps: list[Any] = field(default_factory=list)
    new: list[bytes | memoryview] = field(default_factory=list)
    blobs: dict[bytes, bytes] = field(default_factory=dict)  # SHA-256 -> bytes, of those that it names

    def add_new(self, body: bytes, start: int, end: int) -> None:
        """body[start:end] is new, but for the long base64 spans in it, which become blobs."""
        at = start
        for span in base64_spans(body, start, end):
            self._add_literal(body, at, span.start)
            digest = hashlib.sha256(span.raw).digest()
            self.blobs[digest] = span.raw
            self.steps.append(digest if span.spelling == USUAL else [digest, *span.spelling.fields()])
            at = span.end
        self._add_literal(body, at, end)

    def add_copy(self, body: int, start: int, size: int) -> None:
        """The next `size` bytes stand at `start` of the base exchange's `body`."""
        if size:
            self.steps.append([body, start, size])

    def _add_literal(self, body: bytes, start: int, end: int) -> None:
        if end > start:
            self.steps.append(end - start)
            self.new.append(memoryview(body)[start:end])


def rebuild(
    steps: list[Any],
    new: memoryview,
    base: tuple[bytes, bytes],
    blob: Callable[[bytes], bytes],
    size: int,
) -> tuple[bytes, int]:
    """(the body of `size` bytes, how much of `new` it took); `base` are the base's request and reply.

    Raises ValueError for a step that does not fit, before it takes more memory than `size`.
    """
    body, taken = put_together(steps, new, base, blob, size)
    if len(body) != size:
        raise ValueError(f"the steps give {len(body)} bytes, the body has {size}")
    return body, taken


def put_together(
    steps: list[Any],
    new: memoryview,
    base: tuple[bytes, bytes],
    blob: Callable[[bytes], bytes],
    most: int,
) -> tuple[bytes, int]:
    """As `rebuild`, of a body of which only is known that it has at `most` so many bytes."""
    parts: list[bytes | memoryview] = []
    taken = total = 0
    for step in steps:
        if isinstance(step, int):
            part: bytes | memoryview = new[taken : taken + step]
            expected, taken = step, taken + step
        elif isinstance(step, bytes):
            part = pybase64.b64encode(blob(step))
            expected = len(part)
        elif isinstance(step[0], bytes):
            digest, *fields = step
            part = Spelling.from_fields(fields).spell(blob(digest))
            expected = len(part)
        else:
            which, start, expected = step
            part = memoryview(base[which])[start : start + expected]
        total += len(part)
        if len(part) != expected or total > most:
            raise ValueError(
                f"step {len(parts)} gives {len(part)} bytes of {expected}, {total} of {most} in all"
            )
        parts.append(part)
    return b"".join(parts), taken
