"""Whether a backend refused a request for what capture had added to it, before it generated anything.

SGLang checks the start of the routed experts in its scheduler, where a prompt's length is known (0.5.12 to
0.5.23). A start beyond the prompt is status 400 with a message that names the field. The scheduler says it as
an abort, and some builds hand that on as a reply.
"""

from collections.abc import Mapping
from typing import Any

from turnstile.addon.backends.asking import ROUTING_START, Asking
from turnstile.addon.backends.exact_json import loads
from turnstile.addon.backends.places import Choice, inner_object

_NAME = ROUTING_START.encode()


def refuses_start(reply: bytes, status: int, asking: Asking) -> bool:
    """Whether the reply to `asking` says that routed experts cannot begin at the row that was asked for."""
    if asking.routing_start == 0 or _NAME not in reply:
        return False
    return status == 400 or (status == 200 and _aborts_over_it(reply))


def _aborts_over_it(reply: bytes) -> bool:
    try:
        document = loads(reply).value
    except ValueError:
        return False
    choices = document.get("choices") if isinstance(document, dict) else None
    found = choices if isinstance(choices, list) else ()
    return any(_is_abort_over_it(Choice(document, each, 0)) for each in found if isinstance(each, dict))


def _is_abort_over_it(choice: Choice) -> bool:
    reason: Mapping[str, Any] = inner_object(choice.meta_info, "finish_reason")
    return reason.get("type") == "abort" and ROUTING_START in str(reason.get("message"))
