"""Exchanges for tests, with only what a test cares about spelled out."""

from typing import Any

from turnstile.addon.tracelog.records import Exchange


def exchange(number: int = 1, *, log_id: str = "0123456789abcdef", **fields: Any) -> Exchange:
    """A whole chat exchange; `number` tells it from others."""
    usual: dict[str, Any] = {
        "exchange_id": f"{log_id}-{number:06d}",
        "group_id": "g",
        "rollout_id": None,
        "started_at": 1000.0 + number,
        "duration_s": 0.5,
        "method": "POST",
        "path": "/v1/chat/completions",
        "outcome": "complete",
        "status": 200,
        "request_headers": (("content-type", "application/json"),),
        "request": b'{"messages":[]}',
        "splices": (),
        "reply_headers": (("content-type", "application/json"),),
        "reply": b'{"choices":[]}',
    }
    return Exchange(**usual | fields)
