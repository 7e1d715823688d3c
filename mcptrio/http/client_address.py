"""Finds the address of a client, also behind trusted proxies.

``HTTPApp`` calls it once per request, before any other check. Forwarding headers count only if a trusted proxy sends
them: the client's address is the rightmost one that is not a trusted proxy. Unreadable or contradictory headers are
ignored.

Source: RFC 7239 (Forwarded) sections 4, 5.2, 5.4, 6 and 8.1; X-Forwarded-For and X-Forwarded-Proto, by convention.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, MutableMapping, Sequence
from ipaddress import IPv4Network, IPv6Network, ip_network
from typing import Any, Final

from attrs import frozen

from mcptrio.ground.networks import read_address

__all__ = ["Proxies", "address_of"]

UNIX: Final = "unix"
"""The name that trusts every client of a Unix socket, which file permissions protect."""
_MAX_HOPS: Final = 32
"""The number of hops that are read from the end of a forwarding header. A client can prepend any number of hops."""
_SCHEMES: Final = {"http": {"http": "http", "https": "https"}, "ws": {"http": "ws", "https": "wss"}}
_PAIR: Final = re.compile(r"""\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*))\s*""")


@frozen
class Proxies:
    """The trusted proxies.

    Args:
        networks: The networks of the proxies.
        unix: True if clients of a Unix socket are trusted.
    """

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    unix: bool = False

    @classmethod
    def of(cls, entries: Iterable[str]) -> Proxies:
        """Return the trusted proxies of a configuration.

        Args:
            entries: Addresses, networks such as ``10.0.0.0/8``, or ``unix``.

        Raises:
            ValueError: An entry is none of these.
        """
        networks, unix = [], False
        for each in entries:
            if each == UNIX:
                unix = True
                continue
            try:
                networks.append(ip_network(each))
            except ValueError as error:
                raise ValueError(f"expected an address, a network like 10.0.0.0/8, or {UNIX}, got {each!r}") from error
        return cls(tuple(networks), unix)

    def __bool__(self) -> bool:
        return self.unix or bool(self.networks)

    def apply_forwarded(self, scope: MutableMapping[str, Any]) -> None:
        """Write the client's address and scheme into the scope of a request, if a trusted proxy forwards them.

        The rate limits, the guard and the routes of plugins then read these values.
        """
        peer = address_of(scope)
        if not self.trusts(peer):
            return
        headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
        x_forwarded_for = [*_elements(headers, b"x-forwarded-for")]
        forwarded = [_parameters(each) for each in [*_elements(headers, b"forwarded", quoted=True)][-_MAX_HOPS:]]
        addresses = {
            address
            for address in (
                self._rightmost_untrusted(x_forwarded_for) if x_forwarded_for else None,
                self._rightmost_untrusted([each.get("for", "") for each in forwarded]) if forwarded else None,
            )
            if address is not None
        }
        # A proxy appends to the header that it knows, and passes on the other one, which the client may have invented.
        # If the two headers name different addresses, neither is used.
        if len(addresses) == 1:
            scope["client"] = (addresses.pop(), 0)
        # The scheme is that of the nearest proxy only: values further left may come from the client.
        protocols = {each.lower() for each in [*_elements(headers, b"x-forwarded-proto")][-1:]}
        if forwarded and "proto" in forwarded[-1]:
            protocols.add(forwarded[-1]["proto"].lower())
        if len(protocols) == 1:
            kind = "ws" if scope.get("scheme") in ("ws", "wss") else "http"
            scope["scheme"] = _SCHEMES[kind].get(protocols.pop(), scope.get("scheme", kind))

    def trusts(self, address: str | None) -> bool:
        """Return whether this is the address of a trusted proxy; ``None`` means a Unix socket."""
        if address is None:
            return self.unix
        parsed = read_address(address)
        return parsed is not None and any(parsed in network for network in self.networks)

    def _rightmost_untrusted(self, hops: Sequence[str]) -> str | None:
        """Return the rightmost untrusted address, or the leftmost if all are trusted; ``None`` if unreadable."""
        address: str | None = None
        for hop in reversed(hops[-_MAX_HOPS:]):
            parsed = read_address(_without_port(hop))
            if parsed is None:
                # "unknown", "_hidden" or an invalid address. Addresses further left are not trusted either.
                break
            address = str(parsed)
            if not self.trusts(address):
                break
        return address


def address_of(scope: MutableMapping[str, Any]) -> str | None:
    """Return the address in the scope of a request; ``None`` for a Unix socket."""
    # ASGI gives the path of a Unix socket as the host, with the port None.
    client = scope.get("client")
    return client[0] if client and client[1] is not None else None


# Private


def _without_port(node: str) -> str:
    if node.startswith("["):
        return node[1:].partition("]")[0]
    host, colon, _ = node.partition(":")
    # Two colons are an IPv6 address without brackets, which some proxies write.
    return host if colon and ":" not in node[len(host) + 1 :] else node


def _elements(headers: Iterable[tuple[bytes, bytes]], name: bytes, *, quoted: bool = False) -> Iterator[str]:
    """Yield the elements of all headers with this name, in order.

    Args:
        quoted: True if an element may have quoted strings, in which a comma separates nothing.
    """
    for each, value in headers:
        if each.lower() == name:
            text = str(value, "latin-1")
            yield from (part.strip() for part in (_split_unquoted(text) if quoted and '"' in text else text.split(",")))


def _split_unquoted(text: str) -> Iterator[str]:
    """Split at the commas outside quotes."""
    start, is_quoted, is_escaped = 0, False, False
    for position, character in enumerate(text):
        if is_escaped:
            is_escaped = False
        elif is_quoted and character == "\\":
            is_escaped = True
        elif character == '"':
            is_quoted = not is_quoted
        elif character == "," and not is_quoted:
            yield text[start:position]
            start = position + 1
    yield text[start:]


def _parameters(text: str) -> dict[str, str]:
    """Return the parameters of one element of ``Forwarded``; none if it is malformed or repeats a parameter."""
    pairs: dict[str, str] = {}
    position = 0
    while position < len(text):
        match = _PAIR.match(text, position)
        if match is None or (name := match[1].lower()) in pairs:
            return {}
        pairs[name] = re.sub(r"\\(.)", r"\1", match[2]) if match[2] is not None else match[3]
        position = match.end()
        if position < len(text):
            if text[position] != ";":
                return {}
            position += 1
    return pairs
