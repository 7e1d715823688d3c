"""The life of a request: its deadline, its end, and that it sends nothing afterwards."""

from __future__ import annotations

from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from mcptrio import Context, Server
from mcptrio.errors import ConnectionClosed
from mcptrio.protocol.messages import ErrorResponse, Notification, Request, Response
from mcptrio.serving import ServerLimits, ServerSettings, Timeouts
from tests.error_codes import INVALID_PARAMS, INVALID_REQUEST
from tests.runtime.peers import connected, envelope, tool

__all__: list[str] = []

BOTH = pytest.mark.parametrize("modern", [False, True])


def revision(modern: bool) -> str | None:
    return None if modern else "2025-11-25"


@BOTH
async def test_ended_request_sends_nothing(modern: bool, autojump_clock: MockClock) -> None:
    kept: list[Context] = []

    async def keep(ctx: Context) -> str:
        kept.append(ctx)
        return "kept"

    server = Server()
    server.add_tool(keep)
    async with connected(server, revision=revision(modern)) as client:
        meta = {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"}
        await client.result(tool(1, "keep", modern=modern, _meta=meta))
        await kept[0].report_progress(1)
        await kept[0].info("late")
        with pytest.raises(ConnectionClosed):
            await kept[0].notify("acme/late")
        if not modern:
            for late in (kept[0].request("acme/late"), kept[0].elicit("late?", str)):
                with pytest.raises(ConnectionClosed):
                    await late
        await client.expect_nothing()


@BOTH
async def test_cancelled_request_sends_nothing(modern: bool, autojump_clock: MockClock) -> None:
    """This holds also for a handler that cleans up slowly and then returns a result."""
    cleaned: list[int] = []

    async def stubborn(ctx: Context) -> str:
        with trio.CancelScope(shield=True):
            await trio.sleep(10)
            await ctx.report_progress(1)
            await ctx.info("cleaning")
        cleaned.append(1)
        return "late"

    server = Server()
    server.add_tool(stubborn)
    async with connected(server, revision=revision(modern)) as client:
        meta = {"progressToken": 1, "io.modelcontextprotocol/logLevel": "debug"}
        await client.send(tool(1, "stubborn", modern=modern, _meta=meta))
        await trio.sleep(1)
        await client.send(Notification("notifications/cancelled", {"requestId": 1}))
        await client.expect_nothing(20)
        assert cleaned == [1]
        # The id can be reused.
        await client.result(tool(1, "stubborn", modern=modern))


@BOTH
async def test_progress_does_not_extend_the_request_deadline(modern: bool, autojump_clock: MockClock) -> None:
    ended: list[float] = []

    async def busy(ctx: Context) -> str:
        began = trio.current_time()
        try:
            for step in range(1000):
                await trio.sleep(5)
                await ctx.report_progress(step)
        finally:
            ended.append(trio.current_time() - began)
        return "unreachable"

    server = Server(settings=ServerSettings(timeouts=Timeouts(request=60, idle=10)))
    server.add_tool(busy)
    async with connected(server, revision=revision(modern)) as client:
        error = await client.error(tool(1, "busy", modern=modern))
        assert "timed out after 60" in error.message
        await trio.testing.wait_all_tasks_blocked()
        assert ended == [pytest.approx(60)]


@BOTH
async def test_request_without_progress_ends_at_the_idle_deadline(modern: bool, autojump_clock: MockClock) -> None:
    async def quiet(ctx: Context) -> str:
        await trio.sleep(9)
        await ctx.report_progress(1)
        await trio.sleep_forever()
        return "unreachable"

    server = Server(settings=ServerSettings(timeouts=Timeouts(request=60, idle=10)))
    server.add_tool(quiet)
    async with connected(server, revision=revision(modern)) as client:
        assert "timed out after 19" in (await client.error(tool(1, "quiet", modern=modern))).message


@pytest.mark.parametrize(
    ("caller", "seconds"), [(5, "5"), (1e9, "10"), (0, "10"), (-1, "10"), (True, "10"), ("5", "10")]
)
async def test_caller_can_only_shorten_the_timeout(caller: Any, seconds: str, autojump_clock: MockClock) -> None:
    async def quiet() -> str:
        await trio.sleep_forever()
        return "unreachable"

    server = Server(settings=ServerSettings(timeouts=Timeouts(request=60, idle=10)))
    server.add_tool(quiet)
    async with connected(server) as client:
        error = await client.error(tool(1, "quiet", _meta={"mcptrio/timeout": caller}))
        assert f"timed out after {seconds} s" in error.message


@pytest.mark.parametrize("meta", [5, "x", [1], None, True])
async def test_meta_that_is_not_an_object_is_refused(meta: Any, autojump_clock: MockClock) -> None:
    """This includes custom methods, whose other parameters are not checked."""

    async def echo(params: Any) -> Any:
        return params

    server = Server()
    server.add_method(echo, "acme/echo")
    server.add_tool(echo, input_schema={"type": "object"}, name="echo")
    async with connected(server) as client:
        for request in (Request(1, "acme/echo", {"_meta": meta}), tool(2, "echo", _meta=meta)):
            answer = await client.ask(request)
            if meta is not None or request.method == "acme/echo":
                assert isinstance(answer, ErrorResponse), answer
                assert answer.code == INVALID_PARAMS


@pytest.mark.parametrize("params", [None, {}, {"a": [1, None]}])
async def test_custom_method_receives_its_params_unchanged(params: Any, autojump_clock: MockClock) -> None:
    async def echo(ctx: Context, params: Any) -> Any:
        return {"got": params}

    server = Server()
    server.add_method(echo, "acme/echo")
    async with connected(server) as client:
        assert (await client.result(Request(1, "acme/echo", params)))["got"] == (params or {})
        stamped = {**(params or {}), "_meta": envelope()}
        assert (await client.result(Request(2, "acme/echo", stamped)))["got"] == stamped


async def test_long_uri_is_not_kept_after_its_request(autojump_clock: MockClock) -> None:
    async def data() -> str:
        return "x"

    server = Server()
    server.add_resource(data, "data://x")
    async with connected(server) as client:
        error = await client.error(Request(1, "resources/subscribe", {"uri": "data://" + "x" * 10_000}))
        assert error.code == INVALID_PARAMS
        await client.result(Request(2, "resources/subscribe", {"uri": "data://x"}))


async def test_stateless_request_has_no_session(autojump_clock: MockClock) -> None:
    """This holds also if the channel has a session: nothing is inferred from it (MCP 2026-07-28, basic/index)."""

    async def session(ctx: Context) -> str:
        return str(ctx.session_id)

    server = Server()
    server.add_tool(session)
    async with connected(server) as client:
        inside = await client.result(tool(1, "session"))
        outside = await client.result(tool(2, "session", modern=True))
        assert inside["content"][0]["text"] != "None"
        assert outside["content"][0]["text"] == "None"


async def test_requests_over_the_limit_are_refused_and_places_released(autojump_clock: MockClock) -> None:
    async def slow() -> str:
        await trio.sleep(10)
        return "done"

    server = Server(settings=ServerSettings(limits=ServerLimits(requests_per_session=3)))
    server.add_tool(slow)
    async with connected(server) as client:
        for _ in range(5):
            await client.send(*[tool(id, "slow") for id in range(8)])
            answers = [await client.next() for _ in range(8)]
            refused = [a for a in answers if isinstance(a, ErrorResponse)]
            assert len(refused) == 5
            assert all(a.data == {"retryAfter": 1.0} for a in refused)
            assert {a.id for a in answers if isinstance(a, Response)} == {0, 1, 2}
        assert server.supervisor.in_flight == 0


async def test_id_in_flight_is_refused_and_its_request_continues(autojump_clock: MockClock) -> None:
    async def slow() -> str:
        await trio.sleep(10)
        return "done"

    server = Server()
    server.add_tool(slow)
    async with connected(server) as client:
        await client.send(tool(1, "slow"), tool(1, "slow"), tool("1", "slow"))
        first, *others = [await client.next() for _ in range(3)]
        assert isinstance(first, ErrorResponse)
        assert first.code == INVALID_REQUEST
        assert [type(other) for other in others] == [Response, Response]


async def test_cancelling_an_unknown_request_does_nothing(autojump_clock: MockClock) -> None:
    async def ok() -> str:
        return "ok"

    server = Server()
    server.add_tool(ok)
    async with connected(server) as client:
        for params in ({"requestId": 99}, {"requestId": None}, {"requestId": [1]}, {"requestId": True}, {}, None):
            await client.send(Notification("notifications/cancelled", params))
        await client.result(tool(1, "ok"))


async def test_initialize_cannot_be_cancelled(autojump_clock: MockClock) -> None:
    server = Server()
    async with connected(server, revision=None) as client:
        params = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "a", "version": "1"}}
        await client.send(Request(1, "initialize", params), Notification("notifications/cancelled", {"requestId": 1}))
        assert isinstance(await client.next(), Response)


async def test_requests_pending_at_end_of_input_are_answered(autojump_clock: MockClock) -> None:
    """The peer has closed its side and still reads."""

    async def slow() -> str:
        await trio.sleep(3)
        return "done"

    async def endless() -> str:
        await trio.sleep_forever()
        return "unreachable"

    server = Server(settings=ServerSettings(timeouts=Timeouts(shutdown=5)))
    server.add_tool(slow)
    server.add_tool(endless)
    async with connected(server) as client:
        await client.send(tool(1, "slow"), tool(2, "endless"))
        await trio.testing.wait_all_tasks_blocked()
        client.channel._sender.close()
        answer = await client.next()
        assert isinstance(answer, Response)
        assert answer.id == 1
        with pytest.raises(trio.EndOfChannel):
            await client.next()
