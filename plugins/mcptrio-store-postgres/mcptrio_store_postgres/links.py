"""A connection for one thread at a time, with a deadline that another thread enforces.

psycopg waits without a limit for a server that has stopped answering. Shutting the socket down ends that wait.
"""

from __future__ import annotations

import logging
import socket
import threading
import time
from collections.abc import Callable, Iterable
from contextlib import suppress
from typing import Final, TypeVar

import outcome
import psycopg
import trio

from mcptrio.errors import StoreFailed
from mcptrio_store_postgres.address import Address
from mcptrio_store_postgres.failures import failed_to_connect, is_connection_lost

__all__ = ["Connection", "PostgresLink", "enforce_deadlines"]

T = TypeVar("T")

Connection = psycopg.Connection[tuple[object, ...]]

# Seconds between two attempts to connect: the first, and the largest.
_FIRST_PAUSE: Final = 0.1
_MAX_PAUSE: Final = 1.0
# Seconds between two checks of the deadlines.
_CHECK_INTERVAL: Final = 0.25
_INFINITE: Final = float("inf")

_log = logging.getLogger("mcptrio.stores")


class PostgresLink:
    """A connection to the engine, opened on first use and after it was lost. Blocks; used in threads.

    Args:
        address: The address of the engine.
        timeout: Seconds that one call of :meth:`use` may take.
        on_connect: A function called with each new connection.
    """

    def __init__(
        self, address: Address, *, timeout: float, on_connect: Callable[[Connection], object] | None = None
    ) -> None:
        self.address = address
        self._timeout = timeout
        self._on_connect = on_connect
        self._connection: Connection | None = None
        # A second descriptor of the socket, through which it can be shut down while libpq waits.
        self._socket: socket.socket | None = None
        self._deadline = _INFINITE
        self._lock = threading.Lock()
        self._pause = 0.0
        self._retry_at = 0.0
        self._last_failure: StoreFailed | None = None

    @property
    def connection(self) -> Connection | None:
        return self._connection

    def use(self, work: Callable[[Connection], T]) -> T:
        """Run ``work`` with the connection. An error that shows that the connection is lost closes it.

        Raises:
            StoreFailed: The engine cannot be reached.
        """
        connection = self._connection or self._connect()
        self._deadline = time.monotonic() + self._timeout
        try:
            return work(connection)
        except BaseException as error:
            if connection.closed or not isinstance(error, Exception) or is_connection_lost(error):
                self.close()
            raise
        finally:
            self._deadline = _INFINITE

    def shut_down_if_overdue(self, now: float) -> None:
        """Shut the socket down if the current use has passed its deadline. Called by another thread; does not block."""
        if now <= self._deadline:
            return
        with self._lock:
            if self._socket is not None:
                with suppress(OSError):
                    self._socket.shutdown(socket.SHUT_RDWR)

    def close(self) -> None:
        connection, self._connection = self._connection, None
        with self._lock:
            copy, self._socket = self._socket, None
            if copy is not None:
                copy.close()
        if connection is not None:
            with suppress(psycopg.Error):
                connection.close()

    def _connect(self) -> Connection:
        now = time.monotonic()
        if self._last_failure is not None and now < self._retry_at:
            # The last attempt has just failed, so callers get its error without another attempt.
            raise StoreFailed(str(self._last_failure))
        result = self._attempt()
        if isinstance(result, StoreFailed):
            self._pause = min(_MAX_PAUSE, self._pause * 2 or _FIRST_PAUSE)
            self._retry_at = time.monotonic() + self._pause
            self._last_failure = result
            raise StoreFailed(str(result))
        self._pause, self._last_failure = 0.0, None
        return result

    def _attempt(self) -> Connection | StoreFailed:
        # Returned, not raised: the traceback of psycopg's error holds the socket of the failed attempt.
        done = outcome.capture(self._open)
        if isinstance(done, outcome.Value):
            return done.value
        self.close()
        if not isinstance(done.error, psycopg.Error | StoreFailed):
            raise done.error
        return failed_to_connect(self.address, done.error)

    def _open(self) -> Connection:
        connection = psycopg.connect(**self.address.connection_parameters(), autocommit=True)
        self._connection = connection
        with self._lock:
            self._socket = socket.fromfd(connection.fileno(), socket.AF_INET, socket.SOCK_STREAM)
        self._deadline = time.monotonic() + self._timeout
        try:
            connection.execute(self.address.session_statements(statement_timeout=self._timeout))
            with suppress(psycopg.errors.InvalidParameterValue, psycopg.errors.UndefinedObject):
                # The server then ends a statement whose client has disconnected; not on every operating system.
                connection.execute("SET client_connection_check_interval = '1s'")
            if self._on_connect is not None:
                self._on_connect(connection)
        finally:
            self._deadline = _INFINITE
        return connection


async def enforce_deadlines(links: Iterable[PostgresLink]) -> None:
    """Enforce the deadlines of all links until cancelled."""
    while True:
        await trio.sleep(_CHECK_INTERVAL)
        now = time.monotonic()
        for link in links:
            link.shut_down_if_overdue(now)
