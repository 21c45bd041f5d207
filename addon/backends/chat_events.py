"""What the events of a chat stream are to a reader.

Sources: OpenAI's client, which ends at data that begins with [DONE]; SGLang's serving_chat (0.5.20 to
0.5.23), which sends ids as `event: sglext_ids` to a request with the header x-sglext-ids-framed; servers
that name their error events.
"""

from turnstile.addon.backends.sse import MESSAGE, RawEvent

IDS = b"sglext_ids"
ERROR = b"error"
CHUNKS = frozenset({MESSAGE, IDS, ERROR})
"""Types of the events whose data is a JSON object of the stream."""

_DONE = b"[DONE]"


def is_done(event: RawEvent) -> bool:
    """Whether the event tells that nothing more comes."""
    return event.data is not None and event.data.startswith(_DONE)
