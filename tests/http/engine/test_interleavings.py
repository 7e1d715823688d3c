"""Orders of bytes, application events, pauses and disconnects: each request is answered, or its connection closes."""

from __future__ import annotations

from collections.abc import MutableMapping
from functools import partial
from typing import Any

import trio
import trio.testing
from attrs import define, field
from hypothesis import given, settings
from hypothesis import strategies as st

from mcptrio.http.engine.limits import ConnectionLimits
from mcptrio.http.engine.server import serve_asgi
from tests.hostile.answers import Answers, NotHTTP
from tests.http.engine.served import Receive, Send

__all__: list[str] = []

REQUESTS = {
    "get": b"GET / HTTP/1.1\r\nhost: a\r\n\r\n",
    "sized": b"POST / HTTP/1.1\r\nhost: a\r\ncontent-length: 5\r\n\r\nabcde",
    "chunked": b"POST / HTTP/1.1\r\nhost: a\r\ntransfer-encoding: chunked\r\n\r\n3\r\nabc\r\n0\r\n\r\n",
    "expecting": b"POST / HTTP/1.1\r\nhost: a\r\nexpect: 100-continue\r\ncontent-length: 3\r\n\r\nabc",
    "closing": b"GET / HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n",
    "old": b"GET / HTTP/1.0\r\n\r\n",
    "invalid": b"GET / HTTP/1.1\r\nhost: a\r\nhost: b\r\n\r\n",
}

ACTS = ("receive", "start", "start sized", "more", "last", "fail", "return")
"""The next actions of the application."""

Step = int | str
"""A number of bytes to send, or another event."""

STEPS = st.lists(
    st.one_of(st.integers(1, 90), st.sampled_from(ACTS), st.sampled_from(("pause", "half-close", "settle"))),
    max_size=25,
)


@define
class Call:
    """One run of the application, which takes its actions from the test."""

    acts: trio.MemorySendChannel[str]
    status: int = 0
    is_complete: bool = False
    has_ended: bool = False


@define
class App:
    calls: list[Call] = field(factory=list)

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan":
            return
        tells, notified = trio.open_memory_channel[str](1000)
        call = Call(tells)
        self.calls.append(call)
        try:
            async for act in notified:
                if act == "return":
                    return
                await self._act(act, call, receive, send)
        finally:
            call.has_ended = True

    async def _act(self, act: str, call: Call, receive: Receive, send: Send) -> None:
        if act == "receive":
            with trio.move_on_after(1):
                await receive()
        elif act == "fail":
            raise ValueError("the application fails")
        elif act.startswith("start"):
            headers = [(b"content-length", b"3")] if act == "start sized" else []
            await send({"type": "http.response.start", "status": 200, "headers": headers})
            call.status = 200
        else:
            body = b"abc" if act == "last" else b""
            await send({"type": "http.response.body", "body": body, "more_body": act == "more"})
            call.is_complete = act == "last"


@define
class Play:
    app: App
    client: trio.SocketStream
    clock: trio.testing.MockClock
    unsent: bytes
    answers: Answers = field(factory=Answers)
    is_closed: bool = False
    broke_off: str = ""

    async def step(self, step: Step) -> None:
        if isinstance(step, int):
            data, self.unsent = self.unsent[:step], self.unsent[step:]
            try:
                await self.client.send_all(data)
            except (trio.BrokenResourceError, trio.ClosedResourceError):
                pass  # the server, or this client, has closed that direction
        elif step == "pause":
            await self.pause(50)
        elif step == "half-close":
            await self.half_close()
        elif step == "settle":
            await settle()
        else:
            running = [call for call in self.app.calls if not call.has_ended]
            if running:
                try:
                    running[0].acts.send_nowait(step)
                except trio.BrokenResourceError:
                    pass

    async def half_close(self) -> None:
        self.unsent = b""
        try:
            await self.client.send_eof()
        except (trio.BrokenResourceError, OSError):
            pass

    async def pause(self, seconds: int) -> None:
        """Let time pass in steps of a second, because the server checks its deadlines each second."""
        await settle()
        for _ in range(seconds):
            self.clock.jump(1)
            await trio.testing.wait_all_tasks_blocked()

    async def read(self) -> None:
        try:
            while data := await self.client.receive_some():
                self.answers.feed(data)
            self.answers.end()
        except NotHTTP as error:
            self.broke_off = str(error)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # reset: unread data is lost
        self.is_closed = True


async def settle() -> None:
    """Wait until both sides have processed what the other has sent."""
    await trio.testing.wait_all_tasks_blocked(0.002)


LIMITS = ConnectionLimits(header_timeout=8, body_timeout=8, keepalive_timeout=20, write_timeout=8)


async def play(clock: trio.testing.MockClock, requests: list[str], steps: list[Step]) -> None:
    app, shutdown = App(), trio.Event()
    async with trio.open_nursery() as nursery:
        start = partial(serve_asgi, app, bind="127.0.0.1:0", limits=LIMITS, shutdown=shutdown)
        (url,) = await nursery.start(start)
        client = await trio.open_tcp_stream("127.0.0.1", int(url.rpartition(":")[2]))
        here = Play(app, client, clock, b"".join([REQUESTS[each] for each in requests]))
        async with client:
            nursery.start_soon(here.read)
            for step in steps:
                await here.step(step)
            await settle()
            for act in ("last", "return"):
                # End everything that still runs, and the requests that wait behind it.
                for _ in requests:
                    await here.pause(2)  # the application may be waiting for the client
                    await here.step(act)
                    await settle()
            open_before = not here.is_closed
            answered = len(here.answers.complete)
            # Nothing more is sent, so every connection must be closed.
            await here.pause(60)
            assert here.is_closed, "the connection is open, and nothing ends it"
        shutdown.set()
    check(here, requests, answered if open_before else None)


def check(here: Play, requests: list[str], answered: int | None) -> None:
    calls, found = here.app.calls, here.answers.complete
    assert all(call.has_ended for call in calls)
    assert len(found) <= len(requests)
    assert len(calls) <= len(requests)
    if here.broke_off:
        assert any(call.status and not call.is_complete for call in calls), here.broke_off
    for answer in found[:-1]:
        assert answer.headers.get("connection") != "close", "an answer after the last one"
    for call, answer in zip(calls, found, strict=False):
        if call.is_complete:
            assert answer.status == 200
    if answered is not None and not here.unsent:
        assert answered == len(requests), "a request is not answered, and the connection is open"


@settings(deadline=None, max_examples=50)
@given(st.lists(st.sampled_from(sorted(REQUESTS)), min_size=1, max_size=4), STEPS)
def test_each_request_is_answered_once_or_the_connection_is_closed(requests: list[str], steps: list[Step]) -> None:
    clock = trio.testing.MockClock()
    trio.run(play, clock, requests, steps, clock=clock)
