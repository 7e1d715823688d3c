"""Where a request may go whose URL somebody else has written.

Servers name the metadata of their authorization servers, those name their keys and endpoints; whoever writes them could
have us ask what only we can reach (SSRF). Asked by :mod:`mcptrio.http.client.dialing` before each connection.
The one rule: a name is resolved once, all its addresses are judged, and one of those is connected to; nobody resolves
it again, so a name server that changes its answer (DNS rebinding) gains nothing.

Source: MCP 2026-07-28, basic/authorization/security-considerations, and security best practices, "Server-Side Request
Forgery (SSRF)"; RFC 9728 section 7.7.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from ipaddress import ip_address
from typing import Final

import trio
from attrs import field, frozen

from mcptrio.errors import RequestFailed
from mcptrio.http.client.endpoint import HTTPEndpoint
from mcptrio.http.client.public_addresses import AddressKind, address_kind, parse_address

__all__ = ["AddressPolicy", "check_proxied", "check_url", "resolve"]

_LOCALHOST: Final = "localhost"
_MAX_ADDRESSES: Final = 16
"""Addresses of a name that are judged; who has more is refused."""


def _origins(urls: Sequence[str] | frozenset[str]) -> frozenset[str]:
    if isinstance(urls, str):
        raise TypeError("origins: expected a list of URLs, got a text")
    return frozenset(HTTPEndpoint.parse(url).origin for url in urls)


@frozen(kw_only=True)
class AddressPolicy:
    """Public addresses over https, and what is allowed besides.

    Args:
        loopback: whether to this machine, over http too.
        private: whether to private networks. To link-local addresses and clouds' metadata services never.
        origins: of servers that the operator or user has named himself, as URLs of which nothing but scheme, host and
            port counts: wherever they are, over http too if they say so.

    Raises:
        ValueError: one of ``origins`` is no http or https URL.
    """

    loopback: bool = False
    private: bool = False
    origins: frozenset[str] = field(default=frozenset(), converter=_origins)

    @classmethod
    def around(cls, url: str, *, private: bool = False, origins: Sequence[str] = ()) -> AddressPolicy:
        """What may be asked on account of a server that the user has named: it itself, wherever it is, and public
        addresses; this machine only where the server is on it by its own name.

        Raises:
            ValueError: one of them is no http or https URL.
        """
        host = HTTPEndpoint.parse(url).host
        return cls(loopback=_is_loopback(host), private=private, origins=frozenset({url, *origins}))


def check_url(reach: AddressPolicy, endpoint: HTTPEndpoint) -> None:
    """Judge what is written in a URL.

    Raises:
        RequestFailed: it has credentials, or is http where https is expected.
    """
    if endpoint.authorization is not None:
        raise _refused(f"expected a URL without credentials, got one of {endpoint.authority}")
    if endpoint.scheme != "https" and endpoint.origin not in reach.origins and not reach.loopback:
        raise _refused(f"expected an https URL, got {endpoint.name!r}")


async def resolve(reach: AddressPolicy, endpoint: HTTPEndpoint) -> list[str]:
    """The addresses of an endpoint, all of which may be connected to.

    Raises:
        RequestFailed: one of them may not. Then none is: who mixes public addresses with private ones hopes for a
            retry. Or there is none.
    """
    try:
        found = await trio.socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise _refused(f"cannot connect to {endpoint.authority}: {reason or 'there is no such name'}") from error
    addresses = list(dict.fromkeys(str(address[4][0]) for address in found))
    if not 0 < len(addresses) <= _MAX_ADDRESSES:
        raise _refused(f"{endpoint.authority}: expected 1 to {_MAX_ADDRESSES} addresses, got {len(addresses)}")
    for address in addresses:
        _judge(reach, endpoint, address)
    return addresses


async def check_proxied(reach: AddressPolicy, endpoint: HTTPEndpoint) -> None:
    """Judge the addresses of a host that a proxy will connect to, as far as they are known here.

    Behind a proxy names often do not resolve; what they mean is then the proxy's to say.

    Raises:
        RequestFailed: as :func:`resolve`.
    """
    try:
        found = await trio.socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        return
    for address in found:
        _judge(reach, endpoint, str(address[4][0]))


def _judge(reach: AddressPolicy, endpoint: HTTPEndpoint, address: str) -> None:
    if endpoint.origin in reach.origins:
        return
    kind = address_kind(parse_address(address))
    if kind is AddressKind.LOOPBACK and reach.loopback:
        return
    if endpoint.scheme != "https":
        raise _refused(f"expected an https URL, or http on this machine, got {endpoint.name!r}")
    if kind is AddressKind.PUBLIC or (kind is AddressKind.PRIVATE and reach.private):
        return
    raise _refused(
        f"{endpoint.authority}: expected a public address, got {kind.value} ({address}); "
        "its origin would have to be allowed by name"
    )


def _is_loopback(host: str) -> bool:
    if host == _LOCALHOST or host.endswith("." + _LOCALHOST):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _refused(message: str) -> RequestFailed:
    return RequestFailed(message, delivered=False)
