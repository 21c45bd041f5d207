import gzip
import io
from pathlib import Path
from typing import Any

import pytest
from mitmproxy.http import HTTPFlow
from mitmproxy.io import FlowReader

from tests.support.chat import chat_request, compact, completion
from tests.support.exchanges import exchange
from tests.support.logs import stream_events, streamed
from turnstile.addon.capture.log_flows import write_flows
from turnstile.addon.tracelog.records import Arrival, Exchange, Splice

LOG = Path("traces/t.tslog")


def written(*exchanges: Exchange) -> bytes:
    file = io.BytesIO()
    assert write_flows(file, ((LOG, each) for each in exchanges), {}) == len(exchanges)
    return file.getvalue()


def flows(*exchanges: Exchange) -> list[HTTPFlow]:
    reader: Any = FlowReader(io.BytesIO(written(*exchanges)))  # type: ignore[no-untyped-call]
    return list(reader.stream())


def test_a_flow_has_both_bodies_as_they_went_to_and_came_from_the_backend() -> None:
    asked, reply = chat_request(), compact(completion())
    splices = (Splice(1, 1, b'"logprobs":true,'),)
    headers = (("content-type", "application/json"), ("content-length", str(len(asked))), ("x-a", "\xe9"))
    (flow,) = flows(exchange(request=asked, splices=splices, request_headers=headers, reply=reply))
    assert flow.request.content == b'{"logprobs":true,' + asked[1:]
    assert flow.request.headers["content-length"] == str(len(asked) + 16)
    assert (b"x-a", b"\xe9") in flow.request.headers.fields
    assert flow.response is not None
    assert (flow.response.status_code, flow.response.content) == (200, reply)
    assert (flow.request.method, flow.request.path) == ("POST", "/v1/chat/completions")


def test_a_flow_has_comment_metadata_and_times() -> None:
    (flow,) = flows(exchange(7, group_id="task-7", reply=compact(completion()), missing=("logprobs",)))
    assert flow.comment == "task-7  2+2 tokens  stop  missing logprobs"
    assert flow.marked == ":warning:"
    assert flow.metadata["turnstile_log"] == str(LOG)
    assert flow.id == "0123456789abcdef-000007"
    assert flow.response is not None
    times = (flow.request.timestamp_start, flow.response.timestamp_start, flow.response.timestamp_end)
    assert times == (1007.0, 1007.5, 1007.5)


def test_a_stream_began_when_its_first_piece_came() -> None:
    events = stream_events([1], [2])
    arrivals = (Arrival(10, 0.25), Arrival(len(b"".join(events)), 0.5))
    (flow,) = flows(streamed(1, events, arrivals=arrivals))
    assert flow.response is not None
    assert flow.response.timestamp_start == 1001.25
    assert flow.response.content == b"".join(events)


@pytest.mark.parametrize("outcome", ["refused", "client_left", "backend_failed", "interrupted"])
def test_an_exchange_without_a_whole_reply_is_a_failed_flow(outcome: str) -> None:
    (flow,) = flows(exchange(outcome=outcome, status=None, reply=b"", error="why"))
    assert flow.response is None
    assert flow.error is not None
    assert flow.error.msg == "why"


def test_a_compressed_request_is_shown_as_it_was_forwarded() -> None:
    headers = (("content-encoding", "gzip"),)
    (flow,) = flows(exchange(request=gzip.compress(b"{}"), request_headers=headers))
    assert (flow.request.content, "content-encoding" in flow.request.headers) == (b"{}", False)


def test_an_encoding_that_cannot_be_undone_stays() -> None:
    headers = (("content-encoding", "rot13"),)
    (flow,) = flows(exchange(request=b"{}", request_headers=headers))
    assert flow.request.raw_content == b"{}"


def test_the_same_log_gives_the_same_file() -> None:
    assert written(exchange(1), exchange(2)) == written(exchange(1), exchange(2))
