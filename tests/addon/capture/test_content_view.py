from pathlib import Path
from typing import Any

import pytest
from mitmproxy.contentviews import Metadata
from mitmproxy.http import HTTPFlow
from mitmproxy.test import tflow

from tests.support.chat import as_without_turnstile, chat_request, compact, completion
from tests.support.exchanges import exchange
from tests.support.logs import stream_events, streamed
from tests.support.routing import experts, routed
from turnstile.addon.capture.annotations import annotate
from turnstile.addon.capture.content_view import TurnstileContentview
from turnstile.addon.capture.log_flows import flow_of
from turnstile.addon.capture.onlookers import KeptReplies
from turnstile.addon.tracelog.records import Exchange

GIF = "data:image/gif;base64,R0lGODlhAQABAAAAACH5BAEAAAAALAAAAAABAAEAAAIBRAA7"
EXCHANGE = exchange(group_id="task-7", rollout_id="a", request=chat_request(), reply=compact(completion()))


def logged(of: Exchange = EXCHANGE) -> HTTPFlow:
    return flow_of(of, Path("t.tslog"))


def live(kept: KeptReplies | None = None) -> HTTPFlow:
    """A flow whose harness got the reply without what was added."""
    flow = tflow.tflow(resp=True)
    annotate(flow, EXCHANGE, None)
    flow.request.content = EXCHANGE.request
    flow.response.content = compact(as_without_turnstile(completion()))
    if kept is not None:
        kept.keep(flow.id, EXCHANGE)
    return flow


def views(flow: HTTPFlow, kept: KeptReplies | None = None) -> tuple[str, str]:
    """Of the request and of the reply."""
    view = TurnstileContentview(kept or KeptReplies())
    request = view.prettify(flow.request.content or b"", Metadata(flow=flow, http_message=flow.request))
    assert flow.response is not None
    reply = view.prettify(flow.response.content or b"", Metadata(flow=flow, http_message=flow.response))
    return request, reply


def test_a_flow_from_a_log_shows_messages_and_tokens() -> None:
    request, reply = views(logged())
    assert request.startswith("model: tiny\n")
    assert "user:\n    Count." in request
    head = "group: task-7\nrollout: a\nexchange: 0123456789abcdef-000001\noutcome: complete\n\nchoice 0:"
    assert reply.startswith(head)
    assert '151645   -0.25000     1  step-1   "<|im_end|>"' in reply


def test_a_live_flow_shows_what_the_backend_sent() -> None:
    kept = KeptReplies()
    flow = live(kept)
    assert "-0.25000     1  step-1" in views(flow, kept)[1]
    assert flow.response is not None
    assert b"step-1" not in (flow.response.content or b"").partition(b'"metadata"')[0]


def test_a_flow_that_has_lost_the_tokens_says_where_they_are() -> None:
    reply = views(live())[1]
    assert "    4\n" in reply
    assert "`turnstile flows` makes flows" in reply


def test_a_stream_shows_messages_and_tokens() -> None:
    reply = views(logged(streamed(1, stream_events([1, 2], [4, 5]))))[1]
    assert '   -0.25000     1  -        "<5>"' in reply


def test_the_tokens_of_an_image_are_counted_in_the_replys_prompt() -> None:
    part = {"type": "image_url", "image_url": {"url": GIF}}
    asked = chat_request(messages=[{"role": "user", "content": [part]}])
    ids: Any = {"prompt_token_ids": [1, 9, 9, 9, 2]}
    reply = completion()
    reply["choices"][0] |= ids
    of = exchange(request=asked, reply=compact(reply), backend={"model_config": {"image_token_id": 9}})
    for view in views(logged(of)):
        assert "[image c552a1e8 1x1, 3 tokens]" in view
    assert "[image c552a1e8 1x1, 3 tokens]" not in views(logged(exchange(request=asked)))[0]


def test_rows_of_routing_that_were_left_out_are_known_from_the_request() -> None:
    of = routed(1, [1, 2], [3, 4], experts(2), start=2)
    reply = views(logged(of))[1]
    (row, last) = (line.split()[5] for line in reply.splitlines() if '"<' in line)
    assert (len(row), last) == (6, "-")


def test_an_error_is_shown_as_it_is() -> None:
    reply = views(logged(exchange(status=400, reply=b'{"error": "no"}')))[1]
    assert reply.endswith('problems: HTTP 400\n\n{"error": "no"}')


@pytest.mark.parametrize(
    "body", [b"", b"[]", b"<html>\xff", b'{"choices": 7}', b"data: x\n\n", b"[" * 100_000]
)
def test_what_cannot_be_shown_is_plain_text(body: bytes) -> None:
    request, reply = views(logged(exchange(request=body, reply=body)))
    plain = body.decode("utf-8", "backslashreplace")
    assert request.endswith(plain)
    assert reply.endswith(plain)


def test_only_captured_flows_are_shown_by_it_unasked() -> None:
    view = TurnstileContentview(KeptReplies())
    assert view.render_priority(b"", Metadata(flow=logged())) > 2
    assert view.render_priority(b"", Metadata(flow=tflow.tflow())) < 0
    assert view.render_priority(b"", Metadata()) < 0
    assert view.prettify(b"text", Metadata(flow=tflow.ttcpflow())) == "text"
