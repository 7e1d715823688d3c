"""The kinds of IP addresses: public, private, loopback and others.

The address policy (:mod:`mcptrio.http.client.address_policy`) uses them for every address of a host name, and plugins
use them before they connect to a host that another program has named. If an IPv6 address contains an IPv4 address, the
kind is that of the IPv4 address. ``ipaddress.is_global`` is not used, because its tables differ between releases of
Python.

Source: IANA IPv4 and IPv6 Special-Purpose Address Registries; RFC 6890; RFC 6052 (NAT64); RFC 4291 section 2.5.5.
"""

from __future__ import annotations

from enum import Enum
from ipaddress import IPv4Address, IPv4Network, IPv6Address, IPv6Network, ip_address
from typing import Final, TypeAlias

__all__ = ["Address", "AddressKind", "address_kind", "parse_address"]

Address: TypeAlias = IPv4Address | IPv6Address
"""An IPv4 or IPv6 address."""


class AddressKind(Enum):
    """The kinds of addresses, with a description for errors."""

    PUBLIC = "a public address"
    LOOPBACK = "one of this machine"
    PRIVATE = "one of a private network"
    METADATA = "one of a cloud's metadata service"
    LINK_LOCAL = "a link-local one"
    MULTICAST = "a multicast one"
    OTHER = "a reserved one"
    """Reserved addresses, and those for documentation, protocols and tunnels."""


_METADATA: Final = frozenset(
    map(
        ip_address,
        (
            "169.254.169.254",  # AWS, Azure, Google, DigitalOcean and others
            "169.254.170.2",  # containers on AWS
            "169.254.170.23",
            "100.100.100.200",  # Alibaba
            "192.0.0.192",  # Oracle
            "168.63.129.16",  # Azure's own services to its machines; public by number
            "fd00:ec2::254",  # AWS
            "fd00:ec2::23",
            "fd20:ce::254",  # Google
        ),
    )
)
"""Metadata services of clouds. They return the credentials of the machine that sends the request."""

_IPV4: Final = tuple(
    (IPv4Network(network), kind)
    for network, kind in (
        ("0.0.0.0/8", AddressKind.OTHER),  # "this host": Linux connects to itself
        ("10.0.0.0/8", AddressKind.PRIVATE),
        ("100.64.0.0/10", AddressKind.PRIVATE),  # shared by the customers of a carrier, or of an overlay
        ("127.0.0.0/8", AddressKind.LOOPBACK),
        ("169.254.0.0/16", AddressKind.LINK_LOCAL),
        ("172.16.0.0/12", AddressKind.PRIVATE),
        ("192.0.0.0/24", AddressKind.OTHER),
        ("192.0.2.0/24", AddressKind.OTHER),
        ("192.88.99.0/24", AddressKind.OTHER),
        ("192.168.0.0/16", AddressKind.PRIVATE),
        ("198.18.0.0/15", AddressKind.OTHER),
        ("198.51.100.0/24", AddressKind.OTHER),
        ("203.0.113.0/24", AddressKind.OTHER),
        ("224.0.0.0/4", AddressKind.MULTICAST),
        ("240.0.0.0/4", AddressKind.OTHER),
    )
)
_IPV6: Final = tuple(
    (IPv6Network(network), kind)
    for network, kind in (
        ("::1/128", AddressKind.LOOPBACK),
        ("fc00::/7", AddressKind.PRIVATE),
        ("fe80::/10", AddressKind.LINK_LOCAL),
        ("fec0::/10", AddressKind.PRIVATE),  # site-local: deprecated, but some networks still route it
        ("ff00::/8", AddressKind.MULTICAST),
        ("2001::/23", AddressKind.OTHER),  # Teredo, ORCHID and other protocols
        ("2001:db8::/32", AddressKind.OTHER),
        ("2002::/16", AddressKind.OTHER),  # 6to4: contains an IPv4 address
        ("3fff::/20", AddressKind.OTHER),
    )
)
_UNICAST: Final = IPv6Network("2000::/3")
"""The allocated unicast space of IPv6; an address outside it is not public."""
_NAT64: Final = IPv6Network("64:ff9b::/96")
"""A NAT64 gateway forwards to the IPv4 address in the last 32 bits."""


def parse_address(text: str) -> Address:
    """Return an address; for an IPv4-mapped (``::ffff:10.0.0.1``) or NAT64 address the IPv4 address in it.

    Args:
        text: The address as the system's resolver returns it; a zone (``%eth0``) is ignored.

    Raises:
        ValueError: The text is not an address.
    """
    address = ip_address(text.partition("%")[0])
    if isinstance(address, IPv6Address):
        if address.ipv4_mapped is not None:
            return address.ipv4_mapped
        if address in _NAT64:
            return IPv4Address(int(address) & 0xFFFFFFFF)
    return address


def address_kind(address: Address) -> AddressKind:
    """Return the kind of an address.

    Args:
        address: The result of :func:`parse_address`.
    """
    if address in _METADATA:
        return AddressKind.METADATA
    if isinstance(address, IPv4Address):
        return next((kind for network, kind in _IPV4 if address in network), AddressKind.PUBLIC)
    kind = next((kind for network, kind in _IPV6 if address in network), None)
    if kind is not None:
        return kind
    return AddressKind.PUBLIC if address in _UNICAST else AddressKind.OTHER
