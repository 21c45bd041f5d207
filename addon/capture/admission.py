"""Lets a request in: checks the proxy's key, finds the route, takes off what is for Turnstile only."""

from mitmproxy.http import Request

from turnstile.addon.capture.answers import Answer, invalid_request, wrong_key
from turnstile.addon.capture.keys import OWN_PREFIX, without_key, without_own_headers
from turnstile.addon.capture.routes import Route, RouteError, find_route


def admit(request: Request, secret: bytes) -> Route | Answer:
    """The route of `request`, which is made ready for the backend; or why it is refused.

    Whatever host the request line names, the request goes to the proxy's one backend.
    """
    if secret:
        others = without_key(request.headers.fields, secret)
        if others is None:
            return wrong_key()
        request.headers.fields = others
    try:
        route = _route(request)
    except RouteError as error:
        return invalid_request(400, str(error), code="invalid_id")
    if route.target != request.path:
        request.path = route.target
    if request.authority and not request.is_http2:
        request.authority = ""  # an absolute-form request line would name another host to the backend
    return route


def _route(request: Request) -> Route:
    fields = request.headers.fields
    if not any(name.lower().startswith(OWN_PREFIX) for name, _ in fields):
        return find_route(request.method, request.path)
    route = find_route(
        request.method,
        request.path,
        group_header=request.headers.get("x-turnstile-group"),
        rollout_header=request.headers.get("x-turnstile-rollout"),
    )
    request.headers.fields = without_own_headers(fields)
    return route
