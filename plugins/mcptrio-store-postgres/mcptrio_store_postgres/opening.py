"""Opens the stores of a replica, and closes them: completes its streams, queues its tasks and deletes its lease."""

from __future__ import annotations

import logging
import secrets
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Final

import outcome
import psycopg
import trio
from attrs import define, field

from mcptrio.abc import Bus, Stores, StoreStatus
from mcptrio.errors import StoreFailed
from mcptrio.stores import CommonTaskStore, StoreSettings, list_replicas
from mcptrio_store_postgres.address import Address, read_address
from mcptrio_store_postgres.bus import OtherBusPublisher, PostgresBus
from mcptrio_store_postgres.database import PostgresDatabase, no_statement
from mcptrio_store_postgres.effects import PostgresEffectStore
from mcptrio_store_postgres.event_writes import EventWrites
from mcptrio_store_postgres.events import PostgresEventStore
from mcptrio_store_postgres.failures import store_failed
from mcptrio_store_postgres.keys import SessionKeys
from mcptrio_store_postgres.leases import Leases
from mcptrio_store_postgres.limits import PostgresQuotaStore, PostgresReplayStore
from mcptrio_store_postgres.links import Connection, PostgresLink, enforce_deadlines
from mcptrio_store_postgres.operations import DatabaseOperation
from mcptrio_store_postgres.sessions import PostgresSessionStore
from mcptrio_store_postgres.sweeper import Sweeper
from mcptrio_store_postgres.tasks import PostgresTasks
from mcptrio_store_postgres.versions import STORE_TABLES, Tables, check_version

__all__ = ["open_postgres_stores", "wait_for_engine"]

# Seconds between two attempts at the start.
_START_INTERVAL: Final = 0.5
# Seconds for completing the streams of this process when it closes; after that another replica does it.
_LEAVE_SECONDS: Final = 5.0

_log = logging.getLogger("mcptrio.stores")


@asynccontextmanager
async def open_postgres_stores(url: str, settings: StoreSettings, *, bus: Bus | None = None) -> AsyncIterator[Stores]:
    """Open the stores in a database with the tables of ``mcptrio store migrate``.

    Args:
        url: ``postgresql://USER@HOST:PORT/DATABASE``, with the parameters of libpq.
        settings: The limits of the stores, and settings of the engine.
        bus: Sends messages to the other replicas, in place of ``NOTIFY``.

    Raises:
        ConfigError: The URL or a setting is invalid.
        StoreFailed: The database cannot be used.
    """
    address = read_address(url, settings)
    give_up = trio.current_time() + settings.start_timeout
    await wait_for_engine(address, settings, give_up)
    replica = _Replica.make(address, settings, bus)
    try:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(replica.database.run)
            try:
                await _register(replica.leases, give_up)
                async with trio.open_nursery() as tasks:
                    tasks.start_soon(replica.leases.run)
                    tasks.start_soon(replica.sweeper.run)
                    if replica.bus is not None:
                        tasks.start_soon(replica.bus.run)
                    try:
                        yield replica.stores(bus)
                    finally:
                        tasks.cancel_scope.cancel()
            finally:
                # Shielded, because clients wait for the ends of these streams even if the server is cancelled.
                with trio.move_on_after(_LEAVE_SECONDS, shield=True):
                    await replica.leave()
                replica.database.stop()
    except BaseExceptionGroup as group:
        raise _single(group) from None


