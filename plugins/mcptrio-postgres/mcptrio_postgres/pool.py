"""The connections to the databases, which are opened on demand, kept for later calls, and closed with the server.

``PostgresQueries`` uses one connection for each call. There are at most ``max_connections`` for each database; further
calls wait. A connection is reset after each call, so settings, locks, cursors and prepared statements do not remain.
"""

from __future__ import annotations

import threading
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio
from attrs import define, field, frozen

from mcptrio import ToolError, lifespan

from .address import PostgresAddress, read_address
from .config import Config
from .connection import ConnectionLost, PostgresConnection, StatementFailed

__all__ = ["DatabasePool", "DatabasePools"]

_RESET_TIMEOUT: Final = 5.0
"""Seconds to roll back and reset a connection, or to cancel its statement. If that takes longer, it is closed."""


@define(eq=False)
class DatabasePool:
    """The connections to one database."""

    address: PostgresAddress
    config: Config
    _limiter: trio.CapacityLimiter = field(init=False)
    # Threads that connect or cancel. An abandoned one counts until it has ended.
    _threads: trio.CapacityLimiter = field(init=False)
    _idle: list[PostgresConnection] = field(init=False, factory=list)
    is_open: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._limiter = trio.CapacityLimiter(self.config.max_connections)
        self._threads = trio.CapacityLimiter(2 * self.config.max_connections)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[PostgresConnection]:
        """Yield a connection with its initial settings and without a transaction.

        Raises:
            ConnectionLost: The database cannot be reached.
        """
        async with self._limiter:
            connection = await self._acquire()
            try:
                yield connection
            finally:
                # Shielded, because the locks of a cancelled call must be released as well.
                with trio.move_on_after(2 * _RESET_TIMEOUT, shield=True):
                    await self._release(connection)

    def close(self) -> None:
        """Close the idle connections; the others are closed when their calls end."""
        self.is_open = False
        while self._idle:
            self._idle.pop().close()

    async def _acquire(self) -> PostgresConnection:
        if not self.is_open:
            raise ToolError("the plugin is closing its connections")
        while self._idle:
            connection = self._idle.pop()
            # The server may have closed it since the last call; an empty statement shows that.
            if await self._succeeds(connection, ""):
                return connection
            await self._abandon(connection)
        return await self._connect()

    async def _release(self, connection: PostgresConnection) -> None:
        if connection.is_idle and self.is_open:
            with trio.move_on_after(_RESET_TIMEOUT):
                # DISCARD ALL releases advisory locks, and drops temporary tables, settings, channels and prepared
                # statements.
                if await self._succeeds(connection, "ROLLBACK") and await self._succeeds(connection, "DISCARD ALL"):
                    self._idle.append(connection)
                    return
        await self._abandon(connection)

    async def _succeeds(self, connection: PostgresConnection, sql: str) -> bool:
        try:
            await connection.run(sql)
        except (ConnectionLost, StatementFailed):
            return False
        except BaseException:
            connection.close()
            raise
        return True

    async def _abandon(self, connection: PostgresConnection) -> None:
        try:
            with trio.move_on_after(_RESET_TIMEOUT):
                await trio.to_thread.run_sync(connection.abandon, limiter=self._threads, abandon_on_cancel=True)
        finally:
            connection.close()

    async def _connect(self) -> PostgresConnection:
        # libpq cannot be interrupted while it resolves a name. A cancelled call abandons the thread, which then closes
        # the connection that it has opened.
        attempt = _Attempt(self.address, self.config.connect_timeout)
        try:
            return await trio.to_thread.run_sync(attempt.run, limiter=self._threads, abandon_on_cancel=True)
        except trio.Cancelled:
            attempt.abandon()
            raise


class _Attempt:
    """An attempt to connect in a thread, which the caller may abandon."""

    def __init__(self, address: PostgresAddress, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._lock = threading.Lock()
        self._is_abandoned = False
        self._connection: PostgresConnection | None = None

    def run(self) -> PostgresConnection:
        connection = PostgresConnection.open(self._address, self._timeout)
        with self._lock:
            self._connection = connection
            if self._is_abandoned:
                connection.close()
        return connection

    def abandon(self) -> None:
        with self._lock:
            self._is_abandoned = True
            if self._connection is not None:
                self._connection.close()


@frozen(eq=False)
class DatabasePools:
    """The pools of all databases."""

    config: Config
    by_name: dict[str, DatabasePool] = field(init=False)

    def __attrs_post_init__(self) -> None:
        pools = {
            name: DatabasePool(read_address(url.reveal()), self.config) for name, url in self.config.databases.items()
        }
        object.__setattr__(self, "by_name", pools)

    @lifespan
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Allow connections inside the context, and close them afterwards."""
        for pool in self.by_name.values():
            pool.is_open = True
        try:
            yield
        finally:
            for pool in self.by_name.values():
                pool.close()
