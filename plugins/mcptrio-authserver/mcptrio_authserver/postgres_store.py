"""The records in a PostgreSQL database that several replicas share: one table, one transaction at a time.

:mod:`.store_opening` opens it if the settings name a database. An advisory lock orders the transactions of all replicas
and of the operator's commands, so each one sees what the others have committed, as with the lock of a SQLite file.

Source: PostgreSQL 15 documentation, sections 9.27.10 (advisory locks) and 13.2.1 (read committed).
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final, TypeVar

import orjson
import outcome
import psycopg
import trio
from attrs import define
from mcptrio_store_postgres import (
    Address,
    Connection,
    PostgresLink,
    Tables,
    enforce_deadlines,
    is_connection_lost,
    migrate_tables,
    read_address,
    run_in_thread,
    store_failed,
    wait_for_engine,
)
from psycopg.pq import TransactionStatus

from mcptrio.errors import ConfigError, StoreFailed
from mcptrio.stores import StoreSettings

from .config import LedgerSettings
from .ledger import Ledger
from .refusals import Refusal

__all__ = ["PostgresStore", "migrate_postgres_store", "open_postgres_store"]

T = TypeVar("T")

_TABLES: Final = Tables(
    "mcptrio_authserver", "mcptrio-authserver", "python -m mcptrio_authserver ledger migrate --ledger"
)
# Transactions in the queue; further ones are refused.
_MAX_WAITING: Final = 200
# Records that one statement deletes, so that others do not wait long for it.
_MAX_EXPIRED_ROWS: Final = 5000
# Seconds for all migrations.
_MIGRATE_SECONDS: Final = 600.0

_BEGIN: Final = "BEGIN; SELECT pg_advisory_xact_lock(hashtextextended(current_schema() || ' records', 0))"
_GET: Final = "SELECT value FROM records WHERE kind = %s AND key = %s AND until > %s"
_PUT: Final = """
INSERT INTO records (kind, key, "group", value, until) VALUES (%s, %s, %s, %s, %s)
ON CONFLICT (kind, key) DO UPDATE SET "group" = excluded."group", value = excluded.value, until = excluded.until
"""
_TRIM: Final = """
DELETE FROM records WHERE number IN (
    SELECT number FROM records WHERE kind = %s AND "group" = %s ORDER BY number DESC OFFSET %s
)
"""
_DELETE: Final = "DELETE FROM records WHERE kind = %s AND key = %s"
# A record that a transaction is renewing at the same time is skipped.
_EXPIRE: Final = """
DELETE FROM records WHERE number IN (
    SELECT number FROM records WHERE until <= %s LIMIT %s FOR UPDATE SKIP LOCKED
)
"""


class PostgresStore:
    """The store in a database. Made by :func:`open_postgres_store`."""

    def __init__(self, address: Address, settings: LedgerSettings, clock: Callable[[], float]) -> None:
        self._link = PostgresLink(address, timeout=settings.timeout)
        self._timeout = settings.timeout
        self._clock = clock
        self._lock = trio.Lock()
        self._thread = trio.CapacityLimiter(1)

    async def transact(self, work: Callable[[Ledger], T]) -> T:
        """Run ``work`` in a thread as a transaction.

        Raises:
            StoreFailed: The transaction failed, or others took too long. If the connection was lost during the commit,
                the transaction may be done.
        """
        label = self._link.address.label
        if self._lock.statistics().tasks_waiting >= _MAX_WAITING:
            raise StoreFailed(f"{label}: {_MAX_WAITING} transactions are already waiting")
        with trio.move_on_after(self._timeout) as waiting:
            await self._lock.acquire()
        if waiting.cancelled_caught:
            raise StoreFailed(f"{label}: the transactions before this one took more than {self._timeout:g} s")
        try:
            return await self._in_thread(partial(_transact, work=work, now=self._clock))
        finally:
            self._lock.release()

    async def delete_expired(self) -> int:
        """Delete a few thousand expired records; return their number, 0 if none is left."""
        async with self._lock:
            return await self._in_thread(partial(_expire, now=self._clock))

    async def aclose(self) -> None:
        """Close the connection, after the transaction that may be running."""
        with trio.CancelScope(shield=True):
            await trio.to_thread.run_sync(self._link.close, limiter=self._thread)

    # Private

    async def _in_thread(self, work: Callable[[Connection, _Progress], T]) -> T:
        # A thread cannot be cancelled, so the watcher of its deadline runs until the thread ends.
        async with trio.open_nursery() as nursery:
            nursery.cancel_scope.shield = True
            nursery.start_soon(enforce_deadlines, [self._link])
            # Captured, because the nursery would raise it in a group.
            result = await trio.to_thread.run_sync(lambda: outcome.capture(self._use, work), limiter=self._thread)
            nursery.cancel_scope.cancel()
        return result.unwrap()

    def _use(self, work: Callable[[Connection, _Progress], T]) -> T:
        progress = _Progress()
        try:
            return self._link.use(lambda connection: work(connection, progress))
        except psycopg.Error as error:
            # Repeat the work below only if the connection ended while it was idle, for example because the database was
            # restarted.
            if progress.has_begun or not is_connection_lost(error):
                raise store_failed(self._link.address, error) from error
        try:
            return self._link.use(lambda connection: work(connection, progress))
        except psycopg.Error as error:
            raise store_failed(self._link.address, error) from error


@asynccontextmanager
async def open_postgres_store(
    settings: LedgerSettings, *, clock: Callable[[], float] = time.time
) -> AsyncIterator[PostgresStore]:
    """Open the store in a database. Its table is created by :func:`migrate_postgres_store`.

    Args:
        clock: Returns seconds since 1970.

    Raises:
        ConfigError: The URL or a setting is invalid.
        StoreFailed: The database cannot be used, or has another version of the table.
    """
    address, timeouts = _address(settings)
    await wait_for_engine(address, timeouts, trio.current_time() + settings.start_timeout, _TABLES)
    store = PostgresStore(address, settings, clock)
    try:
        yield store
    finally:
        await store.aclose()


async def migrate_postgres_store(settings: LedgerSettings) -> list[str]:
    """Create the table or bring it up to date; return the changes in words.

    Raises:
        ConfigError: The URL or a setting is invalid.
        StoreFailed: The database cannot be reached, or refuses a change.
    """
    address, _ = _address(settings)
    work = partial(migrate_tables, address=address, tables=_TABLES)
    return await run_in_thread(address, work, seconds=_MIGRATE_SECONDS)


def _address(settings: LedgerSettings) -> tuple[Address, StoreSettings]:
    # Its own schema: it may share a database with the stores, whose tables have other versions.
    stores = StoreSettings(
        prefix=f"{settings.prefix}_authserver",
        timeout=settings.timeout,
        start_timeout=settings.start_timeout,
        insecure=settings.insecure,
        ca_file=settings.ca_file,
        password_file=settings.password_file,
    )
    try:
        return read_address(settings.url.reveal(), stores), stores
    except ConfigError as error:
        raise ConfigError(f"ledger: {str(error).removeprefix('store: ')}") from None


# In a thread


@define
class _Progress:
    has_begun: bool = False


def _transact(
    connection: Connection, progress: _Progress, *, work: Callable[[Ledger], T], now: Callable[[], float]
) -> T:
    try:
        connection.execute(_BEGIN)
        progress.has_begun = True
        try:
            result = work(_Records(connection, now()))
        except Refusal:
            connection.execute("COMMIT")
            raise
        connection.execute("COMMIT")
        return result
    finally:
        # Only errors are rolled back. Writes before a Refusal, such as a counted attempt, have been committed.
        if connection.info.transaction_status in (TransactionStatus.INTRANS, TransactionStatus.INERROR):
            connection.execute("ROLLBACK")


def _expire(connection: Connection, progress: _Progress, *, now: Callable[[], float]) -> int:
    return connection.execute(_EXPIRE, (now(), _MAX_EXPIRED_ROWS)).rowcount


class _Records:
    """The ledger of one transaction."""

    def __init__(self, connection: Connection, now: float) -> None:
        self._connection = connection
        self._now = now

    def get(self, kind: str, key: str) -> Mapping[str, Any] | None:
        row = self._connection.execute(_GET, (kind, key.encode(), self._now)).fetchone()
        return None if row is None else _load(row[0])

    def put(
        self,
        kind: str,
        key: str,
        value: Mapping[str, Any],
        *,
        until: float,
        group: str = "",
        max_records: int | None = None,
    ) -> None:
        self._connection.execute(_PUT, (kind, key.encode(), group.encode(), orjson.dumps(dict(value)), until))
        if max_records is not None:
            self._connection.execute(_TRIM, (kind, group.encode(), max_records))

    def delete(self, kind: str, key: str) -> bool:
        return self._connection.execute(_DELETE, (kind, key.encode())).rowcount > 0

    def delete_group(self, kind: str, group: str | None) -> int:
        where, values = _of_kind(kind, group)
        return self._connection.execute(f"DELETE FROM records WHERE {where}".encode(), values).rowcount

    def count(self, kind: str, group: str | None = None) -> int:
        where, values = _of_kind(kind, group)
        row = self._connection.execute(
            f"SELECT count(*) FROM records WHERE {where} AND until > %s".encode(), (*values, self._now)
        ).fetchone()
        return int(str(row[0])) if row is not None else 0

    def list(self, kind: str, group: str | None = None) -> Sequence[Mapping[str, Any]]:
        where, values = _of_kind(kind, group)
        rows = self._connection.execute(
            f"SELECT value FROM records WHERE {where} AND until > %s ORDER BY number".encode(), (*values, self._now)
        ).fetchall()
        return [_load(row[0]) for row in rows]


def _of_kind(kind: str, group: str | None) -> tuple[str, tuple[str | bytes, ...]]:
    """Return an SQL condition that the index on kind and group covers."""
    return ("kind = %s", (kind,)) if group is None else ('kind = %s AND "group" = %s', (kind, group.encode()))


def _load(value: object) -> Mapping[str, Any]:
    assert isinstance(value, bytes)
    loaded: dict[str, Any] = orjson.loads(value)
    return loaded
