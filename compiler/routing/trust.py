"""Whether an answer's routing can be what the tokens were computed with.

What makes it doubtful (SGLang 0.5.7 to 0.5.23, vLLM up to 0.26): a request that was taken off the device and
computed again, a prefix that came from a cache that keeps no routing, a server that hands out other
requests' rows, and rows that no router can have made.
"""

from collections.abc import Collection, Iterator

import numpy as np
from numpy.typing import NDArray

from turnstile.addon.backends.facts import BackendFacts, at_least
from turnstile.addon.backends.moe_shape import MoeShape
from turnstile.addon.backends.reading import ChoiceReading
from turnstile.compiler.routing.rows import Experts, RoutedRows

type Mask = NDArray[np.bool_]

MIXED_BATCH_FIXED_IN = (0, 5, 13)
"""Earlier SGLang indexes the routing of a batch by the wrong position when some of it did not ask."""

MOST_EXPERTS = 1 << 16
"""No model has more in a layer."""

ALIKE_ROWS = 8
"""So many tokens in a row, and all of them, are never sent to the same experts in every layer."""


def origin_doubts(reading: ChoiceReading, facts: BackendFacts | None) -> Iterator[str]:
    """Why rows may not be those of this answer, whatever they say."""
    of_sglang = facts is not None and facts.kind == "sglang" and facts.version is not None
    if facts is not None and of_sglang and not at_least(facts, *MIXED_BATCH_FIXED_IN):
        yield f"SGLang {facts.version_text} may give the rows of another request; 0.5.13 or later does not"
    details = reading.cached_tokens_details
    elsewhere = [name for name in ("host", "storage") if _count(details.get(name))]
    if elsewhere:
        yield (f"a part of the prompt came from the {' and '.join(elsewhere)} cache, which keeps no routing")
    # What once came back from the host lies on the device from then on, and is counted there.
    hierarchical = facts is not None and facts.server_info.get("enable_hierarchical_cache") is True
    if hierarchical and not elsewhere and reading.cached_tokens != 0:
        yield "a part of the prompt came from a hierarchical cache, which keeps no routing"


def value_doubts(rows: RoutedRows, shape: MoeShape) -> Iterator[str]:
    """What no router can have said."""
    experts = rows.experts
    if not experts.size:
        return
    if (lowest := int(experts.min())) < 0:
        yield f"{_where(rows, experts < 0)} names expert {lowest}"
    limit = min(shape.experts or MOST_EXPERTS, MOST_EXPERTS)
    if (highest := int(experts.max())) >= limit:
        yield f"{_where(rows, experts >= limit)} names expert {highest}, expected one below {limit}"
    if experts.shape[2] > 1 and (repeats := _repeats(experts, shape.dense_layers)).any():
        yield f"{_where(rows, repeats)} names an expert twice, or is all zeros: it was not captured"
    if len(experts) >= ALIKE_ROWS and (experts[1:] == experts[0]).all():
        yield f"all {len(experts)} rows are the same: they were not captured one by one"


def _repeats(experts: Experts, dense_layers: Collection[int]) -> Mask:
    """[rows, layers], true where a layer that has experts is told one of them twice."""
    ordered = np.sort(experts, axis=2)
    repeats: Mask = (ordered[:, :, 1:] == ordered[:, :, :-1]).any(axis=2)
    repeats[:, [layer for layer in dense_layers if layer < repeats.shape[1]]] = False
    return repeats


def _where(rows: RoutedRows, wrong: Mask) -> str:
    row, layer = np.argwhere(wrong)[0][:2].tolist()
    return f"row {rows.start + row}, layer {layer}" if rows.has_shape else f"row {rows.start + row}"


def _count(value: object) -> int:
    return value if isinstance(value, int) else 0
