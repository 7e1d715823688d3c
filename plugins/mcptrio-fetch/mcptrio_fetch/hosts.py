"""Lists of hosts in the configuration: names, names with a leading ``*.``, addresses, networks.

The configuration validates them, and the gate checks hosts against them. Names are compared in lower case and without a
final dot; ``*`` matches one or more labels.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from ipaddress import IPv4Network, IPv6Network, ip_network

from attrs import frozen

from mcptrio.net import Address, parse_address

__all__ = ["HostSet", "check_hosts_and_networks", "check_names", "plain_name"]

_NAME = re.compile(r"(?:\*\.)?[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?(?:\.[a-z0-9_](?:[a-z0-9_-]*[a-z0-9_])?)*", re.ASCII)


@frozen(eq=False)
class HostSet:
    """The hosts and networks of a setting."""

    names: frozenset[str]
    suffixes: tuple[str, ...]
    networks: tuple[IPv4Network | IPv6Network, ...]

    @classmethod
    def of(cls, entries: Iterable[str]) -> HostSet:
        """Parse entries that :func:`check_hosts_and_networks` has accepted."""
        names: set[str] = set()
        suffixes: list[str] = []
        networks: list[IPv4Network | IPv6Network] = []
        for entry in map(plain_name, entries):
            network = _network(entry)
            if network is not None:
                networks.append(network)
            elif entry.startswith("*."):
                suffixes.append(entry[1:])
            else:
                names.add(entry)
        return cls(frozenset(names), tuple(suffixes), tuple(networks))

    def contains_name(self, host: str) -> bool:
        """Return True if the list contains a host, which is a name or an address."""
        host = plain_name(host)
        if host in self.names or host.endswith(self.suffixes):
            return True
        try:
            return self.contains_address(parse_address(host))
        except ValueError:
            return False

    def contains_address(self, address: Address) -> bool:
        return any(address in network for network in self.networks)


def plain_name(host: str) -> str:
    """Normalize a host for comparisons."""
    return host.strip().lower().rstrip(".").removeprefix("[").removesuffix("]")


def check_names(key: str, entries: Iterable[str]) -> None:
    """Check a list of names and addresses.

    Raises:
        ValueError: An entry is neither a name, nor a name with a leading ``*.``, nor an address.
    """
    for entry in entries:
        network = _network(plain_name(entry))
        if network is not None and network.num_addresses == 1:
            continue
        if network is not None or not _NAME.fullmatch(plain_name(entry)):
            raise ValueError(f"expected a host such as example.com or *.example.com in {key}, got {entry!r}")


def check_hosts_and_networks(key: str, entries: Iterable[str]) -> None:
    """Check a list of names, addresses and networks.

    Raises:
        ValueError: An entry is neither a name, nor a name with a leading ``*.``, nor an address, nor a network.
    """
    for entry in entries:
        if _network(plain_name(entry)) is None and not _NAME.fullmatch(plain_name(entry)):
            raise ValueError(f"expected a host, an address or a network such as 10.0.0.0/8 in {key}, got {entry!r}")


def _network(text: str) -> IPv4Network | IPv6Network | None:
    try:
        return ip_network(text)
    except ValueError:
        return None
