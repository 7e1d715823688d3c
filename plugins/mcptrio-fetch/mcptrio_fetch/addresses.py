"""Which addresses are public, and which are networks of one's own.

Called by the gate for every address that a name resolves to.
The one rule: an address that carries another one is judged by that one; what is in no table of public unicast space is
not public. Nothing depends on ``ipaddress.is_global``, whose tables differ between Python releases.

Source: IANA IPv4 and IPv6 Special-Purpose Address Registries; RFC 6890; RFC 6052 (NAT64); RFC 4291, 2.5.5.
"""

from __future__ import annotations

from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address, ip_network
from typing import Final, TypeAlias

__all__ = ["Address", "Network", "parse_address", "parse_network", "why_not_public"]

Address: TypeAlias = IPv4Address | IPv6Address
Network: TypeAlias = IPv4Network | IPv6Network

_IPV4: Final = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", "of this host"),
        ("10.0.0.0/8", "private"),
        ("100.64.0.0/10", "shared by a carrier"),
        ("127.0.0.0/8", "loopback"),
        # The clouds' metadata services live here.
        ("169.254.0.0/16", "link-local"),
        ("172.16.0.0/12", "private"),
        ("192.0.0.0/24", "for protocols"),
        ("192.0.2.0/24", "for documentation"),
        ("192.88.99.0/24", "a 6to4 relay"),
        ("192.168.0.0/16", "private"),
        ("198.18.0.0/15", "for benchmarks"),
        ("198.51.100.0/24", "for documentation"),
        ("203.0.113.0/24", "for documentation"),
        ("224.0.0.0/4", "multicast"),
        ("240.0.0.0/4", "reserved"),
        # Public by number, but a cloud's own service to its virtual machines, metadata included.
        ("168.63.129.16/32", "a metadata service"),
    )
)
_IPV6: Final = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("2001::/23", "for protocols"),
        ("2001:db8::/32", "for documentation"),
        ("2002::/16", "a 6to4 tunnel"),
        ("3fff::/20", "for documentation"),
    )
)
_UNICAST: Final = IPv6Network("2000::/3")
"""All that has been given out of IPv6; loopback, unique local, link-local, multicast and 64:ff9b:1::/48 are outside."""

_NAT64: Final = IPv6Network("64:ff9b::/96")
"""A gateway forwards to the IPv4 address in the last 32 bits. The local-use prefix is refused with all the rest."""


def parse_address(text: str) -> Address:
    """An address, or the one that it carries: IPv4 in IPv6 (``::ffff:10.0.0.1``) and behind NAT64 are IPv4.

    Raises:
        ValueError: not the plain form of an address.
    """
    address = ip_address(text)
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def parse_network(text: str) -> Network:
    """An address or a network in CIDR form.

    Raises:
        ValueError: neither.
    """
    return ip_network(text)


def why_not_public(address: Address) -> str | None:
    """What an address is, in words, where it is not a public one; ``None`` where it is.

    Args:
        address: as :func:`parse_address` makes it.
    """
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _IPV4 if address in network), None)
    if address.is_loopback:
        return "loopback"
    if address.is_multicast:
        return "multicast"
    if address.is_link_local:
        return "link-local"
    if address not in _UNICAST:
        return "not public"
    return next((kind for network, kind in _IPV6 if address in network), None)
