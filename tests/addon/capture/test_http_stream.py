from collections.abc import Iterator

import pytest
from mitmproxy.proxy.layers.http import HttpStream

from turnstile.addon.capture.http_stream import extend_http_streams, restore_http_streams

METHODS = ("state_stream_response_body", "handle_protocol_error")


def methods() -> list[object]:
    return [getattr(HttpStream, name) for name in METHODS]


@pytest.fixture(autouse=True)
def nothing_stays() -> Iterator[None]:
    yield
    restore_http_streams()


def test_mitmproxys_own_methods_come_back() -> None:
    own = methods()
    for _ in range(2):
        extend_http_streams()
        assert not set(own) & set(methods())
    restore_http_streams()
    assert methods() == own
