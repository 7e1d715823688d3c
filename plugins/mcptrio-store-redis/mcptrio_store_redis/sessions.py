"""Handshake sessions. Each session has one key.

The engine expires the records. A sorted set of all sessions serves only to count them. Its times are updated when it is
full, and by :meth:`RedisSessionStore.expire`.
"""

from __future__ import annotations

from collections import OrderedDict
from itertools import islice
from typing import Any, Final

import trio
from attrs import evolve

from mcptrio.abc import SessionRecord
from mcptrio.errors import Overloaded
from mcptrio.stores import read_record, write_record
from mcptrio_store_redis.commands import RedisFull, command, run
from mcptrio_store_redis.engine import RedisEngine
from mcptrio_store_redis.keys import tag_of
from mcptrio_store_redis.scripts import ADMIT, DUE_SESSIONS, SAVE, UPDATE_SESSIONS

__all__ = ["RedisSessionStore"]

# Sessions that one call of expire() checks.
_MAX_EXPIRED: Final = 500
# Sessions that one attempt to make room checks, and the number of attempts.
_MAX_EXPIRED_FOR_ROOM: Final = 100
_ATTEMPTS: Final = 3
# Sessions whose expiry this replica notices. The records and events of further ones expire too.
_MAX_USED: Final = 200_000


class RedisSessionStore:
    """Implements :class:`mcptrio.abc.SessionStore`."""

    def __init__(self, engine: RedisEngine) -> None:
        self._engine = engine
        self._keys = engine.keys
        self._idle = engine.settings.idle_timeout
        self._max_sessions = engine.settings.max_sessions
        # The sessions that this replica has used, and the Trio clock times at which they expire if no other replica
        # uses them. expire() returns them, so that the server of this replica drops its local parts of them.
        self._expiries: OrderedDict[str, float] = OrderedDict()

    async def save(self, record: SessionRecord) -> SessionRecord | None:
        stored = evolve(record, generation=record.generation + 1)
        # The id is not stored: the key is its hash.
        data = b"%d %s" % (stored.generation, write_record(evolve(stored, id="")))
        try:
            if record.generation == 0:
                await self._admit(tag_of(record.id))
            is_stored = await self._engine.write(
                run(SAVE, self._keys.record(record.id), record.generation, data, _ms(self._idle))
            )
        except RedisFull as error:
            if record.generation == 0:
                raise Overloaded(str(error)) from error
            raise
        if not is_stored:
            return None
        self._use(record.id)
        return stored

    async def load(self, id: str) -> SessionRecord | None:
        key = self._keys.record(id)
        data: bytes | None = await self._engine.read(command(key, "GETEX", key, "PX", _ms(self._idle)))
        if data is None:
            return None
        self._use(id)
        record = read_record(data.partition(b" ")[2], f"{self._engine.label}: session {tag_of(id)[:6]}…")
        return evolve(record, id=id)

    async def delete(self, id: str) -> bool:
        key = self._keys.record(id)
        deleted, _ = await self._engine.write(
            command(key, "DEL", key), command(self._keys.sessions, "ZREM", self._keys.sessions, tag_of(id))
        )
        self._expiries.pop(id, None)
        return bool(deleted)

    async def expire(self) -> list[str]:
        await self._review(await self._engine.read(run(DUE_SESSIONS, self._keys.sessions, _MAX_EXPIRED)))
        now = trio.current_time()
        due = [id for id, deadline in islice(self._expiries.items(), _MAX_EXPIRED) if deadline <= now]
        seconds_left = await self._time_left([self._keys.record(id) for id in due])
        expired = []
        for id, milliseconds in zip(due, seconds_left, strict=True):
            # The session was used in the meantime.
            if self._expiries.get(id, now + 1) > now:
                continue
            if milliseconds < 0:
                del self._expiries[id]
                expired.append(id)
            else:
                self._use(id, milliseconds / 1000)
        return expired

    def _use(self, id: str, seconds: float | None = None) -> None:
        self._expiries[id] = trio.current_time() + (self._idle if seconds is None else seconds)
        self._expiries.move_to_end(id)
        if len(self._expiries) > _MAX_USED:
            self._expiries.popitem(last=False)

    async def _admit(self, tag: str) -> None:
        """Add a new session to the set of all sessions.

        Raises:
            Overloaded: The set is full of sessions that have not expired.
        """
        for _ in range(_ATTEMPTS):
            is_admitted, *aging = await self._engine.write(
                run(ADMIT, self._keys.sessions, tag, _ms(self._idle), self._max_sessions, _MAX_EXPIRED_FOR_ROOM)
            )
            if is_admitted:
                return
            if not aging:
                break
            await self._review(aging)
        raise Overloaded(f"too many sessions: {self._max_sessions} are kept")

    async def _review(self, tags: list[bytes]) -> None:
        """Update the times of sessions in the set, and remove those that have expired."""
        if not tags:
            return
        names = [tag.decode() for tag in tags]
        seconds_left = await self._time_left([f"{self._keys.base(name)}:r" for name in names])
        pairs: list[Any] = [each for pair in zip(names, seconds_left, strict=True) for each in pair]
        await self._engine.write(run(UPDATE_SESSIONS, self._keys.sessions, *pairs))

    async def _time_left(self, keys: list[str]) -> list[int]:
        return await self._engine.read_each([command(key, "PTTL", key) for key in keys])


def _ms(seconds: float) -> int:
    return max(1, round(seconds * 1000))
