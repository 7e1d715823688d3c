"""The addresses to which the client may connect for URLs that a server names.

Servers name the metadata of their authorization servers, and these name their keys and endpoints. Such a URL could make
the client send requests into its own network (SSRF). :mod:`mcptrio.http.client.dialer` calls this module for each
connection: it resolves a name once, checks all addresses and connects to one of them, so a name server that changes its
answer (DNS rebinding) has no effect.

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
from mcptrio.http.client.address_kinds import AddressKind, address_kind, parse_address
from mcptrio.http.client.endpoint import HTTPEndpoint

__all__ = ["AddressPolicy", "check_proxied", "check_url", "resolve"]

_LOCALHOST: Final = "localhost"
_MAX_ADDRESSES: Final = 16
"""Addresses of a host name. A name with more addresses is refused."""


def _origins(urls: Sequence[str] | frozenset[str]) -> frozenset[str]:
    if isinstance(urls, str):
        raise TypeError("origins: expected a list of URLs, got a string")
    return frozenset(HTTPEndpoint.parse(url).origin for url in urls)


@frozen(kw_only=True)
class AddressPolicy:
    """Allows public addresses over https, and configured exceptions.

    Args:
        loopback: True to allow this machine, also over http.
        private: True to allow private networks. Link-local addresses and metadata services of clouds are never
            allowed.
        origins: Origins that the operator or user has named, as URLs; only scheme, host and port count. They may have
            any address, and http URLs are accepted.

    Raises:
        ValueError: One of ``origins`` is not an http or https URL.
    """

    loopback: bool = False
    private: bool = False
    origins: frozenset[str] = field(default=frozenset(), converter=_origins)

    @classmethod
    def around(cls, url: str, *, private: bool = False, origins: Sequence[str] = ()) -> AddressPolicy:
        """Return the policy for a server that the user has named.

        The server itself may have any address. The URLs that it names must have public addresses; loopback addresses
        are allowed only if the host of ``url`` is a loopback name or address.

        Raises:
            ValueError: A URL is not an http or https URL.
        """
        host = HTTPEndpoint.parse(url).host
        return cls(loopback=_is_loopback(host), private=private, origins=frozenset({url, *origins}))


def check_url(policy: AddressPolicy, endpoint: HTTPEndpoint) -> None:
    """Check a URL without resolving its host.

    Raises:
        RequestFailed: The URL has credentials, or has the scheme http although https is required.
    """
    if endpoint.authorization is not None:
        raise _refusal(f"expected a URL without credentials, got one with credentials for {endpoint.authority}")
    if endpoint.scheme != "https" and endpoint.origin not in policy.origins and not policy.loopback:
        raise _refusal(f"expected an https URL, got {endpoint.name!r}")


async def resolve(policy: AddressPolicy, endpoint: HTTPEndpoint) -> list[str]:
    """Return the addresses of an endpoint, all of which are allowed.

    Raises:
        RequestFailed: The name has no address, or at least one that is not allowed.
    """
    try:
        infos = await trio.socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError) as error:
        reason = error.strerror if isinstance(error, OSError) else None
        raise _refusal(f"cannot connect to {endpoint.authority}: {reason or 'there is no such name'}") from error
    addresses = list(dict.fromkeys(str(address[4][0]) for address in infos))
    if not 0 < len(addresses) <= _MAX_ADDRESSES:
        raise _refusal(f"{endpoint.authority}: expected 1 to {_MAX_ADDRESSES} addresses, got {len(addresses)}")
    for address in addresses:
        # One forbidden address is enough: an attacker may mix public and private addresses and rely on a retry.
        _check_address(policy, endpoint, address)
    return addresses


async def check_proxied(policy: AddressPolicy, endpoint: HTTPEndpoint) -> None:
    """Check the addresses of a host to which a proxy will connect.

    Raises:
        RequestFailed: An address is not allowed.
    """
    try:
        infos = await trio.socket.getaddrinfo(endpoint.host, endpoint.port, type=socket.SOCK_STREAM)
    except (OSError, UnicodeError):
        # The proxy resolves the name itself, perhaps with another name server.
        return
    for address in infos:
        _check_address(policy, endpoint, str(address[4][0]))


def _check_address(policy: AddressPolicy, endpoint: HTTPEndpoint, address: str) -> None:
    # The user or operator has named this origin, so any address is allowed.
    if endpoint.origin in policy.origins:
        return
    kind = address_kind(parse_address(address))
    # Checked before the scheme, because a server on this machine may use http.
    if kind is AddressKind.LOOPBACK and policy.loopback:
        return
    if endpoint.scheme != "https":
        raise _refusal(f"expected an https URL, or http on this machine, got {endpoint.name!r}")
    if kind is AddressKind.PUBLIC or (kind is AddressKind.PRIVATE and policy.private):
        return
    raise _refusal(
        f"{endpoint.authority}: expected a public address, or an origin that is allowed by name,"
        f" got {kind.value} ({address})"
    )


def _is_loopback(host: str) -> bool:
    if host == _LOCALHOST or host.endswith("." + _LOCALHOST):
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False


def _refusal(message: str) -> RequestFailed:
    return RequestFailed(message, delivered=False)
