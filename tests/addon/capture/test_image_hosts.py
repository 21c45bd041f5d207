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


@pytest.mark.parametrize("prefix", ["::ffff:", "::ffff:0:", "64:ff9b::", "::"])
def test_an_ipv6_address_that_stands_for_one_of_ipv4_is_judged_as_that(prefix: str) -> None:
    hosts = parse_hosts("minio.internal,10.0.0.0/8")
    assert hosts.allows_address(f"{prefix}93.184.215.14")
    assert hosts.allows_address(f"{prefix}10.0.0.5")
    assert not hosts.allows_address(f"{prefix}127.0.0.1")
    assert parse_hosts(f"minio.internal,{prefix}7f00:1").allows_address(f"{prefix}127.0.0.1")


@pytest.mark.parametrize("address", ["fec0::1", "224.0.0.1", "ff02::1", "ff0e::1", "64:ff9b::224.0.0.1"])
def test_site_local_and_multicast_addresses_have_to_be_named_themselves(address: str) -> None:
    assert not parse_hosts("a.example").allows_address(address)
    assert parse_hosts(f"a.example,{address}").allows_address(address)


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
