"""Which choices of an exchange the model answered to the end, and what to say of those that it did not.

A stream tells the ids of all that it sampled last: a choice whose ids came has ended, whatever became of the
stream after that. Of one that was cut off before, nobody knows what the model saw and sampled.
"""

from collections.abc import Sequence

from turnstile.addon.backends.errors import UndecodableReply
from turnstile.addon.backends.reading import ChoiceReading, read_chat
from turnstile.addon.backends.stream_reading import StreamReading, read_chat_stream
from turnstile.addon.tracelog.records import Exchange
from turnstile.compiler.finding import Finding, Place

CHAT_PATH = "/v1/chat/completions"


def choices_of(exchange: Exchange, place: Place) -> tuple[list[ChoiceReading], list[Finding]]:
    """What each choice of the reply says; without a whole and readable reply none, and why."""
    is_stream = _is_stream(exchange)
    if finding := _nothing_to_read(exchange, is_stream, place):
        return [], [finding]
    try:
        content = exchange.reply_content()
        if is_stream:
            return _choices_of_stream(read_chat_stream(content), exchange, place)
        return read_chat(content), []
    except (UndecodableReply, ValueError) as error:
        return [], [
            _broken_off(exchange, place) or place.error("undecodable", f"the reply cannot be read: {error}")
        ]


def was_delivered(exchange: Exchange) -> bool:
    """Whether the harness got the reply; of a stream that the backend broke off it got what there was."""
    return exchange.delivered and exchange.outcome in ("complete", "backend_failed")


def may_have_computed(exchange: Exchange) -> bool:
    """Whether the backend may have computed something for the exchange, even though no reply tells of it."""
    refused_by_backend = exchange.outcome == "complete" and 400 <= (exchange.status or 0) < 500
    return exchange.outcome != "refused" and not refused_by_backend


def _nothing_to_read(exchange: Exchange, is_stream: bool, place: Place) -> Finding | None:
    """Why no reply of the model can be expected here."""
    if exchange.outcome == "refused":
        because = exchange.error or "no reason was recorded"
        return place.warning(
            "upstream_error", f"the proxy refused the request and forwarded nothing: {because}"
        )
    if exchange.path.partition("?")[0] != CHAT_PATH:
        return place.error("not_compiled", f"{exchange.path} is recorded, but only {CHAT_PATH} is compiled")
    if exchange.status != 200:
        return _broken_off(exchange, place) or place.error("upstream_error", _failure(exchange))
    if is_stream:
        return None
    if exchange.outcome == "backend_failed" or not exchange.reply:
        return _broken_off(exchange, place) or place.error("undecodable", "the reply is empty")
    return None


def _is_stream(exchange: Exchange) -> bool:
    types = (value for name, value in exchange.reply_headers if name.lower() == "content-type")
    return next(types, "").partition(";")[0].strip().lower() == "text/event-stream"


def _choices_of_stream(
    stream: StreamReading, exchange: Exchange, place: Place
) -> tuple[list[ChoiceReading], list[Finding]]:
    if stream.error is not None:
        return [], [place.error("upstream_error", "the backend ended the stream with an error event")]
    ended, findings = [], []
    for choice in stream.choices:
        if choice.sampled_ids or (stream.done_seen and choice.finish_reason is not None):
            ended.append(choice)
        else:
            findings.append(_cut_off([choice], stream, exchange, place.at_choice(choice.choice)))
    if not ended:
        return [], [_cut_off(stream.choices, stream, exchange, place)]
    absent = _absent(ended, stream)
    if absent and exchange.outcome in ("complete", "backend_failed"):
        because = f" ({exchange.error})" if exchange.outcome == "backend_failed" and exchange.error else ""
        message = f"the stream ended without {absent}{because}; its token ids had come, and it is kept"
        findings.append(place.warning("truncated_stream", message))
    return ended, findings


def _cut_off(
    choices: Sequence[ChoiceReading], stream: StreamReading, exchange: Exchange, place: Place
) -> Finding:
    message = f"the stream ended without {_absent(choices, stream)}, before its token ids had come"
    return _broken_off(exchange, place) or place.error("truncated_stream", message)


def _absent(choices: Sequence[ChoiceReading], stream: StreamReading) -> str:
    """What should have stood at the end of the stream; "" when all of it did."""
    finished = choices and all(choice.finish_reason is not None for choice in choices)
    ends = ([] if finished else ["a finish_reason"]) + ([] if stream.done_seen else ["[DONE]"])
    return " and without ".join(ends)


def _broken_off(exchange: Exchange, place: Place) -> Finding | None:
    """The exchange ended before its reply had come; None when it did not."""
    came = f"{len(exchange.reply)} bytes of it had come" if exchange.reply else "nothing of it had come"
    if exchange.outcome == "backend_failed":
        return place.error("upstream_error", _failure(exchange))
    if exchange.outcome == "client_left":
        return place.error("undelivered", f"the harness left before the reply was whole; {came}")
    if exchange.outcome == "interrupted":
        return place.error("aborted", f"the proxy was shut down before the reply was whole; {came}")
    return None


def _failure(exchange: Exchange) -> str:
    because = f": {exchange.error}" if exchange.error else ""
    if exchange.outcome == "backend_failed":
        return f"the backend gave no whole reply{because}"
    return f"the backend answered with status {exchange.status}, expected 200{because}"
