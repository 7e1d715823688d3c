"""The contract of every store of sessions and events: what expires, and when.

A test module of an engine imports these functions and has the fixtures of contract.py. The clock of Redis and
PostgreSQL cannot be moved, so their tests run all of these functions at the same time.
"""

from __future__ import annotations

import pytest
from attrs import evolve

from mcptrio.errors import Overloaded
from mcptrio.stores import StoreBounds

from .contract import Opener, StoreTime, record

__all__ = [
    "test_full_session_store_refuses_new_sessions_but_keeps_the_old",
    "test_inbox_that_is_read_does_not_begin_again",
    "test_old_events_are_dropped_but_a_quiet_cursor_stays_good",
    "test_session_expires_by_idle_time",
    "test_session_that_makes_room_for_another_one_is_named_or_forgotten",
]


async def test_inbox_that_is_read_does_not_begin_again(opener: Opener, store_time: StoreTime) -> None:
    async with opener(StoreBounds(event_timeout=store_time.bound)) as stores:
        await stores.events.put("s", b"1")
        for _ in range(4):
            assert (await stores.events.inbox("s", 1))[0] == []
            # Engines keep the positions for some time without a reader.
            await store_time.advance(store_time.bound * 0.75)
        await stores.events.put("s", b"2")

        assert await stores.events.inbox("s", 1) == ([b"2"], 2)


async def test_session_expires_by_idle_time(opener: Opener, store_time: StoreTime) -> None:
    """Loading counts as use."""
    async with opener(StoreBounds(idle_timeout=store_time.bound)) as stores:
        store = stores.sessions
        await store.save(record("used"))
        await store.save(record("idle"))
        await store_time.advance(store_time.bound * 0.6)
        assert await store.load("used") == evolve(record("used"), generation=1)
        await store_time.advance(store_time.bound * 0.6)

        assert await store.load("idle") is None
        assert await store.expire() == ["idle"]
        assert await store.load("used") == evolve(record("used"), generation=1)
        assert await store.delete("used")
        assert not await store.delete("used")


async def test_full_session_store_refuses_new_sessions_but_keeps_the_old(opener: Opener, store_time: StoreTime) -> None:
    async with opener(StoreBounds(idle_timeout=store_time.bound, max_sessions=2)) as stores:
        store = stores.sessions
        await store.save(record("a"))
        await store.save(record("b"))

        with pytest.raises(Overloaded):
            await store.save(record("c"))
        assert await store.save(evolve(record("a"), generation=1, log_level="error")) is not None
        await store_time.advance(store_time.bound * 1.1)
        await store.save(record("c"))
        assert await store.load("c") is not None


async def test_old_events_are_dropped_but_a_quiet_cursor_stays_good(opener: Opener, store_time: StoreTime) -> None:
    async with opener(StoreBounds(event_timeout=store_time.bound)) as stores:
        store = stores.events
        first = await store.append("s", "x", b"1")
        await store.append("s", "done", b"1", last=True)
        await store_time.advance(store_time.bound * 1.1)
        for stream in ("y", "z"):
            await store.append("s", stream, b"1")

        assert await store.read("s", "done", 0) == ([], False)
        assert await store.read("s", "x", 0) == ([], False)
        assert await store.after("s", first.id) == ("x", [], False)


async def test_session_that_makes_room_for_another_one_is_named_or_forgotten(
    opener: Opener, store_time: StoreTime
) -> None:
    """The store either drops its events or names the sessions to drop."""
    async with opener(StoreBounds(idle_timeout=store_time.bound, max_sessions=1)) as stores:
        await stores.sessions.save(record("a"))
        await stores.events.append("a", "s", b"1")
        await store_time.advance(store_time.bound * 1.1)
        await stores.sessions.save(record("b"))
        named = await stores.sessions.expire()

        assert named == ["a"] or await stores.events.read("a", "s", 0) == ([], False)
