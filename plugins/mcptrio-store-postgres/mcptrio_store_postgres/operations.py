"""Operations for PostgreSQL. All waiting operations form one transaction, with one statement for each kind.

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
"""Sends its statements, yields once, and returns a result for each item. A result that is an exception is raised in the
caller of its operation."""


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


def rounds(operations: Sequence[DatabaseOperation]) -> list[dict[Run, list[int]]]:
    """Distribute operations over rounds, so that each round has at most one operation with the same kind and key.

    Returns:
        For each round, the indexes of its operations by kind.
    """
    all_rounds: list[dict[Run, list[int]]] = []
    counts: dict[Hashable, int] = {}
    # All transactions execute the kinds in the same order, which avoids deadlocks.
    for index, operation in sorted(enumerate(operations), key=lambda each: each[1].run.__qualname__):
        round_number = 0
        if operation.key is not None:
            round_number = counts.get((operation.run, operation.key), 0)
            counts[operation.run, operation.key] = round_number + 1
        while len(all_rounds) <= round_number:
            all_rounds.append({})
        all_rounds[round_number].setdefault(operation.run, []).append(index)
    return all_rounds
