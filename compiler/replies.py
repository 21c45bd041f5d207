"""Which exchanges have a whole answer of the model, and what to say of those that have none."""

from turnstile.addon.backends.errors import UndecodableReply
from turnstile.addon.backends.reading import ChoiceReading, read_chat
from turnstile.addon.tracelog.records import Exchange
from turnstile.compiler.finding import Finding, Place

CHAT_PATH = "/v1/chat/completions"


def choices_of(exchange: Exchange, place: Place) -> tuple[list[ChoiceReading], list[Finding]]:
    """What each choice of the reply says; without a whole and readable reply none, and why."""
    if finding := _nothing_to_read(exchange, place):
        return [], [finding]
    try:
        return read_chat(exchange.reply_content()), []
    except (UndecodableReply, ValueError) as error:
        return [], [
            _unfinished(exchange, place) or place.error("undecodable", f"the reply cannot be read: {error}")
        ]


def was_delivered(exchange: Exchange) -> bool:
    """Whether the harness got the reply."""
    return exchange.delivered and exchange.outcome == "complete"


def _nothing_to_read(exchange: Exchange, place: Place) -> Finding | None:
    """Why no reply of the model can be expected here."""
    if exchange.outcome == "refused":
        because = exchange.error or "no reason was recorded"
        return place.warning(
            "upstream_error", f"the proxy refused the request and forwarded nothing: {because}"
        )
    if exchange.path.partition("?")[0] != CHAT_PATH:
        return place.error("not_compiled", f"{exchange.path} is recorded, but only {CHAT_PATH} is compiled")
    if exchange.outcome == "backend_failed" or (exchange.status != 200 and not _unfinished(exchange, place)):
        return place.error("upstream_error", _failure(exchange))
    if exchange.status != 200 or not exchange.reply:
        return _unfinished(exchange, place) or place.error("undecodable", "the reply is empty")
    return None


def _unfinished(exchange: Exchange, place: Place) -> Finding | None:
    """The exchange ended before its reply had come; None when it did not."""
    came = f"{len(exchange.reply)} bytes of it had come" if exchange.reply else "nothing of it had come"
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
