"""What only a full queue shows, with the hooks' functions called as mitmproxy calls them."""

import asyncio
import json
from pathlib import Path

from mitmproxy.connection import ConnectionState
from mitmproxy.flow import Error
from mitmproxy.http import HTTPFlow, Response
from mitmproxy.test import tflow, tutils

from tests.support.backend import Backend, chat_reply, running_backend
from turnstile.addon.capture import flows
from turnstile.addon.capture.backend_watch import BackendWatch
from turnstile.addon.capture.fetched_images import FetchedImages
from turnstile.addon.capture.options import Settings
from turnstile.addon.capture.recorder import Recorder
from turnstile.addon.capture.recording import interrupt
from turnstile.addon.capture.session import Session
from turnstile.addon.capture.weight_reader import WeightReader
from turnstile.addon.tracelog.reader import log_paths, open_log
from turnstile.addon.tracelog.records import Exchange
from turnstile.addon.tracelog.writer import LogWriter

BODY = b'{"model": "m", "messages": []}'


def session_with_little_room(backend: Backend, directory: Path) -> Session:
    settings = Settings(
        backend_url=backend.url,
        log_directory=directory,
        rotate_bytes=1 << 30,
        backend="auto",
        streaming="buffered",
        moe="off",
        durability="record",
        on_log_error="fail",
        image_hosts=None,
        secret=b"",
        redacted_headers=frozenset(),
    )
    recorder = Recorder(LogWriter(directory, program="test"), "record", queue_records=1)
    watch = BackendWatch(backend.url, "auto", recorder.set_backend)
    weights = WeightReader(backend.url, recorder.record_at_once)
    return Session(settings, recorder, watch, weights, FetchedImages(None))


async def answered(session: Session) -> HTTPFlow:
    """A flow whose backend has just replied, with its response hook still to come."""
    flow = tflow.tflow(req=tutils.treq(method=b"POST", path=b"/v1/chat/completions", content=BODY))
    flow.client_conn.state = ConnectionState.OPEN
    await flows.on_request(session, flow)
    flow.response = Response.make(200, chat_reply(json.loads(flow.request.content or b"")))
    return flow


def logged(directory: Path) -> list[Exchange]:
    with open_log(*log_paths([directory])) as log:
        return [exchange for _, exchange in log.exchanges()]


async def test_a_harness_that_leaves_while_its_record_waits_for_room_did_not_get_its_reply(
    tmp_path: Path,
) -> None:
    with running_backend() as backend:
        session = session_with_little_room(backend, tmp_path)
        stays, leaves = await answered(session), await answered(session)
        hooks = [asyncio.ensure_future(flows.on_response(session, flow)) for flow in (stays, leaves)]
        await asyncio.sleep(0)
        leaves.client_conn.state = ConnectionState.CLOSED
        await asyncio.gather(*hooks)
        session.recorder.close()
    assert [(found.outcome, found.delivered) for found in logged(tmp_path)] == [
        ("complete", True),
        ("complete", False),
    ]
    assert session.counters.undelivered == 1


async def test_a_harness_that_resets_an_http2_stream_left_and_the_backend_was_not_away(
    tmp_path: Path,
) -> None:
    with running_backend() as backend:
        session = session_with_little_room(backend, tmp_path)
        flow = await answered(session)
        flow.response, flow.error = None, Error("stream reset by client (CANCEL)")
        await flows.on_error(session, flow)
        session.recorder.close()
    (found,) = logged(tmp_path)
    assert (found.outcome, found.delivered) == ("client_left", False)
    assert session.backend.known is not None


async def test_a_record_that_waits_for_room_when_the_proxy_stops_is_not_lost(tmp_path: Path) -> None:
    with running_backend() as backend:
        session = session_with_little_room(backend, tmp_path)
        first, waiting = await answered(session), await answered(session)
        hooks = [asyncio.ensure_future(flows.on_response(session, flow)) for flow in (first, waiting)]
        await asyncio.sleep(0)
        interrupt(session)
        session.recorder.close()
        for hook in hooks:
            hook.cancel()
        await asyncio.gather(*hooks, return_exceptions=True)
    found = logged(tmp_path)
    assert [exchange.outcome for exchange in found] == ["complete", "interrupted"]
    assert found[1].reply == (waiting.response.raw_content if waiting.response else None)


async def test_a_reply_that_another_script_streamed_is_left_alone_and_its_record_says_so(
    tmp_path: Path,
) -> None:
    with running_backend() as backend:
        session = session_with_little_room(backend, tmp_path)
        flow = await answered(session)
        assert flow.response is not None
        flow.response.stream, flow.response.data.content = True, None
        head = flow.response.headers.fields
        await flows.on_response(session, flow)
        session.recorder.close()
    (found,) = logged(tmp_path)
    assert (found.outcome, found.reply) == ("complete", b"")
    assert found.error == "another script of mitmproxy streamed the reply, so that its body was not seen"
    assert flow.response.headers.fields == head  # it is on its way already
