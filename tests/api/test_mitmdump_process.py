import socket

import pytest

from turnstile.mitmdump_process import is_free

FAMILIES = [(socket.AF_INET, "127.0.0.1"), (socket.AF_INET6, "::1")]


@pytest.mark.parametrize(("family", "host"), FAMILIES)
def test_a_port_is_free_until_somebody_listens(family: socket.AddressFamily, host: str) -> None:
    with socket.socket(family) as listener:
        try:
            listener.bind((host, 0))
        except OSError:
            pytest.skip(f"this machine has no {host}")
        port = listener.getsockname()[1]
        listener.listen()
        assert not is_free(port, host)
    assert is_free(port, host)


def test_an_address_that_is_not_ours_is_not_free() -> None:
    assert not is_free(1024, "192.0.2.1")
    assert not is_free(1024, "2001:db8::1")
