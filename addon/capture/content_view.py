"""The content view "Turnstile": a captured exchange as what the model was asked, said and sampled.

In a flow that was captured just now the response is what the harness got; what the backend sent is looked up.
A flow made from a log has that as its response. A flow that was saved by mitmproxy has lost it, which is
said. The view never raises: what it cannot show comes as plain text.
"""

from contextlib import suppress
from typing import Any

from mitmproxy.contentviews import Contentview, Metadata, SyntaxHighlight
from mitmproxy.http import HTTPFlow, Request, Response

from turnstile.addon.backends.errors import UndecodableReply
from turnstile.addon.backends.exact_json import loads
from turnstile.addon.backends.moe_shape import MoeShape
from turnstile.addon.capture.annotations import EXPERTS, IMAGE_TOKEN, LOG, is_annotated
from turnstile.addon.capture.onlookers import KeptReplies
from turnstile.addon.capture.shown_reply import Known, prompt_ids_of, shown_reply
from turnstile.addon.capture.shown_request import images_of, shown_request

_NO_IDS = "no token ids in the reply"
_TAKEN_OFF = (
    "no token ids: this is what the harness got; `turnstile flows` makes flows of all that is in the log"
)
_FIRST_ROW = ("routed_experts_start_len", "routed_experts_prompt_start")  # of a request
PRIORITY = 3.0  # above mitmproxy's own views
_SAID = ("group", "rollout", "turn", "exchange", "outcome", "split", "left", "problems", "findings")
"""Metadata that heads a reply."""


class TurnstileContentview(Contentview):
    """Looks replies up in `kept`."""

    name = "Turnstile"
    syntax_highlight: SyntaxHighlight = "none"

    def __init__(self, kept: KeptReplies) -> None:
        self._kept = kept

    def render_priority(self, data: bytes, metadata: Metadata) -> float:
        """Above all others for captured exchanges, below all for the rest."""
        return PRIORITY if is_annotated(metadata.flow) else -1.0

    def prettify(self, data: bytes, metadata: Metadata) -> str:
        """The text of a request's or a reply's body."""
        flow = metadata.flow
        try:
            if isinstance(flow, HTTPFlow) and isinstance(metadata.http_message, Request):
                return self._request(data, flow)
            if isinstance(flow, HTTPFlow) and isinstance(metadata.http_message, Response):
                return self._reply(data, flow)
        except Exception as error:
            return f"(Turnstile cannot show this: {type(error).__name__})\n\n{_plain(data)}"
        return _plain(data)

    def _request(self, data: bytes, flow: HTTPFlow) -> str:
        image_token = flow.metadata.get(IMAGE_TOKEN)
        prompt_ids = []
        if image_token is not None and flow.response is not None:
            with suppress(ValueError, UndecodableReply):  # they only tell how long the images are
                prompt_ids = prompt_ids_of(self._kept.reply_of(flow))
        return shown_request(data, prompt_ids, image_token)

    def _reply(self, data: bytes, flow: HTTPFlow) -> str:
        said = [(name, flow.metadata.get(f"turnstile_{name}")) for name in _SAID]
        head = "".join(f"{name}: {value}\n" for name, value in said if value is not None)
        if flow.response is not None and flow.response.status_code != 200:
            return f"{head}\n{_plain(data)}"
        return f"{head}\n{shown_reply(self._kept.reply_of(flow), self._known_of(flow))}"

    def _known_of(self, flow: HTTPFlow) -> Known:
        has_all = LOG in flow.metadata or self._kept.get(flow.id) is not None
        request: Any = None
        with suppress(ValueError):
            request = loads(flow.request.content or b"").value
        asked = request if isinstance(request, dict) else {}
        starts = (asked.get(name) for name in _FIRST_ROW)
        return Known(
            without_ids=_NO_IDS if has_all else _TAKEN_OFF,
            first_row=next((start for start in starts if type(start) is int and start > 0), 0),
            shape=MoeShape(*flow.metadata.get(EXPERTS, ())),
            images=images_of(asked) if isinstance(asked.get("messages"), list) else (),
            image_token=flow.metadata.get(IMAGE_TOKEN),
        )


def _plain(data: bytes) -> str:
    return data.decode("utf-8", "backslashreplace")
