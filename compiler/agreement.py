"""Every source that tells a choice's token ids must tell the same ones, and as many as were counted.

Contradictions are not settled here: the choice is left out, and a finding says what stood against what.
"""

from collections.abc import Callable, Mapping
from typing import Any

import numpy as np
from numpy.typing import NDArray

from turnstile.addon.backends.reading import ChoiceReading, PromptText
from turnstile.compiler.finding import Finding, Place
from turnstile.compiler.prompt_texts import PromptTexts
from turnstile.compiler.token_ids import TokenIdsError, check_ids, ids_from_list

Ids = NDArray[np.int32]


def prompt_ids_of(
    reading: ChoiceReading, prompts: PromptTexts, limit: int, place: Place
) -> tuple[Ids | None, list[Finding]]:
    """The prompt ids [P] of a choice, all below `limit`; None with the reason where they are not known."""

    def parsed(found: Any) -> Ids:
        return prompts.ids(found.array) if isinstance(found, PromptText) else _listed(found)

    ids_T, findings = _agreed(reading.prompt_ids, parsed, limit, "prompt", place)
    if ids_T is not None and not len(ids_T):
        return None, [place.error("missing_token_ids", "the list of prompt ids is empty")]
    return ids_T, findings


def sampled_ids_of(reading: ChoiceReading, limit: int, place: Place) -> tuple[Ids | None, list[Finding]]:
    """The sampled ids [O] of a choice, all below `limit`; None with the reason where they are not known."""
    return _agreed(reading.sampled_ids, _listed, limit, "sampled", place)


def count_findings(what: str, count: int, claims: Mapping[str, Any], place: Place) -> list[Finding]:
    """One for every claim about the number of ids that is another than `count`; None claims nothing."""
    return [
        place.error("token_count_mismatch", f"{count} {what} ids, but {source} says {_claim(claimed)}")
        for source, claimed in claims.items()
        if claimed is not None and not (type(claimed) is int and claimed == count)
    ]


def _agreed(
    sources: Mapping[str, Any], parse: Callable[[Any], Ids], limit: int, what: str, place: Place
) -> tuple[Ids | None, list[Finding]]:
    found: dict[str, Ids] = {}
    findings = []
    for source, values in sources.items():
        try:
            found[source] = parse(values)
            check_ids(found[source], limit)
        except TokenIdsError as error:
            findings.append(place.error(error.kind, f"{what} ids in {source}: {error}"))
    if not sources:
        findings.append(place.error("missing_token_ids", f"the reply holds no {what} ids; {_ASK}"))
    if findings:
        return None, findings
    (source, ids_T), *others = found.items()
    conflicts = [
        _conflict(what, (source, ids_T), other) for other in others if not np.array_equal(ids_T, other[1])
    ]
    return None if conflicts else ids_T, [place.error("token_source_conflict", text) for text in conflicts]


_ASK = "the backend was not asked for them, is too old to give them, or something on the way dropped them"


def _listed(found: Any) -> Ids:
    if not isinstance(found, list):
        raise TokenIdsError("token_type", f"found a {type(found).__name__}, expected a list of integers")
    return ids_from_list(found)


def _conflict(what: str, one: tuple[str, Ids], other: tuple[str, Ids]) -> str:
    (source, ids_T), (other_source, other_T) = one, other
    if len(ids_T) != len(other_T):
        return f"{len(ids_T)} {what} ids in {source}, {len(other_T)} in {other_source}"
    index = int(np.flatnonzero(ids_T != other_T)[0])
    return f"{what} id {index} is {ids_T[index]} in {source}, {other_T[index]} in {other_source}"


def _claim(claimed: Any) -> str:
    return str(claimed) if isinstance(claimed, int | float) else f"a {type(claimed).__name__}"
