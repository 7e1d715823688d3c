"""The memory stores: bounds, expiry, cursors that stay good."""

from __future__ import annotations

import pytest
import trio
import trio.testing
from hypothesis import given, settings
from hypothesis import strategies as st

from mcptrio.abc import SessionRecord
from mcptrio.errors import Overloaded
from mcptrio.stores.memory import MemoryBus, MemoryEventStore, MemorySessionStore


def record(id: str) -> SessionRecord:
    return SessionRecord(id=id, revision="a revision")


async def test_session_expires_by_idle_time(autojump_clock: trio.testing.MockClock) -> None:
    """Loading counts as use."""
    store = MemorySessionStore(idle=10)
    await store.save(record("used"))
    await store.save(record("idle"))
    await trio.sleep(6)
    assert await store.load("used") == record("used")
    await trio.sleep(6)

    assert await store.load("idle") is None
    assert await store.expire() == ["idle"]
    assert await store.load("used") == record("used")
    assert await store.delete("used")
    assert not await store.delete("used")


async def test_full_session_store_refuses_new_sessions_but_keeps_the_old(
    autojump_clock: trio.testing.MockClock,
) -> None:
    store = MemorySessionStore(idle=10, most=2)
    await store.save(record("a"))
    await store.save(record("b"))

    with pytest.raises(Overloaded):
        await store.save(record("c"))
    await store.save(record("a"))
    await trio.sleep(11)
    await store.save(record("c"))
    assert await store.load("c") is not None


async def test_events_are_replayed_after_a_cursor() -> None:
    store = MemoryEventStore()
    one = await store.append("s", "x", b"1")
    await store.append("s", "y", b"other")
    two = await store.append("s", "x", b"2", last=True)

    assert await store.after("s", one.id) == ("x", [two], True)
    assert await store.after("s", two.id) == ("x", [], True)
    assert await store.read("s", "x", 0) == ([one, two], True)
    assert await store.read("s", "x", 1) == ([two], True)


@pytest.mark.parametrize("id", ["", "x", "x/", "x/-1", "x/2", "x/00", "x/0 ", "x/²", "z/0", "/0", "x/" + "9" * 5000])
async def test_unknown_cursor_is_refused(id: str) -> None:
    store = MemoryEventStore()
    await store.append("s", "x", b"1")
    await store.append("s", "x", b"2")

    assert await store.after("s", id) is None
    assert await store.after("t", "x/0") is None


async def test_stream_keeps_its_newest_events_and_knows_what_it_dropped() -> None:
    store = MemoryEventStore(stream_events=3)
    events = [await store.append("s", "x", b"%d" % n) for n in range(10)]

    assert await store.after("s", events[5].id) is None
    # The cursor's own event is gone, but nothing after it.
    assert await store.after("s", events[6].id) == ("x", events[7:], False)


async def test_total_bound_is_paid_by_the_session_that_was_quiet_longest() -> None:
    store = MemoryEventStore(total_bytes=3000)
    quiet = await store.append("quiet", "x", b"1" * 1000)
    await store.append("quiet", "x", b"2" * 1000)
    busy = await store.append("busy", "x", b"3" * 1000)
    later = await store.append("busy", "x", b"4" * 1000)

    assert await store.after("busy", busy.id) == ("x", [later], False)
    assert (await store.read("quiet", "x", 0))[0] == []
    assert quiet.id == "x/0"


async def test_old_events_are_dropped_but_a_quiet_cursor_stays_good(autojump_clock: trio.testing.MockClock) -> None:
    store = MemoryEventStore(age=10)
    first = await store.append("s", "x", b"1")
    await store.append("s", "done", b"1", last=True)
    await trio.sleep(11)
    await store.append("s", "y", b"1")

    assert await store.read("s", "done", 0) == ([], False)
    assert await store.read("s", "x", 0) == ([], False)
    assert await store.after("s", first.id) == ("x", [], False)


async def test_event_larger_than_every_bound_is_still_delivered() -> None:
    store = MemoryEventStore(session_bytes=100, total_bytes=100)
    event = await store.append("s", "x", b"1" * 1000)

    assert await store.read("s", "x", 0) == ([event], False)


async def test_dropped_session_is_forgotten() -> None:
    store = MemoryEventStore()
    event = await store.append("s", "x", b"1")
    await store.drop("s")
    await store.drop("s")

    assert await store.after("s", event.id) is None
    assert store._size == 0


@settings(max_examples=60, deadline=None)
@given(
    st.lists(st.tuples(st.sampled_from("st"), st.sampled_from("xyz"), st.integers(0, 400), st.booleans()), max_size=80)
)
def test_event_store_accounts_for_every_byte(appends: list[tuple[str, str, int, bool]]) -> None:
    """Whatever is appended, the bounds hold, the sums are right, and a cursor gives exactly what came after it."""

    async def main() -> None:
        store = MemoryEventStore(stream_events=5, session_bytes=2000, total_bytes=3000, age=1e9)
        for session, stream, size, last in appends:
            event = await store.append(session, stream, b"." * size, last=last)
            found = await store.after(session, event.id)
            assert found is not None
            assert found[:2] == (stream, [])
            kept = list(store._sessions.values())
            assert store._size == sum(s.size for s in kept)
            for s in kept:
                assert s.size == sum(len(e.data) + 160 for line in s.streams.values() for e in line.events)
                assert s.size <= 2000
                assert all(len(line.events) <= 5 for line in s.streams.values())
            assert store._size <= 3000

    trio.run(main)


async def test_bus_reaches_every_reader_of_a_topic_from_now_on() -> None:
    bus = MemoryBus()
    await bus.publish("t", b"before")
    async with bus.subscribe("t") as one, bus.subscribe("t") as two, bus.subscribe("u") as other:
        await bus.publish("t", b"now")
        assert await anext(one) == b"now"
        assert await anext(two) == b"now"
        with trio.move_on_after(0.01) as scope:
            await anext(other)

    assert scope.cancelled_caught
    assert bus._topics == {}


async def test_slow_reader_of_the_bus_loses_the_oldest() -> None:
    bus = MemoryBus(queue=2)
    async with bus.subscribe("t") as reader:
        for n in range(5):
            await bus.publish("t", b"%d" % n)

        assert [await anext(reader), await anext(reader)] == [b"3", b"4"]
