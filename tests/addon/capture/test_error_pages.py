import json

from turnstile.addon.capture.error_pages import openai_error


def test_an_error_of_the_proxy_core_has_openais_shape_and_closes_the_connection() -> None:
    head, _, body = openai_error(502, "connect failed").partition(b"\r\n\r\n")
    lines = head.decode().lower().split("\r\n")
    assert lines[0] == "http/1.1 502 bad gateway"
    assert {"content-type: application/json", "connection: close", f"content-length: {len(body)}"} <= set(
        lines
    )
    assert json.loads(body) == {
        "error": {
            "message": "The backend gave no whole answer: connect failed",
            "type": "server_error",
            "param": None,
            "code": "backend_failed",
        }
    }


def test_a_malformed_request_is_the_harnesss_own_error() -> None:
    body = openai_error(400, "Bad HTTP request line").partition(b"\r\n\r\n")[2]
    assert json.loads(body)["error"]["type"] == "invalid_request_error"
