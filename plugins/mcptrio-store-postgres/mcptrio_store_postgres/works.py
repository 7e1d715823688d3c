"""Works for the engine: all waiting works are one transaction, with one statement for each kind.

A kind of work is a function that sends its statements for a list of items, yields once, and then reads the results. So
the statements of all kinds travel in one round trip.
"""

from __future__ import annotations

from collections.abc import Callable, Generator, Hashable, Sequence
from typing import Any, TypeAlias

from attrs import define, field, frozen

from mcptrio_store_postgres.links import Connection

__all__ = ["DatabaseWork", "Results", "Run", "WorkBatch", "rounds"]

Results: TypeAlias = Generator[None, None, Sequence[Any]]
"""Sends, yields once, and returns a result for each item; an exception is raised to the caller of the item."""


@define(eq=False)
class WorkBatch:
    """One transaction."""

    connection: Connection
    wakes: list[tuple[str, bytes | None]] = field(factory=list)
    """Keys of topics and messages that are published when the transaction is committed."""


Run: TypeAlias = Callable[[WorkBatch, Sequence[Any]], Results]


@frozen(eq=False)
class DatabaseWork:
    """
    Args:
        run: The kind of work.
        item: The arguments of the work.
        key: The row that it changes. Works with the same key go into different statements.
        needs_lease: Whether the replica must have a lease when the work is committed.
    """

    run: Run
    item: Any
    key: Hashable = None
    needs_lease: bool = False


def rounds(works: Sequence[DatabaseWork]) -> list[dict[Run, list[int]]]:
    """Return the indexes of the works by kind, in rounds in which no kind has a key twice."""
    found: list[dict[Run, list[int]]] = []
    counts: dict[Hashable, int] = {}
    # All transactions have the kinds in the same order, so that none waits for another that waits for it.
    for index, work in sorted(enumerate(works), key=lambda each: each[1].run.__qualname__):
        at = 0
        if work.key is not None:
            at = counts.get((work.run, work.key), 0)
            counts[work.run, work.key] = at + 1
        while len(found) <= at:
            found.append({})
        found[at].setdefault(work.run, []).append(index)
    return found
