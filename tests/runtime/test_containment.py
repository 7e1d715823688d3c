"""Plugin code that misbehaves ends only its own request."""

from __future__ import annotations

import sys
from typing import Any

import pytest
import trio
from trio.testing import MockClock

import mcptrio
from mcptrio import Context, PluginSetup, Server
from mcptrio.protocol.messages import Notification, Request, Response
from mcptrio.protocol.model.content import TextContent
from mcptrio.protocol.model.tools import CallToolResult
from mcptrio.serving import ServerLimits, ServerSettings, Timeouts
from tests.error_codes import METHOD_NOT_FOUND
from tests.runtime.peers import Client, connected, envelope, tool

__all__: list[str] = []


class Exits(BaseException):
    """Like the outcomes of pytest: not a subclass of Exception."""


async def raise_system_exit() -> str:
    sys.exit(3)


async def raise_generator_exit() -> str:
    raise GeneratorExit


async def raise_base_exception() -> str:
    raise Exits("out")


async def raise_group() -> str:
    async with trio.open_nursery() as nursery:
        nursery.start_soon(raise_system_exit)
        nursery.start_soon(raise_base_exception)
    return "unreachable"


def raise_in_thread() -> str:
    sys.exit(3)


async def raise_old_cancelled() -> str:
    """Raise a cancellation that was caught earlier, when nothing is cancelled."""
    kept: list[trio.Cancelled] = []
    with trio.CancelScope() as scope:
        scope.cancel()
        try:
            await trio.lowlevel.checkpoint()
        except trio.Cancelled as cancelled:
            kept.append(cancelled)
            raise
    raise kept[0]


async def return_what_is_no_content() -> CallToolResult:
    return CallToolResult(content=(5,))  # type: ignore[arg-type]


async def return_no_content_at_all() -> CallToolResult:
    return CallToolResult(content=None)  # type: ignore[arg-type]


async def return_wrong_meta() -> CallToolResult:
    return CallToolResult(content=(TextContent(text="x"),), meta="wrong")  # type: ignore[arg-type]


BAD = (
    raise_system_exit,
    raise_generator_exit,
    raise_base_exception,
    raise_group,
    raise_in_thread,
    raise_old_cancelled,
    return_what_is_no_content,
    return_no_content_at_all,
    return_wrong_meta,
)


async def ok() -> str:
    return "still here"


def with_context(function: Any) -> Any:
    """Return the same for a handler that runs in the supervisor's nursery in the stateless revision."""

    async def asking(ctx: Context) -> Any:
        return await (function() if function is not raise_in_thread else raise_system_exit())

    asking.__annotations__["return"] = function.__annotations__["return"]
    return asking


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("context", [False, True])
@pytest.mark.parametrize("bad", BAD, ids=lambda function: function.__name__)
async def test_tool_that_misbehaves_ends_its_own_request_only(bad: Any, context: bool, modern: bool) -> None:
    """Uses the real clock, because one of the handlers uses a thread."""
    server = Server()
    server.add_tool(with_context(bad) if context else bad, name="bad")
    server.add_tool(ok)
    async with connected(server, revision=None if modern else "2025-11-25") as client:
        with trio.fail_after(30):
            answer = await client.ask(tool(1, "bad", modern=modern))
            if not bad.__name__.startswith("return"):
                assert isinstance(answer, Response)
                assert answer.result["isError"] is True
            assert (await client.result(tool(2, "ok", modern=modern)))["content"][0]["text"] == "still here"


