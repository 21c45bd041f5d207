"""Turns with only what a test cares about spelled out."""

from collections.abc import Sequence
from typing import Any

import numpy as np

from turnstile.compiler.turn import Turn

LOG = "a.tslog"


def turn(number: int, prompt_ids: Sequence[int], sampled_ids: Sequence[int], **fields: Any) -> Turn:
    """A turn of exchange `e<number>`, which began `number` seconds after the epoch.

    Every sampled id has the logprob -0.5; `fields` take the place of the usual ones.
    """
    usual: dict[str, Any] = {
        "exchange_id": f"e{number}",
        "choice": 0,
        "group_id": "g",
        "rollout_id": None,
        "started_at": float(number),
        "log": LOG,
        "offset": number,
        "logprobs": [-0.5] * len(sampled_ids),
        "finish_reason": "stop",
    }
    given = usual | fields
    given["logprobs"] = np.array(given["logprobs"], np.float64)
    return Turn(
        prompt_ids=np.array(prompt_ids, np.int32), sampled_ids=np.array(sampled_ids, np.int32), **given
    )
