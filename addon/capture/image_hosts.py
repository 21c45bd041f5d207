"""Which hosts images may be fetched from, and to which addresses a connection may go.

Only hosts that are named. An address inside somebody's network (private, loopback, link-local) is refused
unless it is named itself, or lies in a network that is: a name that its owner lets lead there would open
what the proxy can reach and the harness cannot. `localhost` names the loopback addresses.
"""

import ipaddress
import re
from dataclasses import dataclass

type Address = ipaddress.IPv4Address | ipaddress.IPv6Address
type Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_HOST = re.compile(r"[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?(\.[a-z0-9_]([a-z0-9_-]*[a-z0-9_])?)*", re.ASCII)
_LOOPBACK: tuple[Network, ...] = (ipaddress.ip_network("127.0.0.0/8"), ipaddress.ip_network("::1/128"))


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
        if isinstance(found, ipaddress.IPv6Address) and found.ipv4_mapped is not None:
            found = found.ipv4_mapped
        return found.is_global or self._holds(found)

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


def _address(host: str) -> Address | None:
    try:
        return ipaddress.ip_address(host)
    except ValueError:
        return None