@pytest.mark.parametrize("modern", [False, True])
@pytest.mark.parametrize("context", [False, True])
async def test_error_during_cancellation_affects_only_its_request(
    context: bool, modern: bool, autojump_clock: MockClock
) -> None:
    """The cancellation and the error leave the author's nursery in one group."""

    async def stubborn() -> str:
        async def child() -> None:
            try:
                await trio.sleep_forever()
            finally:
                raise ValueError("while cleaning up")

        async with trio.open_nursery() as nursery:
            nursery.start_soon(child)
            nursery.start_soon(trio.sleep_forever)
        return "unreachable"

    server = Server(settings=ServerSettings(timeouts=Timeouts(request=50, idle=50)))
    server.add_tool(with_context(stubborn) if context else stubborn, name="stubborn")
    server.add_tool(ok)
    async with connected(server, revision=None if modern else "2025-11-25") as client:
        await client.send(tool(1, "stubborn", modern=modern))
        await trio.sleep(1)
        await client.send(Notification("notifications/cancelled", {"requestId": 1}))
        await trio.sleep(1)
        assert (await client.result(tool(2, "ok", modern=modern)))["content"][0]["text"] == "still here"

        # The same after its timeout.
        assert "timed out" in (await client.error(tool(3, "stubborn", modern=modern))).message
        assert (await client.result(tool(4, "ok", modern=modern)))["content"][0]["text"] == "still here"


@pytest.mark.parametrize(
    "value",
    ["text", 5, [1], object(), {"_meta": 5}, {"bad": "\ud800"}],
    ids=["text", "number", "list", "object", "meta", "surrogate"],
)
async def test_invalid_result_of_a_plugin_method_fails_its_request_only(value: Any, autojump_clock: MockClock) -> None:
    async def odd() -> Any:
        return value

    server = Server()
    server.add_method(odd, "acme/odd")
    server.add_tool(ok)
    async with connected(server, revision="2025-11-25") as client:
        await client.ask(Request(1, "acme/odd"))
        await client.ask(Request(2, "acme/odd", {"_meta": envelope()}))
        assert (await client.result(tool(3, "ok")))["content"][0]["text"] == "still here"


async def test_failing_notification_handler_ends_nothing(autojump_clock: MockClock) -> None:
    server = Server()
    for function in (raise_system_exit, raise_group, raise_old_cancelled):
        server.add_method(function, "acme/heard", notification=True)
    server.add_tool(ok)
    async with connected(server) as client:
        await client.send(Notification("acme/heard"))
        assert (await client.result(tool(1, "ok")))["content"][0]["text"] == "still here"


async def test_failing_background_task_is_restarted(autojump_clock: MockClock) -> None:
    starts: list[float] = []

    async def task() -> None:
        starts.append(trio.current_time())
        await raise_group()

    class Plugin:
        @mcptrio.hookimpl
        def setup(self, server: PluginSetup) -> None:
            server.add_background(task)

    server = Server(plugins=[Plugin()])
    server.add_tool(ok)
    async with connected(server) as client:
        await trio.sleep(10)
        assert len(starts) == 4
        assert (await client.result(tool(1, "ok")))["content"][0]["text"] == "still here"


async def test_flood_of_notifications_starts_a_bounded_number_of_tasks(autojump_clock: MockClock) -> None:
    received: list[int] = []

    async def slow() -> None:
        received.append(1)
        await trio.sleep(10)

    server = Server(settings=ServerSettings(limits=ServerLimits(requests_per_session=10)))
    server.add_method(slow, "acme/slow", notification=True)
    server.add_tool(ok)
    async with connected(server) as client:
        for _ in range(5):
            await client.send(*[Notification("acme/slow")] * 100)
        await client.result(tool(1, "ok"))
        assert len(received) <= 10


async def ping_back(client: Client, error: bool) -> None:
    from mcptrio.protocol.messages import ErrorResponse

    while True:
        message = await client.next()
        if isinstance(message, Request):
            await client.send(
                ErrorResponse(message.id, METHOD_NOT_FOUND, "no ping here") if error else Response(message.id, {})
            )


@pytest.mark.parametrize("error", [False, True])
async def test_client_that_answers_pings_stays_connected(error: bool, autojump_clock: MockClock) -> None:
    """An error response counts as well."""
    server = Server(settings=ServerSettings(ping_interval=10))
    async with connected(server) as client:
        with trio.move_on_after(1000):
            await ping_back(client, error)
        assert server.status.sessions
