import pytest

from turnstile.addon.backends.chat_events import is_done
from turnstile.addon.backends.sse import parsed_event


@pytest.mark.parametrize(
    ("raw", "expected"),
    [
        (b"data: [DONE]\n\n", True),
        (b"data:[DONE] \r\n\r\n", True),
        (b"event: end\ndata: [DONE]\n\n", True),
        (b'data: "[DONE]"\n\n', False),
        (b": [DONE]\n\n", False),
        (b"data: [D\n\n", False),
    ],
)
def test_done_is_told_as_a_client_tells_it(raw: bytes, expected: bool) -> None:
    assert is_done(parsed_event(raw)) is expected
