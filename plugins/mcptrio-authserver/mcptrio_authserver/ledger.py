"""The port of what is kept: records by kind and key, each with an end.

Implemented by :mod:`.sqlite_store`; used by all of the protocol logic.
The one rule: whoever reads and then writes does so in one transaction, so that a code, a refresh token or a proof is
used once, however many workers are asked at the same time.

Keys of things that let somebody in are digests (see :mod:`.opaque`): what leaks from here lets nobody in.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

__all__ = ["Ledger", "Store"]

T = TypeVar("T")


class Ledger(Protocol):
    """The records, for the time of a transaction. What has ended is not there any more."""

    def get(self, kind: str, key: str) -> Mapping[str, Any] | None: ...

    def put(
        self, kind: str, key: str, value: Mapping[str, Any], *, until: float, group: str = "", most: int | None = None
    ) -> None:
        """Write a record, over the one there was.

        Args:
            until: its end, in seconds since 1970.
            group: what it is found by beside its key.
            most: records of this kind in this group; past that the oldest ones go.
        """
        ...

    def delete(self, kind: str, key: str) -> bool:
        """Whether it was there."""
        ...

    def delete_group(self, kind: str, group: str | None) -> int:
        """Delete a group of a kind, or all groups of it. How many records there were."""
        ...

    def count(self, kind: str, group: str | None = None) -> int:
        """How many there are of a kind, or in a group of it."""
        ...

    def list(self, kind: str, group: str | None = None) -> Sequence[Mapping[str, Any]]:
        """All records of a kind, or of a group of it, the oldest first. For few records, or for the operator."""
        ...


class Store(Protocol):
    """Keeps records."""

    async def transact(self, work: Callable[[Ledger], T]) -> T:
        """Do something in a transaction, in a thread. It is kept where ``work`` returns or raises a ``Refusal``.

        Raises:
            StoreFailed: it was not done.
        """
        ...

    async def sweep(self) -> int:
        """Delete what has ended. How much it was."""
        ...
