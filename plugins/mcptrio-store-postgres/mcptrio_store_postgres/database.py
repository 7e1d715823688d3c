"""The engine under Trio: one writer that commits all waiting works together, and a few readers.

Each has its own thread and connection. The stores pass it works.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Sequence
from contextlib import nullcontext
from functools import partial
from typing import Any, Final, Protocol, TypeAlias

import outcome
import trio

from mcptrio.errors import MCPTrioError, StoreFailed
from mcptrio.stores import BatchWriter
from mcptrio_store_postgres.address import Address
from mcptrio_store_postgres.failures import is_deadlock, is_lost, may_retry_alone, store_failed
from mcptrio_store_postgres.links import Connection, PostgresLink, cut_late
from mcptrio_store_postgres.works import DatabaseWork, Results, WorkBatch, rounds

__all__ = ["PostgresDatabase", "WakeTarget", "no_statement"]

Outcomes: TypeAlias = "Sequence[outcome.Value[Any] | outcome.Error]"

_READERS: Final = 2

_log = logging.getLogger("mcptrio.stores")


class WakeTarget(Protocol):
    """Publishes the messages of transactions. Its methods are called by the writer's thread."""

    def take(self) -> list[str]:
        """Return the payloads to send with the next transaction."""
        ...

    def lost(self) -> None:
        """The taken payloads were not sent."""
        ...

    def send(self, batch: WorkBatch, taken: Sequence[str]) -> None:
        """Send the taken payloads and the messages of the transaction itself."""
        ...

    def committed(self, wakes: Sequence[tuple[str, bytes | None]]) -> None: ...


