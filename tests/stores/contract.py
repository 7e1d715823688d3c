"""The contract of every store of sessions and events: bounds, and cursors that stay valid.

expiry_contract.py has the rest. A test module of an engine imports these functions and has two fixtures: ``opener``,
which opens the stores with some bounds, and ``store_time``, which lets time pass.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Protocol

import pytest
from attrs import evolve

from mcptrio.abc import EventStore, Principal, SessionRecord, SessionStore
from mcptrio.errors import ConnectionClosed
from mcptrio.stores import StoreBounds

__all__ = [
    "Opener",
    "SessionAndEventStores",
    "StoreTime",
    "test_abandoned_stream_ends_with_its_last_message",
    "test_complete_stream_refuses_events",
    "test_complete_streams_pay_first_for_the_bound_of_a_session",
    "test_dropped_session_is_forgotten",
    "test_equal_events_after_the_end_are_refused_too",
    "test_event_larger_than_every_bound_is_still_delivered",
    "test_events_are_replayed_after_a_cursor",
    "test_inbox_has_the_bounds_of_a_stream",
    "test_inbox_is_shared_by_processes_and_is_not_a_stream",
    "test_large_event_takes_the_place_of_many_small_ones",
    "test_saved_session_is_loaded_unchanged",
    "test_second_save_of_one_generation_is_refused",
    "test_several_events_are_stored_in_their_order",
    "test_stream_keeps_its_newest_events_and_rejects_evicted_cursors",
    "test_streams_completed_after_a_stream_are_listed_newest_first",
    "test_unknown_cursors_are_refused",
]


class SessionAndEventStores(Protocol):
    @property
    def sessions(self) -> SessionStore: ...
    @property
    def events(self) -> EventStore: ...


Opener = Callable[[StoreBounds], AbstractAsyncContextManager[SessionAndEventStores]]


class StoreTime(Protocol):
    """Time, as the store sees it.

    Attributes:
        bound: Seconds that a test uses as the limit of an age.
    """

    bound: float

    async def advance(self, seconds: float) -> None: ...


def record(id: str) -> SessionRecord:
    return SessionRecord(id=id, revision="a revision")


async def test_saved_session_is_loaded_unchanged(opener: Opener) -> None:
    whole = SessionRecord(
        id="a",
        revision="a revision",
        principal=Principal(subject="ann", issuer="i", client_id="c", scopes=frozenset({"read", "write"})),
        client_info={"name": "raw", "version": "1"},
        client_capabilities={"elicitation": {"form": {}}},
        initialized=True,
        log_level="error",
        subscriptions=frozenset({"file:///a", "file:///b"}),
        get_stream="s",
    )
    async with opener(StoreBounds()) as stores:
        assert await stores.sessions.save(record("a")) == evolve(record("a"), generation=1)
        assert await stores.sessions.save(evolve(whole, generation=1)) == evolve(whole, generation=2)
        await stores.sessions.save(record("b"))

        assert await stores.sessions.load("a") == evolve(whole, generation=2)
        assert await stores.sessions.load("b") == evolve(record("b"), generation=1)
        assert await stores.sessions.load("c") is None


async def test_second_save_of_one_generation_is_refused(opener: Opener) -> None:
    async with opener(StoreBounds()) as stores:
        first = await stores.sessions.save(record("a"))
        assert first is not None
        second = await stores.sessions.save(evolve(first, log_level="error"))

        assert await stores.sessions.save(evolve(first, initialized=True)) is None
        assert await stores.sessions.save(record("a")) is None
        assert await stores.sessions.load("a") == second
        assert await stores.sessions.delete("a")
        assert second is not None
        assert await stores.sessions.save(second) is None
        assert await stores.sessions.load("a") is None


async def test_inbox_is_shared_by_processes_and_is_not_a_stream(opener: Opener) -> None:
    async with opener(StoreBounds()) as stores:
        store = stores.events
        assert await store.inbox("s", 0) == ([], 0)
        for message in (b"1", b"2"):
            await store.put("s", message)
        await store.put("t", b"other")

        assert await store.inbox("s", 0) == ([b"1", b"2"], 2)
        assert await store.inbox("s", 1) == ([b"2"], 2)
        assert await store.inbox("s", 2) == ([], 2)
        assert await store.after("s", "inbox/0") is None
        await store.drop("s")
        assert await store.inbox("s", 0) == ([], 0)
        assert await store.inbox("t", 0) == ([b"other"], 1)


async def test_inbox_has_the_bounds_of_a_stream(opener: Opener) -> None:
    async with opener(StoreBounds(stream_events=3)) as stores:
        for n in range(5):
            await stores.events.put("s", b"%d" % n)

        assert await stores.events.inbox("s", 0) == ([b"2", b"3", b"4"], 5)
        assert await stores.events.inbox("s", 4) == ([b"4"], 5)


async def test_events_are_replayed_after_a_cursor(opener: Opener) -> None:
    async with opener(StoreBounds()) as stores:
        store = stores.events
        one = await store.append("s", "x", b"1")
        await store.append("s", "y", b"other")
        two = await store.append("s", "x", b"2", last=True)

        assert await store.after("s", one.id) == ("x", [two], True)
        assert await store.after("s", two.id) == ("x", [], True)
        assert await store.read("s", "x", 0) == ([one, two], True)
        assert await store.read("s", "x", 1) == ([two], True)


async def test_several_events_are_stored_in_their_order(opener: Opener) -> None:
    async with opener(StoreBounds(stream_events=4)) as stores:
        store = stores.events
        first = await store.append("s", "x", b"1", b"2", b"3", will=b"gone")

        assert first.id == "x/2"
        assert [(event.id, event.data) for event in (await store.read("s", "x", 0))[0]] == [
            ("x/0", b"1"),
            ("x/1", b"2"),
            ("x/2", b"3"),
        ]
        last = await store.append("s", "x", b"4", b"5", b"6", last=True)
        found = await store.after("s", first.id)
        assert found is not None
        assert ([event.data for event in found[1]], found[1][-1], found[2]) == ([b"4", b"5", b"6"], last, True)
        # The bounds are those of events that came one by one.
        assert await store.after("s", "x/0") is None
        with pytest.raises(ConnectionClosed, match="complete"):
            await store.append("s", "x", b"7", b"8")


async def test_unknown_cursors_are_refused(opener: Opener) -> None:
    hostile = ["", "x", "x/", "x/-1", "x/2", "x/00", "x/0 ", "x/²", "z/0", "/0", "x/" + "9" * 5000, "x/" + "9" * 18]
    async with opener(StoreBounds()) as stores:
        await stores.events.append("s", "x", b"1")
        await stores.events.append("s", "x", b"2")

        assert [await stores.events.after("s", id) for id in hostile] == [None] * len(hostile)
        assert await stores.events.after("t", "x/0") is None


async def test_complete_stream_refuses_events(opener: Opener) -> None:
    async with opener(StoreBounds()) as stores:
        event = await stores.events.append("s", "x", b"1", last=True)
        with pytest.raises(ConnectionClosed, match="complete"):
            await stores.events.append("s", "x", b"2")
        await stores.events.settle("s", "x")

        assert await stores.events.read("s", "x", 0) == ([event], True)


async def test_abandoned_stream_ends_with_its_last_message(opener: Opener) -> None:
    async with opener(StoreBounds()) as stores:
        store = stores.events
        await store.append("s", "x", b"1", will=b"first")
        await store.append("s", "x", b"2", will=b"changed")
        await store.append("s", "x", b"3")
        await store.append("s", "silent", b"1")
        for stream in ("x", "x", "silent", "unknown"):
            await store.settle("s", stream)

        events, complete = await store.read("s", "x", 0)
        assert ([event.data for event in events], complete) == ([b"1", b"2", b"3", b"changed"], True)
        events, complete = await store.read("s", "silent", 0)
        assert ([event.data for event in events], complete) == ([b"1", b""], True)
        assert await store.read("s", "unknown", 0) == ([], False)


async def test_streams_completed_after_a_stream_are_listed_newest_first(opener: Opener) -> None:
    async with opener(StoreBounds()) as stores:
        store = stores.events
        for stream in ("d", "c", "open", "b", "a"):
            await store.append("s", stream, b"1")
        await store.append("t", "z", b"1", last=True)
        for stream in ("a", "b", "c", "d"):
            await store.append("s", stream, b"2", last=True)

        assert await store.completed_after("s", "d") == ["c", "b", "a"]
        assert await store.completed_after("s", "b") == ["a"]
        assert await store.completed_after("s", "unknown") == []


async def test_stream_keeps_its_newest_events_and_rejects_evicted_cursors(opener: Opener) -> None:
    async with opener(StoreBounds(stream_events=3)) as stores:
        store = stores.events
        events = [await store.append("s", "x", b"%d" % n) for n in range(10)]

        assert await store.after("s", events[5].id) is None
        # The cursor's own event is gone, but nothing after it.
        assert await store.after("s", events[6].id) == ("x", events[7:], False)


async def test_complete_streams_pay_first_for_the_bound_of_a_session(opener: Opener) -> None:
    async with opener(StoreBounds(session_bytes=3000)) as stores:
        store = stores.events
        quiet = await store.append("s", "open", b"1" * 800)
        await store.append("s", "done", b"2" * 800, last=True)
        await store.append("s", "open too", b"3" * 800)
        await store.append("s", "open too", b"4" * 800)

        assert await store.read("s", "done", 0) == ([], False)
        assert await store.read("s", "open", 0) == ([quiet], False)


async def test_event_larger_than_every_bound_is_still_delivered(opener: Opener) -> None:
    async with opener(StoreBounds(session_bytes=100, total_bytes=100)) as stores:
        event = await stores.events.append("s", "x", b"1" * 1000)

        assert await stores.events.read("s", "x", 0) == ([event], False)


async def test_dropped_session_is_forgotten(opener: Opener) -> None:
    async with opener(StoreBounds()) as stores:
        event = await stores.events.append("s", "x", b"1")
        other = await stores.events.append("t", "x", b"1")
        await stores.events.drop("s")
        await stores.events.drop("s")

        assert await stores.events.after("s", event.id) is None
        assert await stores.events.read("t", "x", 0) == ([other], False)


async def test_large_event_takes_the_place_of_many_small_ones(opener: Opener, store_time: StoreTime) -> None:
    async with opener(StoreBounds(session_bytes=10_000)) as stores:
        for stream in ("done", "goes on"):
            for n in range(20):
                await stores.events.append("a", stream, b"%d" % n, last=stream == "done" and n == 19)
            await store_time.advance(store_time.bound / 100)
        newest = await stores.events.append("a", "large", b"x" * 8500)

        # A complete stream pays first, and of the other one the oldest events.
        assert await stores.events.read("a", "done", 0) == ([], False)
        left, _ = await stores.events.read("a", "goes on", 0)
        assert [event.data for event in left] == [b"%d" % n for n in range(20 - len(left), 20)]
        assert 0 < len(left) < 20
        assert (await stores.events.read("a", "large", 0))[0] == [newest]


async def test_equal_events_after_the_end_are_refused_too(opener: Opener) -> None:
    """They are not taken for a repetition of those that were stored."""
    async with opener(StoreBounds()) as stores:
        await stores.events.append("s", "x", b"1", b"2", last=True)
        with pytest.raises(ConnectionClosed, match="complete"):
            await stores.events.append("s", "x", b"1", b"2", last=True)
