"""Cancelled requests: a notification or a closed stream cancels, and no other event does."""

from __future__ import annotations

from functools import partial

import trio
from attrs import define, field

from mcptrio import Context, tool
from mcptrio.serving import Timeouts
from tests.interaction.applies import HANDSHAKE, MODERN, only
from tests.interaction.client import INFO
from tests.interaction.serving import Serve


@define
class Watch:
    """A plugin that records how its calls end."""

    begun: int = 0
    ended: list[str] = field(factory=list)
    reasons: list[str | None] = field(factory=list)
    release: trio.Event = field(factory=trio.Event)

    @tool
    async def wait(self, ctx: Context) -> str:
        """Wait, holding a context."""
        self.begun += 1
        try:
            await self.release.wait()
        except trio.Cancelled:
            self.reasons.append(ctx.cancel_reason)
            self.ended.append("cancelled")
            raise
        self.ended.append("finished")
        return "waited"

    @tool
    async def wait_plainly(self) -> str:
        """Wait, without a context."""
        self.begun += 1
        try:
            await self.release.wait()
        except trio.Cancelled:
            self.ended.append("cancelled")
            raise
        self.ended.append("finished")
        return "waited"

    @tool
    async def last_words(self, ctx: Context) -> str:
        """Try to say something when it is over."""
        self.begun += 1
        try:
            await self.release.wait()
        finally:
            with trio.CancelScope(shield=True):
                await ctx.info("too late")
                await ctx.report_progress(99)
            self.ended.append("cancelled")
        return ""

    @tool
    async def stubborn(self, ctx: Context) -> str:
        """Take a while to let go."""
        self.begun += 1
        try:
            await self.release.wait()
        finally:
            with trio.move_on_after(0.05, shield=True):
                await trio.sleep(10)
            self.ended.append("let go")
        return ""

    @tool
    async def shielded(self, ctx: Context) -> str:
        """Finish whatever happens."""
        self.begun += 1
        with trio.CancelScope(shield=True):
            await self.release.wait()
        self.ended.append("finished")
        return "finished all the same"

    @tool
    async def shielded_plainly(self) -> str:
        """Finish whatever happens, without a context."""
        self.begun += 1
        with trio.CancelScope(shield=True):
            await self.release.wait()
        self.ended.append("finished")
        return "finished all the same"

    @tool
    async def quick(self) -> str:
        """Answer."""
        return "quick"


TOOLS = ("wait", "wait_plainly")


def _begun(watch: Watch, count: int) -> bool:
    return watch.begun == count


def _ended(watch: Watch, count: int) -> bool:
    return len(watch.ended) == count


async def test_cancelled_request_stops_and_is_not_answered(serve: Serve) -> None:
    watch = Watch()
    peer = await serve(plugins=[watch])

    for number, name in enumerate(TOOLS, 1):
        call = await peer.start_call(name)
        await peer.eventually(partial(_begun, watch, number))
        await call.cancel("changed my mind")
        await peer.eventually(partial(_ended, watch, number))
        await peer.text("quick")

        assert watch.ended[-1] == "cancelled"
        assert call.answer is None
    assert serve.server.status.in_flight == 0


async def test_handler_can_read_the_cancellation_reason(serve: Serve) -> None:
    watch = Watch()
    peer = await serve(plugins=[watch])
    call = await peer.start_call("wait")
    await peer.eventually(lambda: watch.begun == 1)

    await call.cancel("changed my mind")
    await peer.eventually(lambda: bool(watch.ended))

    (reason,) = watch.reasons
    assert reason
    if peer.handshake or not peer.http:
        assert reason == "changed my mind"


async def test_cancellation_without_a_reason_has_a_default_one(serve: Serve) -> None:
    watch = Watch()
    peer = await serve(plugins=[watch])
    call = await peer.start_call("wait")
    await peer.eventually(lambda: watch.begun == 1)

    await call.cancel()
    await peer.eventually(lambda: bool(watch.ended))

    assert watch.reasons != [None]


async def test_nothing_is_sent_after_a_cancellation(serve: Serve) -> None:
    watch = Watch()
    peer = await serve(plugins=[watch])
    await peer.set_log_level("debug")
    call = await peer.start_call("last_words", meta={"progressToken": 1})
    await peer.eventually(lambda: watch.begun == 1)

    await call.cancel()
    await peer.eventually(lambda: bool(watch.ended))
    await peer.text("quick")

    assert peer.notes("notifications/message") == []
    assert peer.notes("notifications/progress") == []


async def test_result_of_a_shielded_handler_after_cancellation_is_dropped(serve: Serve) -> None:
    for name in ("shielded", "shielded_plainly"):
        watch = Watch()
        peer = await serve(plugins=[watch])
        call = await peer.start_call(name)
        await peer.eventually(partial(_begun, watch, 1))

        await call.cancel()
        await peer.text("quick")
        watch.release.set()
        await peer.eventually(partial(_ended, watch, 1))
        await peer.text("quick")

        assert call.answer is None


async def test_handler_that_ends_slowly_does_not_delay_others(serve: Serve) -> None:
    watch = Watch()
    peer = await serve(plugins=[watch])
    call = await peer.start_call("stubborn")
    await peer.eventually(lambda: watch.begun == 1)

    await call.cancel()

    assert await peer.text("quick") == "quick"
    await peer.eventually(lambda: bool(watch.ended))
    assert call.answer is None


