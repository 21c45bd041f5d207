"""Splices as an exchange record holds them: an image that was put into a request is a blob, like any other.

On disk (FORMAT.md, "Exchange") a splice is [start, end, bytes], or [start, end, bytes, recipe] when what
comes in is put together of these bytes and of blobs.
"""

from collections.abc import Callable, Sequence
from typing import Any

from turnstile.addon.tracelog.recipes import Recipe, put_together
from turnstile.addon.tracelog.records import LARGEST_CONTENT, Splice


def pack_splices(splices: Sequence[Splice]) -> tuple[list[list[Any]], dict[bytes, bytes]]:
    """(the splices, the blobs that they name by SHA-256)."""
    packed, blobs = list[list[Any]](), dict[bytes, bytes]()
    for splice in splices:
        recipe = Recipe()
        recipe.add_new(splice.insert, 0, len(splice.insert))
        steps = [recipe.steps] if recipe.blobs else []
        packed.append([splice.start, splice.end, b"".join(recipe.new), *steps])
        blobs |= recipe.blobs
    return packed, blobs


def unpack_splices(packed: Sequence[Sequence[Any]], blob: Callable[[bytes], bytes]) -> tuple[Splice, ...]:
    """The splices; `blob` gives the bytes of a SHA-256.

    Raises ValueError for a recipe that does not fit, or when more comes in than any content has.
    """
    room, splices = LARGEST_CONTENT, list[Splice]()
    for start, end, insert, *steps in packed:
        if steps:
            insert, _ = put_together(steps[0], memoryview(insert), (b"", b""), blob, room)
            room -= len(insert)
        splices.append(Splice(start, end, insert))
    return tuple(splices)
