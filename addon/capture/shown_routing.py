"""The routing of a reply in a few characters a token, so that rows can be told apart at a glance.

A token with the same digest was sent to the same experts in every layer. Digests stand only where it is
certain which row is whose: what can be read in two ways is not shown by the token.
"""

from base64 import b64decode
from collections.abc import Sequence
from dataclasses import dataclass
from hashlib import blake2b, sha256

from turnstile.addon.backends.moe_shape import MoeShape
from turnstile.addon.backends.reading import ChoiceReading
from turnstile.addon.backends.row_placement import DTYPES, AmbiguousRouting, UndecodableRouting, placed

_NONE = "-"  # the last token has no row: it was never fed to the model
_DIGEST_BYTES = 3


@dataclass(frozen=True, slots=True)
class ShownRouting:
    """What is shown of it."""

    summary: str
    digests: Sequence[str] | None = None  # of the sampled tokens; None: it is not certain which row is whose


def shown_routing(
    choice: ChoiceReading, counts: tuple[int, int], first_row: int, shape: MoeShape
) -> ShownRouting | None:
    """Of a choice with (prompt, sampled) ids, rows wanted from `first_row` on; None without any."""
    text = next(iter(choice.routed_experts.values()), None)
    if not isinstance(text, str):
        return None
    kind = choice.routed_experts_dtype or "int32"
    try:
        rows = b64decode(text, validate=True)
    except ValueError:
        return ShownRouting(f"{len(text):,} characters that are no base64")
    told = f"{len(rows):,} bytes of {kind}, sha256 {sha256(rows).hexdigest()[:12]}"
    try:
        digests = _digests(rows, kind, counts, first_row, shape)
    except (AmbiguousRouting, UndecodableRouting):
        return ShownRouting(f"{told}; which rows are whose is not certain")
    return ShownRouting(told, digests)


def _digests(
    rows: bytes, kind: str, counts: tuple[int, int], first_row: int, shape: MoeShape
) -> Sequence[str]:
    if kind not in DTYPES:
        raise UndecodableRouting(f"ids of the type {kind}")
    id_bytes = int(DTYPES[kind][-1])
    at = placed(len(rows) // id_bytes, shape.row_size, shape.layers, first_row, counts)
    size, (prompt, sampled) = at.row_size * id_bytes, counts
    found = []
    for token in range(prompt, prompt + sampled):
        start = (token - at.first) * size
        is_told = at.first <= token < at.first + at.rows
        row = rows[start : start + size]
        found.append(blake2b(row, digest_size=_DIGEST_BYTES).hexdigest() if is_told else _NONE)
    return found
