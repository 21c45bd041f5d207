"""A mitmproxy script that only hands replies on as they come: what a bare proxy needs to stream."""

from mitmproxy.http import HTTPFlow


def responseheaders(flow: HTTPFlow) -> None:
    """Has the reply's body passed on piece by piece instead of whole."""
    assert flow.response is not None
    flow.response.stream = True
