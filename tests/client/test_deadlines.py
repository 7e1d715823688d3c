"""Deadlines of requests in flight, what extends them, and pings to a silent server."""

from __future__ import annotations

from collections.abc import Sequence
from math import inf
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mcptrio import ConnectionClosed, RequestTimeout, Server, connect
from mcptrio.client import ClientTimeouts, Form, Handlers, Progress
from mcptrio.errors import Code
from mcptrio.protocol.messages import Incoming, Message, Request, Response
from mcptrio.serving import (
    memory_channel_pair,
)
from mcptrio.transports.memory import MemoryChannel
from tests.client.scripted import FORM, play, text
from tests.client.slow_plugin import Slow, answer_with, never_called, text_of
from tests.interaction.applies import HANDSHAKE, REVISIONS

__all__: list[str] = []

OLD, NEW = HANDSHAKE[-1], REVISIONS[-1]


@pytest.mark.parametrize("revision", REVISIONS)
async def test_timed_out_call_notifies_the_server(revision: str, autojump_clock: object) -> None:
    async with play(revision, timeouts=ClientTimeouts(idle=30)) as (client, script):
        began = trio.current_time()
        with pytest.raises(RequestTimeout, match=r"tools/call: no answer from memory within 30 s") as caught:
            await client.call_tool("work")

        assert trio.current_time() - began == pytest.approx(30)
        assert caught.value.seconds == pytest.approx(30)
        request = await script.next_request("tools/call")
        cancelled = await script.next_notification("notifications/cancelled")
        assert cancelled.params is not None
        assert cancelled.params["requestId"] == request.id


class Valve:
    """A channel to a server that accepts a message only when the test permits it."""

    name = "valve"

    def __init__(self, inner: MemoryChannel) -> None:
        self._inner = inner
        self.is_shut = False
        self.passes = trio.Semaphore(0)

    async def receive(self) -> list[Incoming]:
        return await self._inner.receive()

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        if self.is_shut:
            await self.passes.acquire()
        await self._inner.send(messages)

    async def aclose(self) -> None:
        await self._inner.aclose()


async def test_calls_that_wait_for_buffer_space_time_out(autojump_clock: object) -> None:
    late: list[RequestTimeout] = []
    server = Server(plugins=[Slow()])
    async with server.open() as running, trio.open_nursery() as nursery:
        ours, theirs = memory_channel_pair()
        nursery.start_soon(running.serve, theirs)
        valve = Valve(ours)
        async with connect(valve, revision=OLD, ping_interval=0) as client, trio.open_nursery() as calls:

            async def call() -> None:
                with pytest.raises(RequestTimeout) as raised:
                    await client.call_tool("wait", timeout=5)
                late.append(raised.value)

            valve.is_shut = True
            # One is being written, a thousand are queued, and the others wait for space.
            for count in (1, 1000, 1100):
                for _ in range(count):
                    calls.start_soon(call)
                await wait_all_tasks_blocked()
            valve.passes.release()
            await wait_all_tasks_blocked()
            with trio.fail_after(10):
                while len(late) < 2101:  # noqa: ASYNC110 - each call adds one
                    await trio.sleep(1)
            valve.is_shut = False
            for _ in range(3):
                valve.passes.release()
        nursery.cancel_scope.cancel()


async def test_response_after_the_timeout_is_ignored(autojump_clock: object) -> None:
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:
        with pytest.raises(RequestTimeout):
            await client.call_tool("work", timeout=1)
        late = await script.next_request("tools/call")
        await script.next_notification("notifications/cancelled")
        await script.answer(late, text("too late"))

        nursery.start_soon(answer_with, script.next_request, script.answer, "in time")
        assert text_of(await client.call_tool("work")) == "in time"


