"""Resolves the name of a host to addresses.

The gate calls a ``Resolver``: by default that of the operating system. It returns numeric addresses and does not check
them.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Protocol

import trio

__all__ = ["Resolver", "SystemResolver"]


class Resolver(Protocol):
    """Resolves names for the gate."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """Return the addresses of a host, the best first.

        Args:
            host: A name in ASCII (IDNA), or an address in any form.

        Raises:
            OSError: The host has no address.
        """
        ...


class SystemResolver:
    """The resolver of the operating system. It also parses unusual addresses: ``2130706433`` and ``127.1``."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        entries = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in entries))
