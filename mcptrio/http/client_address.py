"""Finds the address of a client, also behind trusted proxies.

``HTTPApp`` calls it once per request, before any other check. Forwarding headers count only if a trusted proxy sends
them: the client's address is the rightmost one that is not a trusted proxy. Unreadable or contradicting headers are
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
"""Proxies in a row that are considered; a client can prepend any number of invented ones."""
_SCHEMES: Final = {"http": {"http": "http", "https": "https"}, "ws": {"http": "ws", "https": "wss"}}
_PAIR: Final = re.compile(r"""\s*([!#$%&'*+.^_`|~0-9A-Za-z-]+)=(?:"((?:[^"\\]|\\.)*)"|([^\s;,"]*))\s*""")


@frozen
class Proxies:
    """The trusted proxies.

    Args:
        networks: The networks of the proxies.
        unix: Whether clients of a Unix socket are trusted.
    """

    networks: tuple[IPv4Network | IPv6Network, ...] = ()
    unix: bool = False

    @classmethod
    def of(cls, named: Iterable[str]) -> Proxies:
        """Return the proxies that a list of addresses and networks names.

        Args:
            named: Addresses and networks, ``10.0.0.0/8``, or ``unix``.

        Raises:
            ValueError: An entry is none of these.
        """
        networks, unix = [], False
        for each in named:
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

    def reveal(self, scope: MutableMapping[str, Any]) -> None:
        """Write the client's own address and scheme into the scope of a request, if a trusted proxy reports them.

        The rate limits, the guard and the routes of plugins then see these values.
        """
        peer = address_of(scope)
        if not self.trusts(peer):
            return
        headers: Sequence[tuple[bytes, bytes]] = scope["headers"]
        listed = [*_values(headers, b"x-forwarded-for")]
        elements = [_element(each) for each in [*_values(headers, b"forwarded", quoted=True)][-_MAX_HOPS:]]
        addresses = {
            address
            for address in (
                self._outside(listed) if listed else None,
                self._outside([each.get("for", "") for each in elements]) if elements else None,
            )
            if address is not None
        }
        # A proxy appends to the header that it knows and passes the other one on, which the client may have invented.
        if len(addresses) == 1:
            scope["client"] = (addresses.pop(), 0)
        # Only the nearest proxy is asked for the scheme: values further left may come from the client.
        protocols = {each.lower() for each in [*_values(headers, b"x-forwarded-proto")][-1:]}
        if elements and "proto" in elements[-1]:
            protocols.add(elements[-1]["proto"].lower())
        if len(protocols) == 1:
            kind = "ws" if scope.get("scheme") in ("ws", "wss") else "http"
            scope["scheme"] = _SCHEMES[kind].get(protocols.pop(), scope.get("scheme", kind))

    def trusts(self, address: str | None) -> bool:
        """Return whether this is the address of a trusted proxy; ``None`` means a Unix socket."""
        if address is None:
            return self.unix
        parsed = read_address(address)
        return parsed is not None and any(parsed in network for network in self.networks)

    def _outside(self, hops: Sequence[str]) -> str | None:
        """Return the rightmost untrusted address, or the leftmost if all are trusted; ``None`` if unreadable."""
        found: str | None = None
        for hop in reversed(hops[-_MAX_HOPS:]):
            parsed = read_address(_without_port(hop))
            if parsed is None:
                # "unknown", "_hidden", or invalid: addresses further left are not trusted either.
                break
            found = str(parsed)
            if not self.trusts(found):
                break
        return found


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


def _values(headers: Iterable[tuple[bytes, bytes]], name: bytes, *, quoted: bool = False) -> Iterator[str]:
    """Yield the elements of all headers with this name, in order."""
    for each, value in headers:
        if each.lower() == name:
            text = str(value, "latin-1")
            yield from (part.strip() for part in (_split(text) if quoted and '"' in text else text.split(",")))


def _split(text: str) -> Iterator[str]:
    """Split at the commas outside quotes."""
    begun, is_quoted, is_escaped = 0, False, False
    for place, character in enumerate(text):
        if is_escaped:
            is_escaped = False
        elif is_quoted and character == "\\":
            is_escaped = True
        elif character == '"':
            is_quoted = not is_quoted
        elif character == "," and not is_quoted:
            yield text[begun:place]
            begun = place + 1
    yield text[begun:]


def _element(text: str) -> dict[str, str]:
    """Return the parameters of one element of ``Forwarded``; none if it is malformed or repeats a parameter."""
    pairs: dict[str, str] = {}
    place = 0
    while place < len(text):
        found = _PAIR.match(text, place)
        if found is None or (name := found[1].lower()) in pairs:
            return {}
        pairs[name] = re.sub(r"\\(.)", r"\1", found[2]) if found[2] is not None else found[3]
        place = found.end()
        if place < len(text):
            if text[place] != ";":
                return {}
            place += 1
    return pairs