async def test_call_timeout_overrides_the_client_timeout(autojump_clock: object) -> None:
    async with play(OLD, timeouts=ClientTimeouts(idle=30)) as (client, script), trio.open_nursery() as nursery:
        began = trio.current_time()
        with pytest.raises(RequestTimeout):
            await client.call_tool("work", timeout=5)
        assert trio.current_time() - began == pytest.approx(5)
        await script.next_request("tools/call")
        await script.next_notification("notifications/cancelled")

        async def answer_after_a_week() -> None:
            request = await script.next_request("tools/call")
            await trio.sleep(7 * 24 * 3600)
            await script.answer(request, text("at last"))

        nursery.start_soon(answer_after_a_week)
        assert text_of(await client.call_tool("work", timeout=inf)) == "at last"


@pytest.mark.parametrize("revision", REVISIONS)
async def test_progress_restarts_the_idle_timeout(revision: str, autojump_clock: object) -> None:
    """This holds also without a progress callback."""
    async with (
        play(revision, timeouts=ClientTimeouts(idle=30)) as (client, script),
        trio.open_nursery() as nursery,
    ):

        async def work() -> None:
            request = await script.next_request("tools/call")
            for step in range(1, 6):
                await trio.sleep(29)
                await script.progress(request, step)
            await trio.sleep(29)
            await script.answer(request, text("done"))

        nursery.start_soon(work)
        assert text_of(await client.call_tool("work")) == "done"


async def test_progress_does_not_extend_the_request_timeout(autojump_clock: object) -> None:
    timeouts = ClientTimeouts(idle=30, request=100)
    async with play(OLD, timeouts=timeouts) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            request = await script.next_request("tools/call")
            for step in range(20):
                await script.progress(request, step)
                await trio.sleep(20)

        nursery.start_soon(work)
        began = trio.current_time()
        with pytest.raises(RequestTimeout, match="within 100 s"):
            await client.call_tool("work")
        assert trio.current_time() - began == pytest.approx(100)
        nursery.cancel_scope.cancel()


async def test_progress_of_another_request_does_not_restart_the_idle_timeout(autojump_clock: object) -> None:
    async with play(OLD, timeouts=ClientTimeouts(idle=30)) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            request = await script.next_request("tools/call")
            for step in range(20):
                for token in (request.id + 1000, str(request.id), "unknown"):  # type: ignore[operator]
                    await script.notify("notifications/progress", {"progressToken": token, "progress": step})
                await trio.sleep(20)

        nursery.start_soon(work)
        began = trio.current_time()
        with pytest.raises(RequestTimeout):
            await client.call_tool("work", progress=never_called)
        assert trio.current_time() - began == pytest.approx(30)
        nursery.cancel_scope.cancel()


async def test_idle_timeout_pauses_during_a_handler_and_restarts_after_it(autojump_clock: object) -> None:
    """The server is waiting for the user, so the client does not count that time."""

    async def elicit(form: Form) -> dict[str, Any]:
        await trio.sleep(500)
        return {"name": "Ada"}

    async with (
        play(OLD, handlers=Handlers(elicit=elicit), timeouts=ClientTimeouts(idle=30)) as (client, script),
        trio.open_nursery() as nursery,
    ):

        async def work() -> None:
            request = await script.next_request("tools/call")
            await trio.sleep(20)
            await script.send(Request("question", "elicitation/create", FORM))
            answer = await script.take(Response)
            assert answer.result["content"] == {"name": "Ada"}
            await trio.sleep(29)
            await script.answer(request, text("hello Ada"))

        nursery.start_soon(work)
        assert text_of(await client.call_tool("work")) == "hello Ada"
        assert trio.current_time() - 549 == pytest.approx(0, abs=1)


async def test_server_silent_after_its_request_times_out(autojump_clock: object) -> None:
    async def elicit(form: Form) -> dict[str, Any]:
        await trio.sleep(500)
        return {"name": "Ada"}

    async with (
        play(OLD, handlers=Handlers(elicit=elicit), timeouts=ClientTimeouts(idle=30)) as (client, script),
        trio.open_nursery() as nursery,
    ):

        async def work() -> None:
            await script.next_request("tools/call")
            await script.send(Request("question", "elicitation/create", FORM))

        nursery.start_soon(work)
        began = trio.current_time()
        with pytest.raises(RequestTimeout):
            await client.call_tool("work")
        assert trio.current_time() - began == pytest.approx(530)


