import pytest

from tests.support.backend import Backend, Received, Reply, running_backend
from turnstile.errors import ProxyError
from turnstile.running_proxy import RunningProxy


def answering(backend: Backend, reply: Reply) -> list[Received]:
    seen: list[Received] = []

    def script(received: Received) -> Reply:
        seen.append(received)
        return reply

    backend.script = script
    return seen


def test_a_control_url_is_asked_with_the_proxys_key() -> None:
    with running_backend() as backend:
        seen = answering(backend, Reply(b'{"group_id": "g"}'))
        proxy = RunningProxy(backend.port, 1, secret="k")
        assert proxy.ask("POST", "groups", {"metadata": {}}) == {"group_id": "g"}
        (received,) = seen
        assert (received.method, received.path, received.json) == (
            "POST",
            "/turnstile/groups",
            {"metadata": {}},
        )
        assert received.headers["x-turnstile-key"] == "k"


@pytest.mark.parametrize(
    ("reply", "message"),
    [
        (Reply(b'{"error": {"message": "no such thing"}}', status=404), "no such thing"),
        (
            Reply(b'{"status": "cannot_write", "problems": ["the disk is full"]}', status=503),
            "the disk is full",
        ),
        (Reply(b"<html>", status=500), "status 500"),
        (Reply(b"[1]", status=500), "status 500"),
        (Reply(b"no json"), "Expecting value"),
    ],
)
def test_an_error_is_said_in_the_proxys_words(reply: Reply, message: str) -> None:
    with running_backend() as backend:
        answering(backend, reply)
        with pytest.raises(ProxyError) as caught:
            RunningProxy(backend.port, 1).health()
        assert str(caught.value).startswith(f"GET {backend.url}/turnstile/health: ")
        assert message in str(caught.value)


def test_a_proxy_that_is_gone_is_said_to_be() -> None:
    with pytest.raises(ProxyError, match="Connection refused"):
        RunningProxy(9, 1).flush()


def test_an_ipv6_address_stands_in_brackets() -> None:
    assert RunningProxy(8080, 1, "::1").address == "[::1]:8080"
    with pytest.raises(ProxyError, match=r"GET http://\[::1\]:9/turnstile/health: .*(refused|assign)"):
        RunningProxy(9, 1, "::1").health()
