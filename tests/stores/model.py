"""A model of an event store in a few lines, and a comparison of any store with it.

Hypothesis generates sequences of operations; the store and the model must return the same. The tests of each engine
call :func:`play` with its stores.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import AbstractAsyncContextManager
from typing import Any, TypeAlias

from attrs import define, field
from hypothesis import strategies as st

from mcptrio.abc import EventStore
from mcptrio.errors import ConnectionClosed
from mcptrio.stores import StoreBounds

from .contract import SessionAndEventStores

__all__ = ["BOUNDS", "STEPS", "Model", "Step", "play"]

BOUNDS = StoreBounds(stream_events=4, session_bytes=1500, total_bytes=2500, event_timeout=1e12)
COST = 160
SESSIONS, STREAMS = "st", "xyz"

Step: TypeAlias = tuple[Any, ...]

STEPS = st.lists(
    st.one_of(
        st.tuples(
            st.just("append"),
            st.sampled_from(SESSIONS),
            st.sampled_from(STREAMS),
            st.lists(st.integers(0, 500), min_size=1, max_size=6),
            st.sampled_from([False, False, False, True]),
            st.sampled_from([None, None, b"will", b"another"]),
        ),
        st.tuples(st.just("settle"), st.sampled_from(SESSIONS), st.sampled_from(STREAMS)),
        st.tuples(st.just("drop"), st.sampled_from(SESSIONS)),
        st.tuples(st.just("reopen")),
    ),
    max_size=50,
)


@define(eq=False)
class Stream:
    session: str
    name: str
    number: int
    touched: int = 0
    next: int = 0
    events: list[tuple[int, bytes]] = field(factory=list)
    complete: bool = False
    will: bytes = b""

    @property
    def first(self) -> int:
        return self.events[0][0] if self.events else self.next


@define(eq=False)
class Model:
    """All streams in one list, and every sum added up each time."""

    bounds: StoreBounds = BOUNDS
    streams: list[Stream] = field(factory=list)
    now: int = 0
    began: int = 0

    def find(self, session: str, name: str) -> Stream | None:
        return next((each for each in self.streams if (each.session, each.name) == (session, name)), None)

    def of(self, session: str) -> list[Stream]:
        return [stream for stream in self.streams if stream.session == session]

    def size(self, streams: list[Stream]) -> int:
        return sum(len(data) + COST for stream in streams for _, data in stream.events)

    def append(self, session: str, name: str, data: list[bytes], last: bool, will: bytes | None) -> str | None:
        """The id of the last event; ``None`` for a stream that is complete."""
        stream = self.find(session, name)
        if stream is None:
            self.began += 1
            stream = Stream(session, name, self.began)
            self.streams.append(stream)
        if stream.complete:
            return None
        stream.events += enumerate(data, stream.next)
        newest = stream.events[-1]
        stream.next += len(data)
        stream.touched = self.now
        stream.complete = last
        stream.will = stream.will if will is None else will
        del stream.events[: -self.bounds.stream_events]
        while self.size(self.of(session)) > self.bounds.session_bytes and self.pay(session, newest):
            pass
        while self.size(self.streams) > self.bounds.total_bytes:
            others = {each.session for each in self.streams if each.events} - {session}
            quiet = min(others, key=lambda one: (max(each.touched for each in self.of(one)), one), default=session)
            if not self.pay(quiet, newest):
                break
        return f"{name}/{newest[0]}"

    def pay(self, session: str, newest: tuple[int, bytes]) -> bool:
        victims = [each for each in self.of(session) if each.events and each.events[0] is not newest]
        victim = min(victims, key=lambda each: (not each.complete, each.touched, each.number), default=None)
        if victim is None:
            return False
        del victim.events[0]
        if victim.complete and not victim.events:
            self.streams.remove(victim)
        return True

    def settle(self, session: str, name: str) -> None:
        stream = self.find(session, name)
        if stream is not None and not stream.complete:
            self.append(session, name, [stream.will], True, None)

    def drop(self, session: str) -> None:
        self.streams = [stream for stream in self.streams if stream.session != session]

    def reopen(self) -> None:
        for stream in [each for each in self.streams if not each.complete]:
            self.settle(stream.session, stream.name)


async def compare(model: Model, store: EventStore) -> None:
    """Compare the contents of the store and the results of every cursor."""
    for session in SESSIONS:
        for name in STREAMS:
            stream = model.find(session, name)
            events, complete = await store.read(session, name, 0)
            found = [(event.id, event.data) for event in events]
            if stream is None:
                assert (found, complete) == ([], False)
                continue
            expected = [(f"{name}/{position}", data) for position, data in stream.events]
            assert (found, complete) == (expected, stream.complete)
            for position in range(max(0, stream.first - 2), stream.next + 1):
                later = await store.after(session, f"{name}/{position}")
                if stream.first - 1 <= position < stream.next:
                    rest = [event for event in expected if int(event[0].split("/")[1]) > position]
                    assert later is not None
                    assert [(event.id, event.data) for event in later[1]] == rest
                else:
                    assert later is None
            followers = [each.name for each in model.of(session) if each.complete and each.number > stream.number]
            assert await store.completed_after(session, name) == followers


async def do(step: Step, model: Model, store: EventStore) -> None:
    match step:
        case ("append", session, name, sizes, last, will):
            data = [b"%d" % model.now + b"." * size for size in sizes]
            expected = model.append(session, name, data, last, will)
            try:
                got: str | None = (await store.append(session, name, *data, last=last, will=will)).id
            except ConnectionClosed:
                got = None
            assert got == expected
        case ("settle", session, name):
            model.settle(session, name)
            await store.settle(session, name)
        case ("drop", session):
            model.drop(session)
            await store.drop(session)


async def play(
    steps: list[Step],
    model: Model,
    open_stores: Callable[[], AbstractAsyncContextManager[SessionAndEventStores]],
    *,
    can_reopen: bool,
) -> None:
    """Do the steps with the stores and with the model, and compare them at the beginning, the end and after reopening.

    Args:
        can_reopen: Whether opening the stores again finds what they had.
    """
    remaining = list(steps)
    while True:
        async with open_stores() as kept:
            await compare(model, kept.events)
            while remaining:
                step = remaining.pop(0)
                model.now += 1
                if step == ("reopen",) and can_reopen:
                    break
                await do(step, model, kept.events)
            else:
                await compare(model, kept.events)
                return
        model.reopen()
