"""Checks of ``Host`` and ``Origin``.

``HTTPApp`` checks both before it reads anything else of a request. The checks prevent DNS rebinding: if the name of an
attacker's page resolves to 127.0.0.1, Host and Origin have the name of that page. A missing Origin is accepted, because
only browsers send it.

Source: MCP 2026-07-28, basic/transports/streamable-http, "Security Warning"; RFC 9110 section 7.2; RFC 6454 section 7.
"""

from __future__ import annotations

from collections.abc import Iterable
from typing import Final
from urllib.parse import urlsplit

from attrs import field, frozen

__all__ = ["LOOPBACK", "HostPolicy", "OriginPolicy"]

LOOPBACK: Final = ("localhost", "127.0.0.1", "[::1]")


def _normalize(entries: Iterable[str]) -> frozenset[str]:
    return frozenset(entry.strip().lower().rstrip("/") for entry in entries)


@frozen
class HostPolicy:
    """The values of ``Host`` that are served.

    An entry is a name (any port), a name with a port, or ``*`` for every host. An IPv6 address is in brackets.
    """

    allowed: frozenset[str] = field(default=frozenset(LOOPBACK), converter=_normalize)

    @classmethod
    def for_bind(cls, host: str, extra: Iterable[str] = ()) -> HostPolicy:
        """Return the policy for a server bound to ``host``: loopback names, the host itself, and the operator's names.

        A server bound to all interfaces cannot know its names, so the operator must list them.
        """
        # A client writes an IPv6 address in brackets in Host (RFC 3986 section 3.2.2).
        name = f"[{host}]" if ":" in host and not host.startswith("[") else host
        host_names = () if name in {"", "0.0.0.0", "[::]"} else (name,)
        return cls((*LOOPBACK, *host_names, *extra))

    def allows(self, host: str | None) -> bool:
        if "*" in self.allowed:
            return True
        # HTTP/1.0 allows a request without Host. The client may have meant any server, so it is refused.
        if not host:
            return False
        host = host.lower()
        return host in self.allowed or _without_port(host) in self.allowed


@frozen
class OriginPolicy:
    """The web origins that may call.

    An entry is an origin (``https://app.example.com``, with or without a port: without, any port is meant), a bare
    host name (any scheme and port), or ``*`` for every origin.
    """

    allowed: frozenset[str] = field(default=frozenset(LOOPBACK), converter=_normalize)

    @classmethod
    def with_loopback(cls, extra: Iterable[str] = ()) -> OriginPolicy:
        """Return the policy for pages of this machine and the operator's origins."""
        return cls((*LOOPBACK, *extra))

    def allows(self, origin: str | None) -> bool:
        """Return whether a request with this ``Origin`` is accepted; ``None`` is a client that is not a browser."""
        if origin is None or "*" in self.allowed:
            return True
        origin = origin.lower()
        if origin in self.allowed:
            return True
        try:
            parts = urlsplit(origin)
        except ValueError:
            return False
        if parts.scheme not in {"http", "https"} or not parts.netloc or "@" in parts.netloc:
            # "null" (a sandboxed frame, a file) and browser extensions must be listed by name.
            return False
        # The port of a development server changes from run to run, so an entry without a port means any.
        host = _without_port(parts.netloc)
        return host in self.allowed or f"{parts.scheme}://{host}" in self.allowed


def _without_port(host: str) -> str:
    """Return a host without its port, which may be empty (RFC 3986 section 3.2.3), and without a final dot."""
    if host.startswith("["):
        address, bracket, rest = host.partition("]")
        return address + bracket if not rest or _is_port(rest) else host
    name, colon, port = host.rpartition(":")
    return (name if colon and _is_port(colon + port) else host).removesuffix(".")


def _is_port(text: str) -> bool:
    return text == ":" or (text[0] == ":" and text[1:].isascii() and text[1:].isdigit())
