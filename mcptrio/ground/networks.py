"""The network that the address of a client counts for, where each client has a share.

Used by the limits of the HTTP transports and by the limit on failed authentications.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

__all__ = ["network_of", "read_address"]

_MAX_ADDRESS_CHARS = 100
"""Characters of a text that may be an address."""


# One address sends many requests.
@lru_cache(maxsize=1024)
def network_of(address: str) -> str:
    """Return the IPv4 address, or the /64 network of an IPv6 address. One machine may use all of that network.

    Returns:
        The first 100 characters of a text that is not an address.
    """
    read = read_address(address)
    if isinstance(read, IPv6Address):
        return str(IPv6Network((int(read) >> 64 << 64, 64)))
    return str(read) if read is not None else address[:_MAX_ADDRESS_CHARS]


@lru_cache(maxsize=1024)
def read_address(text: str) -> IPv4Address | IPv6Address | None:
    """Read an address. IPv4 in IPv6 is IPv4, and a text that is not an address is ``None``."""
    # Before parsing: the text is a header's, and a long one costs time.
    if len(text) > _MAX_ADDRESS_CHARS:
        return None
    try:
        # The zone of a link-local address names an interface of this machine. It says nothing about the client.
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