async def test_cancellation_of_an_unknown_request_is_ignored(serve: Serve) -> None:
    watch = Watch()
    peer = await serve(plugins=[watch])

    for params in (
        {"requestId": 999},
        {"requestId": "x"},
        {},
        {"requestId": None},
        {"requestId": [1]},
        {"requestId": True},
    ):
        await peer.notify("notifications/cancelled", params)

    assert await peer.text("quick") == "quick"


async def test_cancellation_after_the_answer_is_ignored(serve: Serve) -> None:
    watch = Watch()
    peer = await serve(plugins=[watch])
    call = await peer.start_call("quick")
    await call.result()

    await peer.notify("notifications/cancelled", {"requestId": call.id})

    assert await peer.text("quick") == "quick"


@only(transports=["memory", "stdio"], because="over HTTP the ids of 2026-07-28 are not shared")
async def test_numeric_id_does_not_cancel_the_same_id_as_a_string(serve: Serve) -> None:
    watch = Watch()
    peer = await serve(plugins=[watch])
    call = await peer.start_call("wait", id="1")
    await peer.eventually(lambda: watch.begun == 1)

    await peer.notify("notifications/cancelled", {"requestId": 1})
    await peer.text("quick")
    watch.release.set()

    assert (await call.result())["content"][0]["text"] == "waited"


@only(
    revisions=HANDSHAKE, transports=["memory", "stdio"], because="over HTTP, a client has no session before the answer"
)
async def test_initialize_cannot_be_cancelled(serve: Serve) -> None:
    await serve.start(plugins=[Watch()])
    peer = await serve.connect(begin=False)

    params = {"protocolVersion": peer.revision, "capabilities": {}, "clientInfo": INFO}
    call = await peer.start("initialize", params)
    await peer.notify("notifications/cancelled", {"requestId": call.id})

    assert (await call.result())["protocolVersion"] == serve.revision


@only(revisions=MODERN, transports=["http"], because="only there a closed stream is a cancellation")
async def test_closed_stream_cancels_a_request_without_a_session(serve: Serve) -> None:
    for token in ({}, {"progressToken": 1}):
        watch = Watch()
        peer = await serve(plugins=[watch])
        for number, name in enumerate(TOOLS, 1):
            call = await peer.start_call(name, meta=token)
            await peer.eventually(partial(_begun, watch, number))

            await call.disconnect()
            await peer.eventually(partial(_ended, watch, number))

            assert watch.ended[-1] == "cancelled"


@only(revisions=HANDSHAKE, transports=["http"], because="only HTTP has a stream to close")
async def test_closed_stream_does_not_cancel_a_request_of_a_session(serve: Serve) -> None:
    watch = Watch()
    peer = await serve(plugins=[watch])

    for number, name in enumerate(TOOLS, 1):
        call = await peer.start_call(name)
        await peer.eventually(partial(_begun, watch, number))
        await call.disconnect()
        await peer.text("quick")

    assert watch.ended == []
    assert serve.server.status.in_flight == 2
    watch.release.set()
    await peer.eventually(lambda: watch.ended == ["finished", "finished"])


@only(revisions=MODERN, transports=["http"], because="elsewhere ids are shared, and a notification cancels by id")
async def test_cancellation_without_a_session_does_not_reach_other_posts(serve: Serve) -> None:
    watch = Watch()
    peer = await serve(plugins=[watch])
    call = await peer.start_call("wait")
    await peer.eventually(lambda: watch.begun == 1)

    await peer.notify("notifications/cancelled", {"requestId": call.id})
    await peer.text("quick")
    watch.release.set()

    assert (await call.result())["content"][0]["text"] == "waited"


@only(revisions=HANDSHAKE, transports=["http"], because="only sessions over HTTP can be deleted")
async def test_deleting_a_session_cancels_its_requests(serve: Serve) -> None:
    watch = Watch()
    peer = await serve(plugins=[watch])
    await peer.start_call("wait")
    await peer.eventually(lambda: watch.begun == 1)

    await peer.delete()

    await peer.eventually(lambda: watch.ended == ["cancelled"])
    assert watch.reasons != [None]


@only(transports=["memory", "stdio"], because="an HTTP client has no channel to close")
async def test_handlers_may_continue_briefly_after_a_disconnect(serve: Serve) -> None:
    watch = Watch()
    peer = await serve(plugins=[watch], timeouts=Timeouts(shutdown=0.1))
    await peer.start_call("wait")
    await peer.eventually(lambda: watch.begun == 1)

    await peer.leave()
    await peer.eventually(lambda: bool(watch.ended))

    assert watch.ended == ["cancelled"]


async def test_cancellations_that_race_with_answers_leave_each_request_ended(serve: Serve) -> None:
    watch = Watch()
    peer = await serve(plugins=[watch])

    calls = [await peer.start_call("quick") for _ in range(10)]
    for call in calls:
        await call.cancel()

    assert await peer.text("quick") == "quick"
    await peer.eventually(lambda: serve.server.status.in_flight == 0)
