"""Graceful shutdown: running requests finish in time or are cancelled, and every connection ends."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio
from attrs import define, field

from mcptrio import Context, Server, hookimpl, tool
from mcptrio.serving import Timeouts
from tests.error_codes import INTERNAL_ERROR
from tests.interaction.applies import HANDSHAKE, MODERN, only
from tests.interaction.serving import Serve


@define
class Work:
    """A plugin that records events in order."""

    notes: list[str] = field(factory=list)
    begun: int = 0
    release: trio.Event = field(factory=trio.Event)

    @hookimpl
    def lifespan(self, server: Server) -> AbstractAsyncContextManager[str]:
        return self._live()

    @asynccontextmanager
    async def _live(self) -> AsyncIterator[str]:
        self.notes.append("opened")
        try:
            yield "state"
        finally:
            self.notes.append("closed")

    @tool
    async def work(self, ctx: Context, seconds: float) -> str:
        """Work for a while."""
        assert ctx.state == "state"
        self.begun += 1
        try:
            await trio.sleep(seconds)
        except trio.Cancelled:
            self.notes.append(f"cancelled: {ctx.cancel_reason}")
            raise
        self.notes.append("finished")
        return "finished"

    @tool
    async def hold(self) -> str:
        """Work until let go."""
        self.begun += 1
        await self.release.wait()
        return "finished"


async def test_shutdown_waits_for_requests_that_finish_in_time(serve: Serve) -> None:
    work = Work()
    peer = await serve(plugins=[work], timeouts=Timeouts(shutdown=60))
    call = await peer.start_call("work", {"seconds": 0.1})
    await peer.eventually(lambda: work.begun == 1)

    serve.shutdown.set()

    assert (await call.result())["content"][0]["text"] == "finished"
    with peer.deadline():
        await serve.closed.wait()
    assert work.notes == ["opened", "finished", "closed"]


async def test_shutdown_cancels_requests_after_the_timeout(serve: Serve) -> None:
    work = Work()
    peer = await serve(plugins=[work], timeouts=Timeouts(shutdown=0.1))
    call = await peer.start_call("work", {"seconds": 60})
    await peer.eventually(lambda: work.begun == 1)
    start = trio.current_time()

    serve.shutdown.set()
    with peer.deadline():
        await serve.closed.wait()

    assert 0.1 <= trio.current_time() - start < 30
    assert work.notes == ["opened", "cancelled: the server is stopping", "closed"]
    assert call.answer is None or "error" in call.answer


async def test_new_requests_are_refused_during_the_shutdown(serve: Serve) -> None:
    work = Work()
    peer = await serve(plugins=[work], timeouts=Timeouts(shutdown=60))
    call = await peer.start_call("hold")
    await peer.eventually(lambda: work.begun == 1)

    serve.shutdown.set()
    await peer.eventually(lambda: serve.server.supervisor.draining)
    if serve.transport not in ("http", "sse"):
        # HTTP refuses new connections; an open channel is still answered.
        error = await peer.error("tools/list")
        assert error["code"] == INTERNAL_ERROR
        assert "stopping" in error["message"]
    work.release.set()

    assert (await call.result())["content"][0]["text"] == "finished"
    assert work.begun == 1


@only(transports=["memory"], because="over HTTP the connections end one by one, and the test owns the pipes")
async def test_shutdown_ends_the_channel(serve: Serve) -> None:
    peer = await serve(plugins=[Work()])

    serve.shutdown.set()

    with peer.deadline():
        await serve.closed.wait()
        await peer.ended.wait()


@only(revisions=HANDSHAKE[1:], transports=["http"], because="only sessions over HTTP have their own stream")
async def test_shutdown_ends_the_session_stream(serve: Serve) -> None:
    peer = await serve(plugins=[Work()])
    stream = await peer.get()

    serve.shutdown.set()
    with peer.deadline():
        await serve.closed.wait()
        await stream.ended.wait()


@only(
    revisions=MODERN,
    transports=["memory"],
    because="the behaviour depends neither on the revision nor on the transport",
)
async def test_lifespans_exit_in_reverse_order(serve: Serve) -> None:
    notes: list[str] = []

    class First:
        name = "first"

        @hookimpl
        def lifespan(self, server: Server) -> AbstractAsyncContextManager[None]:
            return _noted(type(self).__name__, notes)

    class Second(First):
        pass

    await serve(plugins=[First(), Second()])
    serve.shutdown.set()
    await serve.closed.wait()

    assert notes == ["+First", "+Second", "-Second", "-First"]


@asynccontextmanager
async def _noted(name: str, notes: list[str]) -> AsyncIterator[None]:
    notes.append(f"+{name}")
    try:
        yield
    finally:
        notes.append(f"-{name}")
