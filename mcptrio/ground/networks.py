"""The network of a client's address. Limits per client treat each network as one client.

Used by the limits of the HTTP transports and by the limit on failed authentications.
"""

from __future__ import annotations

from functools import lru_cache
from ipaddress import IPv4Address, IPv6Address, IPv6Network, ip_address

__all__ = ["network_of", "read_address"]

_MAX_ADDRESS_CHARS = 100
"""Maximum characters of an address; a longer text is not parsed."""


# Cached, because one address sends many requests.
@lru_cache(maxsize=1024)
def network_of(address: str) -> str:
    """Return an IPv4 address unchanged, and the /64 network of an IPv6 address, because one machine may use all of its
    addresses.

    For a text that is not an address, return its first 100 characters.
    """
    read = read_address(address)
    if isinstance(read, IPv6Address):
        return str(IPv6Network((int(read) >> 64 << 64, 64)))
    return str(read) if read is not None else address[:_MAX_ADDRESS_CHARS]


@lru_cache(maxsize=1024)
def read_address(text: str) -> IPv4Address | IPv6Address | None:
    """Parse an address. An IPv4-mapped IPv6 address is returned as IPv4; a text that is not an address as ``None``."""
    # Checked before parsing, because the text may come from a header, and parsing a long text takes time.
    if len(text) > _MAX_ADDRESS_CHARS:
        return None
    try:
        # The zone of a link-local address is dropped: it names an interface of this machine, not the client.
        address = ip_address(text.partition("%")[0])
    except ValueError:
        return None
    mapped = address.ipv4_mapped if isinstance(address, IPv6Address) else None
    return mapped or address
