"""Serves with the stores of the table ``[stores]``. The command line uses it."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

from mcptrio.abc import Bus
from mcptrio.serve.stores_table import StoresTable
from mcptrio.server import Server
from mcptrio.stores.opening import open_stores

__all__ = ["serve_with_stores"]


async def serve_with_stores(
    server: Server, table: StoresTable, serve: Callable[..., Awaitable[None]], bus: Bus | None = None, **more: Any
) -> None:
    """Open the stores, give them to the server, and serve.

    Args:
        server: The server, not yet open.
        table: The table ``[stores]``.
        serve: Opens the server and serves it; called with ``more``.
        bus: Reaches the other workers of the parent; ``None`` without workers.

    Raises:
        ConfigError: The URL or a setting is invalid.
        StoreFailed: The engine cannot be used.
    """
    # One process with everything in memory needs no bus: it would only repeat to itself what it knows.
    if table.url == "memory" and bus is None:
        await serve(**more)
        return
    async with open_stores(table.url, table, bus=bus) as stores:
        server.use_stores(stores)
        await serve(**more)
