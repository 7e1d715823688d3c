"""The connections to the databases: made on demand, kept for later calls, closed with the server.

``PostgresQueries`` takes one connection for each call. There are at most ``max_connections`` for each database; further
calls wait. No setting, lock, cursor or prepared statement of one call reaches the next one.
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
from .connection import ConnectionLost, PostgresConnection, ServerRefused

__all__ = ["DatabasePool", "DatabasePools"]

_RESET_TIMEOUT: Final = 5.0
"""Seconds to roll back and reset a connection, or to cancel its statement; it is closed if that takes longer."""


@define(eq=False)
class DatabasePool:
    """The connections to one database."""

    address: PostgresAddress
    config: Config
    _turns: trio.CapacityLimiter = field(init=False)
    # Threads that connect or cancel. An abandoned one counts until it has ended.
    _threads: trio.CapacityLimiter = field(init=False)
    _idle: list[PostgresConnection] = field(init=False, factory=list)
    is_open: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._turns = trio.CapacityLimiter(self.config.max_connections)
        self._threads = trio.CapacityLimiter(2 * self.config.max_connections)

    @asynccontextmanager
    async def connection(self) -> AsyncIterator[PostgresConnection]:
        """Lend a connection whose session has its initial settings and no transaction.

        Raises:
            ConnectionLost: The database cannot be reached.
        """
        async with self._turns:
            connection = await self._take()
            try:
                yield connection
            finally:
                # Also for a call that is cancelled: its locks must not outlive it.
                with trio.move_on_after(2 * _RESET_TIMEOUT, shield=True):
                    await self._give_back(connection)

    def close(self) -> None:
        """Close the idle connections; the others are closed when their calls end."""
        self.is_open = False
        while self._idle:
            self._idle.pop().close()

    async def _take(self) -> PostgresConnection:
        if not self.is_open:
            raise ToolError("the server is shutting down")
        while self._idle:
            connection = self._idle.pop()
            # The server may have closed it since the last call; an empty statement shows that.
            if await self._does(connection, ""):
                return connection
            await self._end(connection)
        return await self._connect()

    async def _give_back(self, connection: PostgresConnection) -> None:
        if connection.is_settled and self.is_open:
            with trio.move_on_after(_RESET_TIMEOUT):
                # DISCARD ALL releases advisory locks, and drops temporary tables, settings, channels and prepared
                # statements.
                if await self._does(connection, "ROLLBACK") and await self._does(connection, "DISCARD ALL"):
                    self._idle.append(connection)
                    return
        await self._end(connection)

    async def _does(self, connection: PostgresConnection, sql: str) -> bool:
        try:
            await connection.run(sql)
        except (ConnectionLost, ServerRefused):
            return False
        except BaseException:
            connection.close()
            raise
        return True

    async def _end(self, connection: PostgresConnection) -> None:
        try:
            with trio.move_on_after(_RESET_TIMEOUT):
                await trio.to_thread.run_sync(connection.abandon, limiter=self._threads, abandon_on_cancel=True)
        finally:
            connection.close()

    async def _connect(self) -> PostgresConnection:
        # libpq cannot be interrupted while it resolves a name. A call that is cancelled leaves the thread, which then
        # closes what it has opened.
        attempt = _Attempt(self.address, self.config.connect_timeout)
        try:
            return await trio.to_thread.run_sync(attempt.run, limiter=self._threads, abandon_on_cancel=True)
        except trio.Cancelled:
            attempt.leave()
            raise


class _Attempt:
    """An attempt to connect, which its caller may leave."""

    def __init__(self, address: PostgresAddress, timeout: float) -> None:
        self._address = address
        self._timeout = timeout
        self._lock = threading.Lock()
        self._is_left = False
        self._connection: PostgresConnection | None = None

    def run(self) -> PostgresConnection:
        connection = PostgresConnection.open(self._address, self._timeout)
        with self._lock:
            self._connection = connection
            if self._is_left:
                connection.close()
        return connection

    def leave(self) -> None:
        with self._lock:
            self._is_left = True
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
