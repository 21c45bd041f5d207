"""The choices of one exchange must agree: they answer one prompt, and the usage counts what they sampled."""

from collections.abc import Sequence

import numpy as np

from turnstile.addon.backends.reading import ChoiceReading
from turnstile.compiler.agreement import count_findings
from turnstile.compiler.finding import Finding, Place
from turnstile.compiler.turn import Turn


def prompt_conflicts(turns: Sequence[Turn], place: Place) -> list[Finding]:
    """One finding when the turns of an exchange do not have the same prompt."""
    for other in turns[1:]:
        if not np.array_equal(turns[0].prompt_ids, other.prompt_ids):
            choices = f"choice {turns[0].choice} and choice {other.choice}"
            message = f"the prompt ids of {choices} differ, though they answer one request"
            return [place.error("token_source_conflict", message)]
    return []


def sum_findings(readings: Sequence[ChoiceReading], place: Place) -> list[Finding]:
    """One for every count of all sampled ids together that is another than theirs.

    None where the ids of some choice are missing, which is a finding of that choice.
    """
    claims = readings[0].completion_token_sums
    if not claims or not all(reading.sampled_ids for reading in readings):
        return []
    total = sum(len(next(iter(reading.sampled_ids.values()))) for reading in readings)
    return count_findings("sampled", total, claims, place)
