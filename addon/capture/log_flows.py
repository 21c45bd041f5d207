"""Flows out of trace logs, for `mitmweb -r`: what went to the backend and what came of it, as recorded.

The one module of capture that a command may import; it needs mitmproxy and no running one.
"""

import os
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import BinaryIO

from mitmproxy.connection import Client, ConnectionState, Server
from mitmproxy.flow import Error
from mitmproxy.http import Headers, HTTPFlow, Request, Response
from mitmproxy.io import FlowWriter

from turnstile.addon.capture.annotations import LOG, annotate
from turnstile.addon.capture.content_encoding import without_encoding
from turnstile.addon.capture.merging import Standing
from turnstile.addon.tracelog.records import Exchange
from turnstile.addon.tracelog.records import Headers as RecordedHeaders

_NOWHERE = ("turnstile", 80)  # a log does not hold where the backend was


def write_flows(
    file: BinaryIO, exchanges: Iterable[tuple[Path, Exchange]], standings: Mapping[str, Standing]
) -> int:
    """Writes a flow for each exchange, with the log that it is from; gives their number.

    `standings` are those of exchanges, by their ids.
    """
    writer, count = FlowWriter(file), 0  # type: ignore[no-untyped-call]
    for log, exchange in exchanges:
        writer.add(flow_of(exchange, log, standings.get(exchange.exchange_id)))
        count += 1
    return count


def flow_of(exchange: Exchange, log: Path, standing: Standing | None = None) -> HTTPFlow:
    """The exchange as mitmproxy would have seen it before the reply was restored."""
    began, ended = exchange.started_at, exchange.started_at + exchange.duration_s
    client = Client(
        peername=("127.0.0.1", 0), sockname=("127.0.0.1", 0), timestamp_start=began, timestamp_end=ended
    )
    server = Server(address=_NOWHERE, state=ConnectionState.CLOSED)
    flow = HTTPFlow(client, server)
    flow.id = client.id = server.id = exchange.exchange_id  # else at random: the same log gives the same file
    flow.request = _request(exchange)
    if exchange.status is not None:
        flow.response = _response(exchange, exchange.status)
    if exchange.outcome != "complete":
        flow.error = Error(exchange.error or exchange.outcome, ended)
    flow.timestamp_created = began
    annotate(flow, exchange, (exchange.backend or {}).get("model_config"), standing)
    flow.metadata[LOG] = os.fsencode(log).decode(errors="replace")  # mitmproxy writes UTF-8
    return flow


def _request(exchange: Exchange) -> Request:
    try:
        content, headers = exchange.forwarded(), without_encoding(exchange.request_headers)
    except ValueError:  # an encoding that cannot be undone: it was forwarded as it came
        content, headers = exchange.request, exchange.request_headers
    host, port = _NOWHERE
    return Request(
        host=host,
        port=port,
        method=exchange.method.encode(),
        scheme=b"http",
        authority=b"",
        path=exchange.path.encode(),
        http_version=b"HTTP/1.1",
        headers=_headers(headers, len(content)),
        content=content,
        trailers=None,
        timestamp_start=exchange.started_at,
        timestamp_end=exchange.started_at,
    )


def _response(exchange: Exchange, status: int) -> Response:
    times = [arrival.after_s for arrival in exchange.arrivals]
    return Response(
        http_version=b"HTTP/1.1",
        status_code=status,
        reason=b"",
        headers=_headers(exchange.reply_headers, len(exchange.reply)),
        content=exchange.reply,
        trailers=None,
        timestamp_start=exchange.started_at + (times[0] if times else exchange.duration_s),
        timestamp_end=exchange.started_at + exchange.duration_s,
    )


def _headers(recorded: RecordedHeaders, content_length: int) -> Headers:
    """As recorded, but for the length of what is in the flow."""
    fields = [(name.encode("latin-1"), value.encode("latin-1")) for name, value in recorded]
    headers = Headers(fields)
    if "content-length" in headers:
        headers["content-length"] = str(content_length)
    return headers
