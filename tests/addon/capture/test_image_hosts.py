import pytest

from turnstile.addon.capture.image_hosts import ImageHosts, parse_hosts


def test_only_hosts_that_are_named_are_allowed() -> None:
    hosts = parse_hosts("Images.example.com, 10.1.0.0/16,192.0.2.7, [2001:db8::1],")
    allowed = ("images.example.com", "IMAGES.example.com", "10.1.2.3", "192.0.2.7", "2001:db8::1")
    assert all(map(hosts.allows, allowed))
    others = (
        "example.com",
        "a.images.example.com",
        "10.2.0.1",
        "192.0.2.8",
        "localhost",
        "127.0.0.1",
        "127.1",
    )
    assert not any(map(hosts.allows, others))


def test_an_address_inside_a_network_has_to_be_named_itself() -> None:
    inside = ("127.0.0.1", "10.0.0.5", "169.254.169.254", "::1", "fe80::1%eth0", "::ffff:10.0.0.5", "0.0.0.0")
    hosts = parse_hosts("minio.internal")
    assert hosts.allows_address("93.184.215.14")
    assert not any(map(hosts.allows_address, inside))
    assert parse_hosts("minio.internal,10.0.0.0/8").allows_address("::ffff:10.0.0.5")
    assert not parse_hosts("minio.internal,10.0.0.0/8").allows_address("127.0.0.1")


def test_localhost_names_the_loopback_addresses() -> None:
    hosts = parse_hosts("localhost")
    assert all(map(hosts.allows_address, ("127.0.0.1", "::1")))
    assert hosts.allows("localhost")
    assert not hosts.allows_address("10.0.0.1")


@pytest.mark.parametrize(
    "text", ["", " , ", "http://a.example", "a.example:80", "a b", "*.example", "10.0.0.5/8", "300.1.1.1"]
)
def test_what_is_no_host_is_refused(text: str) -> None:
    with pytest.raises(ValueError, match=r"is no host name|no host is named"):
        parse_hosts(text)


def test_nothing_is_allowed_by_default() -> None:
    assert not ImageHosts().allows("127.0.0.1")
