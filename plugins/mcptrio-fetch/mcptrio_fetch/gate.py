"""Decides which URLs, hosts and addresses may be requested.

The downloader calls it before each request, including redirects; the transport calls it before each connection.
``addresses`` resolves a name once, and the connection goes to one of the returned addresses, so a name server that
changes its answer (DNS rebinding) has no effect.
"""

from __future__ import annotations

import re

import trio

from mcptrio.net import Address, AddressKind, address_kind, parse_address

from .config import Config
from .errors import FetchRefused, Unreachable, printable
from .hosts import HostSet
from .resolver import Resolver

__all__ = ["AddressGate"]

_SCHEMES = ("http", "https")
_HOST = re.compile(r"[A-Za-z0-9._-]{1,255}|[0-9A-Fa-f:.]{2,45}", re.ASCII)
"""A name or an address, without a zone (``%eth0``), which is valid on one machine only."""


class AddressGate:
    """The rules of a configuration for URLs and addresses.

    Args:
        resolver: Called once for each connection.
    """

    def __init__(self, config: Config, resolver: Resolver) -> None:
        self._allowed_hosts = HostSet.of(config.allow_hosts)
        self._denied_hosts = HostSet.of(config.deny_hosts)
        self._private = HostSet.of(config.private_hosts)
        self._is_any_host_allowed = not config.allow_hosts
        self._is_private_allowed = config.allow_private
        self._timeout = config.connect_timeout
        self._resolver = resolver

    def check(self, *, scheme: str, host: str, port: int | None, has_user: bool) -> None:
        """Check a URL without resolving its host.

        Raises:
            FetchRefused: The URL is not allowed.
        """
        if scheme not in _SCHEMES or not _HOST.fullmatch(host):
            raise FetchRefused(f"expected an http or https URL with a host, got {printable(f'{scheme}://{host}')}")
        if port is not None and not 0 < port < 65_536:
            raise FetchRefused(f"expected a port from 1 to 65535, got {port} for {printable(host)}")
        if has_user:
            raise FetchRefused(f"expected a URL without a user name and password, got one for {printable(host)}")
        if self._denied_hosts.contains_name(host) or not (
            self._is_any_host_allowed or self._allowed_hosts.contains_name(host)
        ):
            raise FetchRefused(f"{printable(host)} is not among the allowed hosts: see `allow_hosts` and `deny_hosts`")

    async def addresses(self, host: str, port: int) -> list[str]:
        """Resolve a host, and return the addresses to connect to.

        Raises:
            FetchRefused: At least one of the addresses is not allowed. An attacker can mix public and private
                addresses, so that a retry would connect to a private one.
            Unreachable: The host has no address, or the resolver did not answer in time.
        """
        addresses = await self._resolve(host, port)
        if not addresses:
            raise Unreachable(f"{printable(host)} has no address")
        for address in addresses:
            self._check_address(host, address)
        return [str(address) for address in addresses]

    async def check_addresses(self, host: str, port: int) -> None:
        """Check the addresses of a host that a proxy will connect to.

        Behind a proxy, names often do not resolve on this machine. The proxy then decides.

        Raises:
            FetchRefused: At least one of the addresses is not allowed.
        """
        try:
            addresses = await self._resolve(host, port)
        except Unreachable:
            return
        for address in addresses:
            self._check_address(host, address)

    async def _resolve(self, host: str, port: int) -> list[Address]:
        try:
            with trio.fail_after(self._timeout):
                return [parse_address(text) for text in await self._resolver.resolve(host, port)]
        except trio.TooSlowError as error:
            raise Unreachable(f"resolving {printable(host)} took longer than {self._timeout:g} seconds") from error
        except (OSError, UnicodeError) as error:
            raise Unreachable(f"the name {printable(host)} does not resolve") from error

    def _check_address(self, host: str, address: Address) -> None:
        if self._denied_hosts.contains_address(address):
            raise FetchRefused(f"{printable(host)} is not among the allowed hosts: see `allow_hosts` and `deny_hosts`")
        if self._is_private_allowed or self._private.contains_name(host) or self._private.contains_address(address):
            return
        kind = address_kind(address)
        if kind is not AddressKind.PUBLIC:
            shown = "" if str(address) == host else f" resolves to {address}, which"
            raise FetchRefused(
                f"{printable(host)}{shown} is not a public address but {kind.value}; "
                "the operator can allow it with private_hosts or allow_private"
            )