class PostgresDatabase:
    """
    Args:
        address: The address of the engine.
        timeout: Seconds that a work may take.
    """

    def __init__(self, address: Address, *, timeout: float) -> None:
        self.address = address
        self._timeout = timeout
        self._link = PostgresLink(address, timeout=timeout)
        links = [PostgresLink(address, timeout=timeout) for _ in range(_READERS)]
        self.links = [self._link, *links]
        self._writer: BatchWriter[DatabaseWork] = BatchWriter(address.label, self._write, timeout=timeout)
        self._readers: list[BatchWriter[DatabaseWork]] = [
            BatchWriter(address.label, partial(self._read, link), timeout=timeout) for link in links
        ]
        self._wakes: WakeTarget | None = None
        self._renew: Callable[[WorkBatch], None] | None = None
        self._failing_since: float | None = None
        self._scope = trio.CancelScope()

    def attach(self, *, wakes: WakeTarget, renew: Callable[[WorkBatch], None]) -> None:
        """
        Args:
            wakes: Publishes the messages of transactions.
            renew: A function called by the writer's thread before works that need the lease.
        """
        self._wakes, self._renew = wakes, renew

    @property
    def waiting(self) -> int:
        """Number of works in the queues."""
        return self._writer.waiting + sum(reader.waiting for reader in self._readers)

    @property
    def failing_since(self) -> float | None:
        """Seconds for which the engine has failed; ``None`` while it works."""
        since = self._failing_since
        return None if since is None else time.monotonic() - since

    async def write(self, work: DatabaseWork, size: int = 0) -> Any:
        """Return the result of a work once its transaction is committed.

        Raises:
            StoreFailed: The engine failed or did not answer in time; then the work may still be done.
        """
        return await self._writer.write(work, size)

    def post(self, work: DatabaseWork) -> bool:
        """Add a work without waiting for its result. Does not block. Returns False if the queue is full."""
        return self._writer.post(work)

    async def read(self, work: DatabaseWork) -> Any:
        """Return the result of a work that only reads.

        Raises:
            StoreFailed: The engine failed or did not answer in time.
        """
        return await min(self._readers, key=lambda reader: reader.waiting).write(work)

    async def run(self) -> None:
        """Run the writer and the readers until :meth:`stop`, also while the caller is cancelled."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                # Until all threads have returned: a stalled engine holds them until their links are cut.
                nursery.start_soon(cut_late, self.links)
                with self._scope:
                    async with trio.open_nursery() as threads:
                        for each in (self._writer, *self._readers):
                            threads.start_soon(each.run)
                nursery.cancel_scope.cancel()
        for link in self.links:
            link.close()

    def stop(self) -> None:
        self._scope.cancel()

    # In a thread

    def write_now(self, work: DatabaseWork) -> Any:
        """Do a work from a thread, while :meth:`run` does not run.

        Raises:
            StoreFailed: The engine failed.
        """
        return self._write([work])[0].unwrap()

    def _write(self, works: Sequence[DatabaseWork]) -> Outcomes:
        assert self._wakes is not None
        taken = self._wakes.take()
        if not taken and all(work.run is no_statement for work in works):
            return [outcome.Value(None) for _ in works]
        results, error = self._commit(works, taken)
        if error is None:
            return [_outcome(result) for result in results]
        if taken:
            self._wakes.lost()
        if len(works) > 1 and may_retry_alone(error):
            alone = [self._commit([work], []) for work in works]
            return [_outcome(each[0]) if failed is None else self._failure(failed) for each, failed in alone]
        return [self._failure(error) for _ in works]

    def _commit(self, works: Sequence[DatabaseWork], taken: list[str]) -> tuple[list[Any], BaseException | None]:
        """Do the works in one transaction. Returns their results, or the error."""
        assert self._wakes is not None
        error: BaseException | None = None
        # After that, the callers have given up.
        retry_until = time.monotonic() + self._timeout / 2
        for is_first in (True, False):
            transaction = _Transaction(works, taken, self._wakes, self._renew)
            done = outcome.capture(self._link.use, transaction.run)
            if isinstance(done, outcome.Value):
                self._failing_since = None
                self._wakes.committed(done.value.wakes)
                return transaction.results, None
            error = done.error
            # COMMIT was not sent, so the engine has rolled back: doing it again does nothing twice. Most often, an idle
            # connection was ended.
            if transaction.is_committing or not (is_lost(error) or is_deadlock(error)):
                break
            if not is_first or time.monotonic() > retry_until:
                break
        return [], error

    def _read(self, link: PostgresLink, works: Sequence[DatabaseWork]) -> Outcomes:
        error: BaseException = StoreFailed(self.address.label)
        retry_until = time.monotonic() + self._timeout / 2
        for is_first in (True, False):
            done = outcome.capture(link.use, partial(_select, works))
            if isinstance(done, outcome.Value):
                self._failing_since = None
                return [_outcome(result) for result in done.value]
            error = done.error
            if not is_first or not is_lost(error) or time.monotonic() > retry_until:
                break
        if len(works) > 1 and may_retry_alone(error):
            return [self._read(link, [work])[0] for work in works]
        return [self._failure(error) for _ in works]

    def _failure(self, error: BaseException) -> outcome.Error:
        """Return the error of one caller. Each gets its own, because each raises it."""
        if not isinstance(error, Exception):
            return outcome.Error(error)
        if is_lost(error) or isinstance(error, StoreFailed):
            self._failing_since = self._failing_since or time.monotonic()
        if isinstance(error, MCPTrioError):
            return outcome.Error(type(error)(str(error)))
        return outcome.Error(store_failed(self.address, error))


class _Transaction:
    def __init__(
        self,
        works: Sequence[DatabaseWork],
        taken: list[str],
        wakes: WakeTarget,
        renew: Callable[[WorkBatch], None] | None,
    ) -> None:
        self._works = works
        self._taken = taken
        self._wakes = wakes
        self._renew = renew
        self.is_committing = False
        self.results: list[Any] = [None] * len(works)

    def run(self, connection: Connection) -> WorkBatch:
        batch = WorkBatch(connection)
        with connection.pipeline(), connection.transaction():
            if self._renew is not None and any(work.needs_lease for work in self._works):
                self._renew(batch)
            _do(batch, self._works, self.results)
            self._wakes.send(batch, self._taken)
            # Not before all results are here: whether a transaction without COMMIT was done is never in doubt.
            self.is_committing = True
        return batch


def no_statement(batch: WorkBatch, items: Sequence[Any]) -> Results:
    """The kind of a work that only makes a transaction happen."""
    yield
    return [None] * len(items)


def _select(works: Sequence[DatabaseWork], connection: Connection) -> list[Any]:
    results: list[Any] = [None] * len(works)
    # Beginning and ending a pipeline takes longer than one query.
    with connection.pipeline() if len(works) > 1 else nullcontext():
        _do(WorkBatch(connection), works, results)
    return results


def _do(batch: WorkBatch, works: Sequence[DatabaseWork], results: list[Any]) -> None:
    for kinds in rounds(works):
        begun = [(run(batch, [works[at].item for at in indexes]), indexes) for run, indexes in kinds.items()]
        for sent, _ in begun:
            next(sent)
        for sent, indexes in begun:
            for at, result in zip(indexes, _finish(sent), strict=True):
                results[at] = result


def _finish(sent: Results) -> Sequence[Any]:
    try:
        next(sent)
    except StopIteration as end:
        found: Sequence[Any] = end.value
        return found
    raise AssertionError("a kind of work yields once")


def _outcome(result: Any) -> outcome.Value[Any] | outcome.Error:
    return outcome.Error(result) if isinstance(result, Exception) else outcome.Value(result)
