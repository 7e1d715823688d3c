"""The engine under Trio: one writer that commits all waiting operations together, and a few readers.

The writer and each reader have their own thread and connection. The stores pass operations to them.
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
from mcptrio_store_postgres.failures import is_connection_lost, is_deadlock, may_retry_alone, store_failed
from mcptrio_store_postgres.links import Connection, PostgresLink, enforce_deadlines
from mcptrio_store_postgres.operations import DatabaseOperation, OperationBatch, Results, rounds

__all__ = ["MessagePublisher", "PostgresDatabase", "no_statement"]

Outcomes: TypeAlias = "Sequence[outcome.Value[Any] | outcome.Error]"

_READERS: Final = 2

_log = logging.getLogger("mcptrio.stores")


class MessagePublisher(Protocol):
    """Publishes the messages of transactions. Its methods are called by the writer's thread."""

    def take_payloads(self) -> list[str]:
        """Return the payloads to send with the next transaction."""
        ...

    def note_lost(self) -> None:
        """Note that the taken payloads were not sent."""
        ...

    def send(self, batch: OperationBatch, taken: Sequence[str]) -> None:
        """Send the taken payloads and the messages of the transaction itself."""
        ...

    def committed(self, messages: Sequence[tuple[str, bytes | None]]) -> None:
        """Deliver the messages of a committed transaction to this process."""
        ...


class PostgresDatabase:
    """The writer and the readers.

    Args:
        address: The address of the engine.
        timeout: Seconds that an operation may take.
    """

    def __init__(self, address: Address, *, timeout: float) -> None:
        self.address = address
        self._timeout = timeout
        self._link = PostgresLink(address, timeout=timeout)
        links = [PostgresLink(address, timeout=timeout) for _ in range(_READERS)]
        self.links = [self._link, *links]
        self._writer: BatchWriter[DatabaseOperation] = BatchWriter(address.label, self._write, timeout=timeout)
        self._readers: list[BatchWriter[DatabaseOperation]] = [
            BatchWriter(address.label, partial(self._read, link), timeout=timeout) for link in links
        ]
        self._publisher: MessagePublisher | None = None
        self._renew: Callable[[OperationBatch], None] | None = None
        self._failing_since: float | None = None
        self._scope = trio.CancelScope()

    def attach(self, *, publisher: MessagePublisher, renew: Callable[[OperationBatch], None]) -> None:
        """Set the objects that need the database themselves.

        Args:
            publisher: Publishes the messages of transactions.
            renew: A function called by the writer's thread before operations that need the lease.
        """
        self._publisher, self._renew = publisher, renew

    @property
    def waiting(self) -> int:
        """The number of operations in the queues."""
        return self._writer.waiting + sum(reader.waiting for reader in self._readers)

    @property
    def failing_since(self) -> float | None:
        """Seconds for which the engine has failed; ``None`` if the last operation succeeded."""
        since = self._failing_since
        return None if since is None else time.monotonic() - since

    async def write(self, work: DatabaseOperation, size: int = 0) -> Any:
        """Execute an operation, and return its result once its transaction is committed.

        Raises:
            StoreFailed: The engine failed or did not answer in time. The operation may still be executed.
        """
        return await self._writer.write(work, size)

    def post(self, work: DatabaseOperation) -> bool:
        """Queue an operation without waiting for its result. Does not block. Return False if the queue is full."""
        return self._writer.post(work)

    async def read(self, work: DatabaseOperation) -> Any:
        """Return the result of an operation that only reads.

        Raises:
            StoreFailed: The engine failed or did not answer in time.
        """
        return await min(self._readers, key=lambda reader: reader.waiting).write(work)

    async def run(self) -> None:
        """Run the writer and the readers until :meth:`stop` is called, even if the caller is cancelled."""
        with trio.CancelScope(shield=True):
            async with trio.open_nursery() as nursery:
                # Until all threads have returned, because a stalled engine holds them until their deadlines.
                nursery.start_soon(enforce_deadlines, self.links)
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

    def write_now(self, work: DatabaseOperation) -> Any:
        """Execute an operation from a thread, while :meth:`run` does not run.

        Raises:
            StoreFailed: The engine failed.
        """
        return self._write([work])[0].unwrap()

    def _write(self, works: Sequence[DatabaseOperation]) -> Outcomes:
        assert self._publisher is not None
        taken = self._publisher.take_payloads()
        if not taken and all(work.run is no_statement for work in works):
            return [outcome.Value(None) for _ in works]
        results, error = self._commit(works, taken)
        if error is None:
            return [_outcome(result) for result in results]
        if taken:
            self._publisher.note_lost()
        if len(works) > 1 and may_retry_alone(error):
            alone = [self._commit([work], []) for work in works]
            return [_outcome(each[0]) if failed is None else self._failure(failed) for each, failed in alone]
        return [self._failure(error) for _ in works]

    def _commit(self, works: Sequence[DatabaseOperation], taken: list[str]) -> tuple[list[Any], BaseException | None]:
        """Execute the operations in one transaction. Return their results, or the error."""
        assert self._publisher is not None
        error: BaseException | None = None
        # A later attempt would end after the timeout of the callers.
        retry_until = time.monotonic() + self._timeout / 2
        for is_first in (True, False):
            transaction = _Transaction(works, taken, self._publisher, self._renew)
            done = outcome.capture(self._link.use, transaction.run)
            if isinstance(done, outcome.Value):
                self._failing_since = None
                self._publisher.committed(done.value.messages)
                return transaction.results, None
            error = done.error
            # COMMIT was not sent, so the engine has rolled the transaction back, and it can be repeated. The usual
            # cause is an idle connection that the server has closed.
            if transaction.is_committing or not (is_connection_lost(error) or is_deadlock(error)):
                break
            if not is_first or time.monotonic() > retry_until:
                break
        return [], error

    def _read(self, link: PostgresLink, works: Sequence[DatabaseOperation]) -> Outcomes:
        error: BaseException = StoreFailed(self.address.label)
        retry_until = time.monotonic() + self._timeout / 2
        for is_first in (True, False):
            done = outcome.capture(link.use, partial(_select, works))
            if isinstance(done, outcome.Value):
                self._failing_since = None
                return [_outcome(result) for result in done.value]
            error = done.error
            if not is_first or not is_connection_lost(error) or time.monotonic() > retry_until:
                break
        if len(works) > 1 and may_retry_alone(error):
            return [self._read(link, [work])[0] for work in works]
        return [self._failure(error) for _ in works]

    def _failure(self, error: BaseException) -> outcome.Error:
        """Return the error for one caller. Each caller raises it, so each gets an instance of its own."""
        if not isinstance(error, Exception):
            return outcome.Error(error)
        if is_connection_lost(error) or isinstance(error, StoreFailed):
            self._failing_since = self._failing_since or time.monotonic()
        if isinstance(error, MCPTrioError):
            return outcome.Error(type(error)(str(error)))
        return outcome.Error(store_failed(self.address, error))


