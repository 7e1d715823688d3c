"""Resolves the name of a host to addresses.

The gate calls a ``Resolver``: the system's, unless ``Fetch`` gets another one. It returns addresses in plain form and
does not judge them.
"""

from __future__ import annotations

import socket
from collections.abc import Sequence
from typing import Protocol

import trio

__all__ = ["Resolver", "SystemResolver"]


class Resolver(Protocol):
    async def resolve(self, host: str, port: int) -> Sequence[str]:
        """The addresses of a host, the best first.

        Args:
            host: a name in ASCII (IDNA), or an address in any form.

        Raises:
            OSError: there is none.
        """
        ...


class SystemResolver:
    """The operating system's. It takes addresses in every form too: ``2130706433`` and ``127.1`` are loopback."""

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        found = await trio.socket.getaddrinfo(host, port, type=socket.SOCK_STREAM)
        return list(dict.fromkeys(str(entry[4][0]) for entry in found))