@define(eq=False)
class _Replica:
    """The objects of one opening."""

    database: PostgresDatabase
    keys: SessionKeys
    sessions: PostgresSessionStore
    events: PostgresEventStore
    effects: PostgresEffectStore
    writes: EventWrites
    bus: PostgresBus | None
    sweeper: Sweeper
    id: str
    task_steps: PostgresTasks
    tasks: CommonTaskStore
    leases: Leases = field(init=False)

    @classmethod
    def make(cls, address: Address, settings: StoreSettings, bus: Bus | None) -> _Replica:
        id = secrets.token_hex(8)
        database = PostgresDatabase(address, timeout=settings.timeout)
        keys = SessionKeys()
        writes = EventWrites(settings, id)
        events = PostgresEventStore(database, writes, keys)
        own_bus = PostgresBus(database, replica=id, timeout=settings.timeout) if bus is None else None
        task_steps = PostgresTasks(database, settings, replica=id)
        made = cls(
            database=database,
            keys=keys,
            sessions=PostgresSessionStore(database, keys, bounds=settings, forget=events.forget),
            events=events,
            effects=PostgresEffectStore(database, replica=id),
            writes=writes,
            bus=own_bus,
            sweeper=Sweeper(database, writes, replica=id),
            id=id,
            task_steps=task_steps,
            tasks=CommonTaskStore(task_steps, settings, bus or own_bus),
        )
        on_ended = made.bus.report_lost if made.bus is not None else _nothing
        made.leases = Leases(
            database,
            writes,
            replica=id,
            seconds=settings.lease,
            repair=made.repair,
            release=made.release_tasks,
            on_ended=on_ended,
        )
        publisher = made.bus if bus is None else OtherBusPublisher(bus, keys)
        assert publisher is not None
        database.attach(publisher=publisher, renew=made.leases.renew)
        return made

    def stores(self, bus: Bus | None) -> Stores:
        return Stores(
            sessions=self.sessions,
            events=self.events,
            bus=bus or self.bus,
            effects=self.effects,
            replays=PostgresReplayStore(self.database),
            quotas=PostgresQuotaStore(self.database),
            tasks=self.tasks,
            is_shared=True,
            status=self.status,
        )

    def status(self) -> StoreStatus:
        since = self.database.failing_since
        return StoreStatus(
            kind="postgresql",
            is_reachable=since is None,
            failing_since=since,
            waiting=self.database.waiting,
            replicas=self.leases.replicas,
            live=list_replicas(self.leases.live),
        )

    async def repair(self) -> None:
        """Repeat failed settlements and releases.

        Raises:
            StoreFailed: The engine failed again.
        """
        self.writes.replicas = self.sessions.replicas = self.leases.replicas
        await self.events.retry_settlements()
        await self.effects.release_unacknowledged()
        await self.tasks.take_back_unacknowledged()

    async def release_tasks(self) -> None:
        """Queue the tasks of replicas without a lease.

        Raises:
            StoreFailed: The engine failed.
        """
        self.tasks.announce_released(await self.task_steps.release_ended())

    async def leave(self) -> None:
        """Complete the streams of this process, queue its tasks, and delete its lease."""
        try:
            await self.leases.settle(self.id, only_expired=False)
            await self.release_tasks()
            # Sends the messages that are still queued: the operations in the queue will not be executed.
            await self.database.write(DatabaseOperation(no_statement, None))
        except StoreFailed as error:
            _log.warning("closing: %s; another replica completes the streams and queues the tasks", error)


async def _register(leases: Leases, give_up: float) -> None:
    """Take a lease. Retry, because the engine may have failed again since the first connection.

    Args:
        give_up: Trio clock time of the last attempt.

    Raises:
        StoreFailed: All attempts failed.
    """
    while True:
        try:
            await leases.enter()
            return
        except StoreFailed:
            if trio.current_time() + _START_INTERVAL > give_up:
                raise
        await trio.sleep(_START_INTERVAL)


async def wait_for_engine(
    address: Address, settings: StoreSettings, give_up: float, tables: Tables = STORE_TABLES
) -> None:
    """Check the engine and its tables, and retry while the engine is unreachable.

    Args:
        address: The address of the engine.
        settings: The settings, for their timeouts.
        give_up: Trio clock time of the last attempt.
        tables: The tables that the database must have.

    Raises:
        StoreFailed: The engine was not reachable in time, or the tables have another version.
    """
    link = PostgresLink(address, timeout=settings.timeout)
    limiter = trio.CapacityLimiter(1)
    has_logged = False
    async with trio.open_nursery() as nursery:
        nursery.start_soon(enforce_deadlines, [link])
        while True:
            tried = await trio.to_thread.run_sync(_try, link, tables, limiter=limiter)
            if tried is None:
                break
            failed, is_final = tried
            if is_final or trio.current_time() + _START_INTERVAL > give_up:
                break
            if not has_logged:
                _log.warning("%s; trying again for %g s", failed, settings.start_timeout)
                has_logged = True
            await trio.sleep(_START_INTERVAL)
        nursery.cancel_scope.cancel()
    if tried is not None:
        raise tried[0]


def _try(link: PostgresLink, tables: Tables) -> tuple[StoreFailed, bool] | None:
    """Return the failure, and True if another attempt would fail too; ``None`` after success."""
    done = outcome.capture(link.use, partial(_check, address=link.address, tables=tables))
    link.close()
    if isinstance(done, outcome.Value):
        return (done.value, True) if done.value is not None else None
    error = done.error
    if isinstance(error, StoreFailed):
        return error, False
    if isinstance(error, psycopg.Error):
        # A missing right stays missing; a wrong password may be corrected while the engine starts.
        return store_failed(link.address, error), isinstance(error, psycopg.ProgrammingError)
    raise error


def _check(connection: Connection, *, address: Address, tables: Tables) -> StoreFailed | None:
    try:
        check_version(connection, address, tables)
    except StoreFailed as error:
        return error
    return None


def _nothing() -> None:
    pass


def _single(group: BaseExceptionGroup[BaseException]) -> BaseException:
    """Return the only exception of a group, so that exceptions of the caller's block are raised unchanged."""
    error: BaseException = group
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
