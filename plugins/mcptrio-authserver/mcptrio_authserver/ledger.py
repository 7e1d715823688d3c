"""The storage interface: records by kind and key, each with an expiry.

:mod:`.sqlite_store` and :mod:`.postgres_store` implement it, and all protocol logic uses it. A check and the write that
follows it are part of one transaction, and transactions run one after another, so codes, refresh tokens and proofs are
used once even with several workers and replicas. Secrets are stored by their digests (see :mod:`.opaque`).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any, Protocol, TypeVar

__all__ = ["Ledger", "Store"]

T = TypeVar("T")


class Ledger(Protocol):
    """The records during a transaction. Expired records are not visible."""

    def get(self, kind: str, key: str) -> Mapping[str, Any] | None: ...

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
        """Store a record; replaces one with the same key.

        Args:
            kind: The kind of the record.
            key: The key of the record, unique in the kind.
            value: The value of the record, as JSON.
            until: The time at which the record expires, in seconds since 1970.
            group: Another property by which it can be found.
            max_records: The number of records of this kind in this group. If there are more, the oldest are deleted.
        """
        ...

    def delete(self, kind: str, key: str) -> bool:
        """Delete a record; return whether it existed."""
        ...

    def delete_group(self, kind: str, group: str | None) -> int:
        """Delete the records of a group of a kind, or of all its groups; return their number."""
        ...

    def count(self, kind: str, group: str | None = None) -> int:
        """Return the number of records of a kind, or of a group of it."""
        ...

    def list(self, kind: str, group: str | None = None) -> Sequence[Mapping[str, Any]]:
        """Return all records of a kind, or of a group of it, the oldest first.

        For few records, or for operator commands.
        """
        ...


class Store(Protocol):
    """Stores records."""

    async def transact(self, work: Callable[[Ledger], T]) -> T:
        """Run ``work`` in a thread as a transaction, committed if it returns or raises a ``Refusal``.

        Raises:
            StoreFailed: The transaction failed.
        """
        ...

    async def delete_expired(self) -> int:
        """Delete expired records; return their number."""
        ...