class _Transaction:
    def __init__(
        self,
        works: Sequence[DatabaseOperation],
        taken: list[str],
        publisher: MessagePublisher,
        renew: Callable[[OperationBatch], None] | None,
    ) -> None:
        self._works = works
        self._taken = taken
        self._publisher = publisher
        self._renew = renew
        self.is_committing = False
        self.results: list[Any] = [None] * len(works)

    def run(self, connection: Connection) -> OperationBatch:
        batch = OperationBatch(connection)
        with connection.pipeline(), connection.transaction():
            if self._renew is not None and any(work.needs_lease for work in self._works):
                self._renew(batch)
            _execute(batch, self._works, self.results)
            self._publisher.send(batch, self._taken)
            # Set only after all results have arrived: before, COMMIT was certainly not sent.
            self.is_committing = True
        return batch


def no_statement(batch: OperationBatch, items: Sequence[Any]) -> Results:
    """The kind of an operation that only causes a transaction, so that queued messages are sent."""
    yield
    return [None] * len(items)


def _select(works: Sequence[DatabaseOperation], connection: Connection) -> list[Any]:
    results: list[Any] = [None] * len(works)
    # For one query, a pipeline would take longer than the query.
    with connection.pipeline() if len(works) > 1 else nullcontext():
        _execute(OperationBatch(connection), works, results)
    return results


def _execute(batch: OperationBatch, works: Sequence[DatabaseOperation], results: list[Any]) -> None:
    for kinds in rounds(works):
        begun = [(run(batch, [works[at].item for at in indexes]), indexes) for run, indexes in kinds.items()]
        for sent, _ in begun:
            next(sent)
        for sent, indexes in begun:
            for at, result in zip(indexes, _results_of(sent), strict=True):
                results[at] = result


def _results_of(sent: Results) -> Sequence[Any]:
    try:
        next(sent)
    except StopIteration as end:
        found: Sequence[Any] = end.value
        return found
    raise AssertionError("a kind of operation yields once")


def _outcome(result: Any) -> outcome.Value[Any] | outcome.Error:
    return outcome.Error(result) if isinstance(result, Exception) else outcome.Value(result)
