"""Where a webhook may go: its name is resolved once, every address it has is judged, and the connection goes to one of those.

A name can resolve to anything, also to something inside the network this engine runs in: a database, the metadata of a cloud, the
engine itself. So only addresses of the public internet are taken, unless the settings say otherwise. What counts is the address,
however it was written: 127.1, 2130706433, 0x7f.1 and localhost are all the same to the resolver. The name server
cannot give one address to be judged and another to be used, since the name is resolved once.
"""

from __future__ import annotations

import ipaddress
import socket
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

Resolve = Callable[[str, int], list[tuple[Any, ...]]]

_REFUSED_V4 = [
    ipaddress.IPv4Network(network)
    for network in (
        "100.64.0.0/10",  # shared by the customers of a provider
        "192.0.0.0/24",  # for protocols
        "192.88.99.0/24",  # the way into 6to4, which is no more
        "168.63.129.16/32",  # what a cloud answers its own machines with, though the address looks public
    )
]
_PUBLIC_V6 = ipaddress.IPv6Network("2000::/3")
_REFUSED_V6 = [
    ipaddress.IPv6Network(network)
    for network in (
        "2001::/23",  # for protocols; Teredo, which wraps an IPv4 address, is among them
        "2001:db8::/32",  # for examples
        "2002::/16",  # 6to4: wraps an IPv4 address
        "3fff::/20",  # for examples
    )
]
_TRANSLATED = ipaddress.IPv6Network("64:ff9b::/96")  # NAT64: an IPv4 address as networks without IPv4 see it


class AddressRefused(Exception):
    """The name resolves to an address that is not on the public internet."""


@dataclass(frozen=True, slots=True)
class Address:
    """What a socket connects to."""

    family: int
    place: tuple[Any, ...]

    @property
    def ip(self) -> str:
        return str(self.place[0])


def resolve_name(host: str, port: int) -> list[tuple[Any, ...]]:
    return list(socket.getaddrinfo(host, port, type=socket.SOCK_STREAM))


def checked_addresses(
    host: str, port: int, *, allow_private: bool, resolve: Resolve = resolve_name
) -> list[Address]:
    """The addresses of a host, all of which may be used. Raises AddressRefused if one may not, OSError if there is none."""
    try:
        found = [Address(family, tuple(place)) for family, _, _, _, place in resolve(host, port)]
    except UnicodeError:  # no name of a host is written like that
        raise OSError("the name of the host cannot be looked up") from None
    if not found:
        raise OSError("the name of the host resolves to no address")
    if not allow_private:
        for address in found:
            if not is_public(address.ip):
                raise AddressRefused(address.ip)
    return found


def is_public(ip: str) -> bool:
    """Whether an address is on the public internet: not this machine, not a network of one's own, not many at once."""
    address = ipaddress.ip_address(ip.partition("%")[0])
    if isinstance(address, ipaddress.IPv6Address):
        if address in _TRANSLATED:
            return is_public(str(ipaddress.IPv4Address(int(address) & 0xFFFFFFFF)))
        return (
            address in _PUBLIC_V6
            and address.is_global
            and not any(address in network for network in _REFUSED_V6)
        )
    return (
        address.is_global
        and not (address.is_multicast or address.is_reserved or address.is_unspecified)
        and not any(address in network for network in _REFUSED_V4)
    )


def is_known_private(host: str) -> bool:
    """Whether a host needs no resolver to be refused: an address, in any spelling, that is not public, or localhost."""
    name = host.rstrip(".").lower()
    if name == "localhost" or name.endswith(".localhost"):
        return True
    try:
        return not is_public(name if ":" in name else socket.inet_ntoa(socket.inet_aton(name)))
    except (OSError, ValueError):  # a name
        return False
