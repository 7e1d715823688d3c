"""Side effects that happen at most once. A replica holds a claim until its lease is deleted."""

from __future__ import annotations

import random
from collections.abc import Sequence
from typing import Any, Final

from attrs import frozen

from mcptrio.abc import EffectClaim, EffectState
from mcptrio_store_postgres.database import PostgresDatabase
from mcptrio_store_postgres.keys import key_of
from mcptrio_store_postgres.operations import DatabaseOperation, OperationBatch, Results

__all__ = ["RESULT_SECONDS", "PostgresEffectStore"]

RESULT_SECONDS: Final = 3600
"""Seconds for which a result is usually kept, and for which a lost claim is remembered."""
# Claims of which this process does not know if they were granted.
_MAX_UNACKNOWLEDGED: Final = 10_000

_CLAIM: Final = """
INSERT INTO effects AS e (id, holder, token)
SELECT id, %s, token FROM unnest(%s::text[], %s::bigint[]) WITH ORDINALITY AS w (id, token, nth) ORDER BY nth
ON CONFLICT (id) DO UPDATE SET holder = excluded.holder, token = excluded.token, result = NULL, expires = NULL
    WHERE e.expires <= now()
"""
# The statement above has locked the rows.
_STATE: Final = """
SELECT e.id, e.token, e.result, EXISTS (SELECT FROM leases WHERE replica = e.holder)
FROM effects AS e WHERE e.id = ANY(%s)
"""
_FINISH: Final = """
INSERT INTO effects AS e (id, holder, token, result, expires)
SELECT id, %s, 0, result, now() + least(keep, 1e9) * interval '1 s'
FROM unnest(%s::text[], %s::bytea[], %s::float8[]) WITH ORDINALITY AS w (id, result, keep, nth) ORDER BY nth
ON CONFLICT (id) DO UPDATE SET result = excluded.result, expires = excluded.expires
    WHERE e.result IS NULL AND e.holder = excluded.holder
"""
_RELEASE: Final = """
DELETE FROM effects AS e USING unnest(%s::text[], %s::bigint[]) AS w (id, token)
WHERE e.id = w.id AND e.holder = %s AND e.result IS NULL AND (w.token IS NULL OR w.token = e.token)
"""


@frozen
class _Claim:
    id: str
    token: int


class PostgresEffectStore:
    """Implements :class:`mcptrio.abc.EffectStore`."""

    def __init__(self, database: PostgresDatabase, *, replica: str) -> None:
        self._database = database
        self._replica = replica
        self._unacknowledged_claims: dict[int, _Claim] = {}

    async def claim(self, call: str, key: str) -> EffectClaim:
        claim_request = _Claim(key_of(call, key), random.getrandbits(62))
        is_known = False
        try:
            claim_result: EffectClaim = await self._database.write(
                DatabaseOperation(self._claim, claim_request, claim_request.id, needs_lease=True), len(claim_request.id)
            )
            is_known = True
        finally:
            if not is_known and len(self._unacknowledged_claims) < _MAX_UNACKNOWLEDGED:
                # The claim may have been granted, and nothing would run the effect.
                self._unacknowledged_claims[claim_request.token] = claim_request
                self._database.post(DatabaseOperation(self._release, (claim_request.id, claim_request.token)))
        return claim_result

    async def finish(self, call: str, key: str, result: bytes, keep: float = float(RESULT_SECONDS)) -> None:
        id = key_of(call, key)
        await self._database.write(DatabaseOperation(self._finish, (id, result, float(keep)), id), len(result))

    async def release(self, call: str, key: str) -> None:
        await self._database.write(DatabaseOperation(self._release, (key_of(call, key), None)))

    async def release_unacknowledged(self) -> None:
        """Release the claims whose callers were cancelled or got an error.

        Raises:
            StoreFailed: The engine failed; the rest is released later.
        """
        for token, claim in list(self._unacknowledged_claims.items()):
            await self._database.write(DatabaseOperation(self._release, (claim.id, token)))
            self._unacknowledged_claims.pop(token, None)

    # In a thread

    def _claim(self, batch: OperationBatch, items: Sequence[_Claim]) -> Results:
        ordered = sorted(items, key=lambda item: item.id)
        ids = [item.id for item in ordered]
        batch.connection.execute(_CLAIM, (self._replica, ids, [item.token for item in ordered]))
        cursor = batch.connection.execute(_STATE, (ids,))
        yield
        rows: dict[Any, tuple[Any, ...]] = {row[0]: row[1:] for row in cursor.fetchall()}
        return [_state(item, *rows[item.id]) for item in items]

    def _finish(self, batch: OperationBatch, items: Sequence[tuple[str, bytes, float]]) -> Results:
        ids, results, keeps = zip(*sorted(items), strict=True)
        batch.connection.execute(_FINISH, (self._replica, [*ids], [*results], [*keeps]))
        yield
        return [None] * len(items)

    def _release(self, batch: OperationBatch, items: Sequence[tuple[str, int | None]]) -> Results:
        batch.connection.execute(_RELEASE, ([id for id, _ in items], [token for _, token in items], self._replica))
        yield
        return [None] * len(items)


def _state(item: _Claim, token: int, result: bytes | None, is_held: bool) -> EffectClaim:
    if result is not None:
        return EffectClaim(EffectState.DONE, bytes(result))
    if token == item.token:
        return EffectClaim(EffectState.CLAIMED)
    return EffectClaim(EffectState.RUNNING if is_held else EffectState.LOST)
