"""Which hosts images may be fetched from, and to which addresses a connection may go.

Only hosts that are named. An address inside somebody's network (private, loopback, link-local, site-local) or
of many hosts (multicast) is refused unless it is named itself, or lies in a network that is: a name that its
owner lets lead there would open what the proxy can reach and the harness cannot. An IPv6 address that stands
for one of IPv4 is judged as that. `localhost` names the loopback addresses.
"""

import ipaddress
import re
from dataclasses import dataclass

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address
type Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*", re.ASCII)
_LOOPBACK: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))
# Whose last 32 bits are an address of IPv4: mapped, translated (SIIT), NAT64, compatible.
_HOLDING_IPV4 = tuple(
    ipaddress.IPv6Network(f"{prefix}/96") for prefix in ("::ffff:0:0", "::ffff:0:0:0", "64:ff9b::", "::")
)


@dataclass(frozen=True, slots=True)
class ImageHosts:
    """Names and networks; an address is a network of one."""

    names: frozenset[str] = frozenset()  # lower case
    networks: tuple[Network, ...] = ()

    def allows(self, host: str) -> bool:
        """Whether a URL may name this host."""
        address = _address(host)
        return host.lower() in self.names if address is None else self._holds(address)

    def allows_address(self, address: str) -> bool:
        """Whether a connection to an allowed host may go to this address."""
        found = ipaddress.ip_address(address.partition("%")[0])
        meant = _as_ipv4(found)
        return _is_public(meant) or self._holds(meant) or self._holds(found)

    def _holds(self, address: Address) -> bool:
        networks = self.networks + (_LOOPBACK if "localhost" in self.names else ())
        return any(address in network for network in networks)


def parse_hosts(text: str) -> ImageHosts:
    """Of names, addresses and networks separated by commas. Raises ValueError for what is none of them."""
    names, networks = set[str](), list[Network]()
    for part in filter(None, (part.strip().lower() for part in text.split(","))):
        try:
            networks.append(ipaddress.ip_network(part.strip("[]")))
        except ValueError:
            if not _HOST.fullmatch(part) or re.fullmatch(r"[0-9./]+", part):
                raise ValueError(f"{part!r} is no host name") from None
            names.add(part)
    if not names and not networks:
        raise ValueError("no host is named")
    return ImageHosts(frozenset(names), tuple(networks))


def _as_ipv4(address: Address) -> Address:
    if isinstance(address, ipaddress.IPv4Address) or address.is_loopback or address.is_unspecified:
        return address
    is_one = any(address in network for network in _HOLDING_IPV4)
    return ipaddress.IPv4Address(int(address) & 0xFFFFFFFF) if is_one else address


def _is_public(address: Address) -> bool:
    is_site_local = isinstance(address, ipaddress.IPv6Address) and address.is_site_local
    return address.is_global and not address.is_multicast and not is_site_local


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
