"""Opens the stores of the table ``[stores]``, and serves with them. The command line uses it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any, Final

from attrs import evolve

from mcptrio.abc import Bus, Stores, StoreStatus
from mcptrio.abc.tracing import TRACING
from mcptrio.errors import ConfigError
from mcptrio.serve.stores_table import StoresTable
from mcptrio.serve.watched_stores import watched_stores
from mcptrio.server import Server
from mcptrio.stores.opening import open_stores

__all__ = ["open_table", "serve_with_stores"]

# A process that shares these with no other needs no store for them: it keeps the same state itself.
_PROCESS_PORTS: Final = ("effects", "replays", "quotas")


@asynccontextmanager
async def open_table(table: StoresTable, bus: Bus | None = None) -> AsyncIterator[Stores]:
    """Open the stores of a table, each URL once.

    Args:
        table: The table ``[stores]``.
        bus: Sends messages to the other workers of the parent; ``None`` without workers.

    Raises:
        ConfigError: A URL or a setting is invalid, or an engine does not support the kind of state for which it is
            configured.
        StoreFailed: An engine cannot be used.
    """
    opened: dict[str, Stores] = {}
    async with AsyncExitStack() as stack:
        # The engine with the bus first: the event stores of the others wake readers through it.
        for url in dict.fromkeys((table.urls["bus"], table.url, *table.urls.values())):
            opened[url] = await stack.enter_async_context(open_stores(url, table, bus=bus))
            bus = bus or opened[url].bus
        named = {name: getattr(opened[url], name) for name, url in table.urls.items()}
        for name, value in named.items():
            if value is None and getattr(table, name) is not None:
                raise ConfigError(f"stores.{name}: expected an engine that supports it, got {table.urls[name]}")
        for name in _PROCESS_PORTS:
            if not opened[table.urls[name]].is_shared:
                named[name] = None
        yield evolve(
            opened[table.url],
            **{**named, "bus": bus},
            is_shared=any(each.is_shared for each in opened.values()),
            status=partial(_worst_status, opened[table.url], [each for each in opened.values() if each.is_shared]),
        )


def _worst_status(main: Stores, shared: Sequence[Stores]) -> StoreStatus:
    """Return the status of the engine that has failed for the longest time, or of the main one if none fails."""
    statuses = [each.status() for each in shared]
    failing = [each for each in statuses if each.failing_since is not None]
    if failing:
        return max(failing, key=lambda each: each.failing_since or 0.0)
    return main.status() if main.is_shared or not statuses else statuses[0]


async def serve_with_stores(
    server: Server, table: StoresTable, serve: Callable[..., Awaitable[None]], bus: Bus | None = None, **more: Any
) -> None:
    """Open the stores, give them to the server, and serve.

    Args:
        server: The server, not yet open.
        table: The table ``[stores]``.
        serve: Opens the server and serves it; called with ``more``.
        bus: Sends messages to the other workers of the parent; ``None`` without workers.

    Raises:
        ConfigError: A URL or a setting is invalid.
        StoreFailed: An engine cannot be used.
    """
    # A single process with everything in memory needs neither shared stores nor a bus.
    if bus is None and table.is_memory:
        await serve(**more)
        return
    async with open_table(table, bus) as stores:
        has_details = TRACING.tracer is not None and TRACING.tracer.has_details
        server.use_stores(watched_stores(stores, traced=has_details))
        await serve(**more)
