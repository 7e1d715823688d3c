"""Operations for the engine. All waiting operations form one transaction, with one statement for each kind.

A kind of operation is a generator function. It sends its statements for a list of items, yields once, and reads the
results, so the statements of all kinds are sent in one round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from typing import Any, TypeAlias

from attrs import define, field, frozen

from mcptrio_store_postgres.links import Connection

__all__ = ["DatabaseOperation", "OperationBatch", "Results", "Run", "rounds"]

Results: TypeAlias = Generator[None, None, Sequence[Any]]
"""Sends, yields once, and returns a result for each item. A result that is an exception is raised to its caller."""


@define(eq=False)
class OperationBatch:
    """One transaction, or one batch of reads."""

    connection: Connection
    messages: list[tuple[str, bytes | None]] = field(factory=list)
    """Messages that are published when the transaction is committed, each with the key of its topic."""


Run: TypeAlias = Callable[[OperationBatch, Sequence[Any]], Results]


@frozen(eq=False)
class DatabaseOperation:
    """One operation of a caller.

    Args:
        run: The kind of the operation.
        item: The arguments of the operation.
        key: The row that the operation changes. Operations with the same key go into different statements.
        needs_lease: True if the replica must have a lease when the operation is committed.
    """

    run: Run
    item: Any
    key: Hashable = None
    needs_lease: bool = False


def rounds(works: Sequence[DatabaseOperation]) -> list[dict[Run, list[int]]]:
    """Return the indexes of the operations by kind, in rounds in which no kind has a key twice."""
    found: list[dict[Run, list[int]]] = []
    counts: dict[Hashable, int] = {}
    # All transactions execute the kinds in the same order, which avoids deadlocks.
    for index, work in sorted(enumerate(works), key=lambda each: each[1].run.__qualname__):
        at = 0
        if work.key is not None:
            at = counts.get((work.run, work.key), 0)
            counts[work.run, work.key] = at + 1
        while len(found) <= at:
            found.append({})
        found[at].setdefault(work.run, []).append(index)
    return found
