from collections.abc import Iterator

import pytest
from mitmproxy.proxy.layers.http import HttpStream, _http1

from turnstile.addon.capture import http_stream
from turnstile.addon.capture.http_stream import (
    extend_http_streams,
    restore_http_streams,
    what_mitmproxy_changed,
)

FUNCTIONS = (
    (HttpStream, "state_stream_response_body"),
    (HttpStream, "handle_protocol_error"),
    (_http1, "make_body_reader"),
)


def functions() -> list[object]:
    return [getattr(owner, name) for owner, name in FUNCTIONS]


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    yield
    restore_http_streams()


def test_mitmproxys_own_functions_come_back() -> None:
    own = functions()
    for _ in range(2):
        extend_http_streams()
        assert not set(own) & set(functions())
    restore_http_streams()
    assert functions() == own


@pytest.mark.parametrize(
    ("name", "found", "said"),
    [
        ("_hand_on", None, "HttpStream.state_stream_response_body is gone"),
        ("_fail", lambda self: None, "HttpStream.handle_protocol_error takes (self), not (self, event)"),
        ("_body_reader", None, "make_body_reader is gone"),
        ("_body_reader", lambda size: None, "make_body_reader takes (size), not (expected_size)"),
    ],
)
def test_what_mitmproxy_changed_is_told(
    monkeypatch: pytest.MonkeyPatch, name: str, found: object, said: str
) -> None:
    assert what_mitmproxy_changed() is None
    monkeypatch.setattr(http_stream, name, found)
    assert what_mitmproxy_changed() == f"this mitmproxy is not one that Turnstile knows: {said}"