async def test_idle_timeouts_of_all_calls_pause_during_a_handler(autojump_clock: object) -> None:
    """The request of the server does not name the call that it belongs to."""

    async def elicit(form: Form) -> None:
        await trio.sleep(100)

    given_up: dict[str, float] = {}
    async with play(OLD, handlers=Handlers(elicit=elicit), timeouts=ClientTimeouts(idle=30)) as (client, script):

        async def call(name: str, after: float) -> None:
            await trio.sleep(after)
            with pytest.raises(RequestTimeout):
                await client.call_tool(name)
            given_up[name] = trio.current_time()

        began = trio.current_time()
        async with trio.open_nursery() as nursery:
            nursery.start_soon(call, "before", 0)
            nursery.start_soon(call, "meanwhile", 50)
            await trio.sleep(10)
            await script.send(Request("question", "elicitation/create", FORM))

    assert {name: round(when - began) for name, when in given_up.items()} == {"before": 140, "meanwhile": 140}


async def test_slow_progress_callback_does_not_time_out_the_call(autojump_clock: object) -> None:
    """The response arrived in time; the callback may take longer."""

    async def listen(progress: Progress) -> None:
        await trio.sleep(100)

    async with play(OLD, timeouts=ClientTimeouts(idle=30)) as (client, script), trio.open_nursery() as nursery:

        async def work() -> None:
            request = await script.next_request("tools/call")
            await script.progress(request, 1)
            await script.answer(request, text("done"))

        nursery.start_soon(work)
        assert text_of(await client.call_tool("work", progress=listen)) == "done"


# --- pings


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_silent_server_is_pinged_and_disconnected(revision: str, autojump_clock: object) -> None:
    timeouts = ClientTimeouts(ping=5)
    async with play(revision, ping_interval=10, timeouts=timeouts) as (client, script):
        began = trio.current_time()
        await script.answer(await script.next_request("ping"))
        assert trio.current_time() - began == pytest.approx(10)
        await script.next_request("ping")
        assert trio.current_time() - began == pytest.approx(20)

        with pytest.raises(ConnectionClosed, match="the server did not answer a ping within 5 s"):
            await client.call_tool("work")


async def test_late_messages_of_a_disconnected_server_are_ignored(autojump_clock: object) -> None:
    """The server stops reading, so the last messages keep the link open after the client has given up."""
    timeouts = ClientTimeouts(ping=5)
    async with play(OLD, ping_interval=10, timeouts=timeouts) as (client, script):
        for _ in range(40):
            await client.notify("notifications/roots/list_changed")
            await wait_all_tasks_blocked()
        await trio.sleep(15.5)
        await script.send(Request("question", "elicitation/create", FORM), Request("life", "ping"))
        await trio.sleep(0.1)

        with pytest.raises(ConnectionClosed, match="the server did not answer a ping within 5 s"):
            await client.call_tool("work")


async def test_active_server_is_not_pinged(autojump_clock: object) -> None:
    async with play(OLD, ping_interval=10) as (client, script), trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(answer_with, script.next_request, script.answer, "here")
            await client.call_tool("work")
            await trio.sleep(8)

    assert [message for message in script.received if getattr(message, "method", "") == "ping"] == []


async def test_error_response_to_a_ping_counts_as_alive(autojump_clock: object) -> None:
    async with play(OLD, ping_interval=10) as (client, script), trio.open_nursery() as nursery:
        for _ in range(3):
            await script.refuse(await script.next_request("ping"), Code.METHOD_NOT_FOUND)
        nursery.start_soon(answer_with, script.next_request, script.answer, "here")
        assert text_of(await client.call_tool("work")) == "here"


@pytest.mark.parametrize(("revision", "interval"), [(OLD, 0), (NEW, 10)])
async def test_no_pings_without_an_interval_or_in_a_revision_without_ping(
    revision: str, interval: float, autojump_clock: object
) -> None:
    async with play(revision, ping_interval=interval) as (_, script):
        await trio.sleep(1000)
        await script.expect_nothing()
