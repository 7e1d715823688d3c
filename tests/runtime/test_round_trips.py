"""Multi-round-trip requests: handlers parked, resumed, replayed and evicted, and attacks of clients."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import pytest
import trio
import trio.testing
from trio.testing import MockClock

from mcptrio import Context, Server
from mcptrio.protocol.messages import ErrorResponse, Request
from mcptrio.serving import ServerLimits, Timeouts
from tests.error_codes import INTERNAL_ERROR, INVALID_PARAMS, METHOD_NOT_FOUND
from tests.runtime.peers import Client, connected, open_client, tool
from tests.server_options import server_options

__all__: list[str] = []

Answers = dict[str, Any]


def accept(value: Any) -> dict[str, Any]:
    return {"action": "accept", "content": {"value": value}}


def retry(id: Any, name: str, asked: dict[str, Any], answers: Answers) -> Request:
    return tool(id, name, modern=True, inputResponses=answers, requestState=asked["requestState"])


def keys(asked: dict[str, Any]) -> list[str]:
    assert asked["resultType"] == "input_required", asked
    return list(asked.get("inputRequests", {}))


def text(result: dict[str, Any]) -> str:
    assert result["resultType"] == "complete", result
    assert not result.get("isError"), result
    found: str = result["content"][0]["text"]
    return found


def serving(function: Callable[..., Awaitable[str]], **options: Any) -> Server:
    server = Server(**server_options(options))
    server.add_tool(function, name="it")
    return server


async def twice(ctx: Context) -> str:
    first = await ctx.ask("first?", str, key="first")
    second = await ctx.ask("second?", str, key="second")
    return f"{first}, {second}"


async def first_round(client: Client, id: Any = 1) -> dict[str, Any]:
    return await client.result(tool(id, "it", modern=True))


@pytest.mark.parametrize("parked", [0, 10])
async def test_answers_complete_the_call_parked_or_replayed(parked: int, autojump_clock: MockClock) -> None:
    server = serving(twice, limits=ServerLimits(parked=parked))
    async with connected(server, revision=None) as client:
        one = await first_round(client)
        assert keys(one) == ["first"]
        two = await client.result(retry(2, "it", one, {"first": accept("a")}))
        assert keys(two) == ["second"]
        done = await client.result(retry(3, "it", two, {"second": accept("b")}))
        assert text(done) == "a, b"
        assert server.status.parked == ()


@pytest.mark.parametrize("parked", [0, 10])
async def test_answers_without_a_request_are_ignored(parked: int, autojump_clock: MockClock) -> None:
    """Answers before their request, and second answers, are ignored and not stored."""
    server = serving(twice, limits=ServerLimits(parked=parked))
    async with connected(server, revision=None) as client:
        one = await first_round(client)
        ahead = {"first": accept("a"), "second": accept("early"), **{f"x{n}": accept("x" * 100) for n in range(2000)}}
        two = await client.result(retry(2, "it", one, ahead))
        assert keys(two) == ["second"]
        assert len(two["requestState"]) < 1000
        done = await client.result(retry(3, "it", two, {"first": accept("changed"), "second": accept("b")}))
        assert text(done) == "a, b"


async def test_handler_of_a_large_request_expires(autojump_clock: MockClock) -> None:
    """The memory of its parameters is released once, although its code runs again to clean up."""
    server = serving(twice, timeouts=Timeouts(input=100))
    async with connected(server, revision=None) as client:
        one = await client.result(tool(1, "it", modern=True, _meta={"padding": "x" * 10_000}))
        await trio.sleep(200)
        assert server.status.parked == ()
        two = await client.result(retry(2, "it", one, {"first": accept("a")}))
        assert keys(two) == ["second"]


async def test_repeated_retry_completes_twice(autojump_clock: MockClock) -> None:
    """The first retry resumes the parked handler, the second replays it; neither waits for the other."""
    server = serving(twice)
    async with connected(server, revision=None) as client:
        one = await first_round(client)
        two = await client.result(retry(2, "it", one, {"first": accept("a")}))
        last = [retry(id, "it", two, {"second": accept("b")}) for id in (3, 4)]
        await client.send(*last)
        for _ in last:
            answer = await client.next()
            assert not isinstance(answer, ErrorResponse), answer
            assert text(answer.result) == "a, b"  # type: ignore[union-attr]


async def test_abandoned_request_is_not_repeated(autojump_clock: MockClock) -> None:
    async def patient(ctx: Context) -> str:
        with trio.move_on_after(5):
            await ctx.elicit("now?", str, key="now")
        return await ctx.ask("later?", str, key="later")

    async with connected(serving(patient), revision=None) as client:
        one = await first_round(client)
        await trio.sleep(10)
        two = await client.result(retry(2, "it", one, {}))
        assert keys(two) == ["later"]
        assert text(await client.result(retry(3, "it", two, {"later": accept("b")}))) == "b"


async def test_retry_during_the_cleanup_of_a_parked_handler_replays(autojump_clock: MockClock) -> None:
    starts: list[float] = []

    async def slow_to_leave(ctx: Context) -> str:
        starts.append(trio.current_time())
        try:
            return await ctx.ask("what?", str, key="what")
        finally:
            with trio.CancelScope(shield=True):
                await trio.sleep(5)

    server = serving(slow_to_leave, timeouts=Timeouts(input=100))
    async with connected(server, revision=None) as client:
        one = await first_round(client)
        await trio.sleep(101)
        assert text(await client.result(retry(2, "it", one, {"what": accept("a")}))) == "a"
        assert len(starts) == 2


async def test_parked_handler_expires_without_a_retry(autojump_clock: MockClock) -> None:
    ended: list[float] = []

    async def waiting(ctx: Context) -> str:
        began = trio.current_time()
        try:
            return await ctx.ask("what?", str)
        finally:
            ended.append(trio.current_time() - began)

    server = serving(waiting, timeouts=Timeouts(input=100))
    async with connected(server, revision=None) as client:
        await first_round(client)
        assert len(server.status.parked) == 1
        await trio.sleep(150)
        assert ended == [pytest.approx(100)]
        assert server.status.parked == ()


async def test_oldest_parked_handler_is_evicted_and_its_retry_replays(autojump_clock: MockClock) -> None:
    starts: list[int] = []

    async def asks(ctx: Context) -> str:
        starts.append(1)
        return await ctx.ask("what?", str, key="what")

    server = serving(asks, limits=ServerLimits(parked=2))
    async with connected(server, revision=None) as client:
        rounds = [await first_round(client, id) for id in range(3)]
        await trio.testing.wait_all_tasks_blocked()
        assert len(server.status.parked) == 2
        for id, asked in enumerate(rounds, 10):
            assert text(await client.result(retry(id, "it", asked, {"what": accept(str(id))}))) == str(id)
        assert len(starts) == 4


async def test_invalid_answer_is_refused_and_the_handler_keeps_waiting(autojump_clock: MockClock) -> None:
    server = serving(twice)
    async with connected(server, revision=None) as client:
        one = await first_round(client)
        for wrong in (5, None, [], {"action": "perhaps"}, {"action": "accept", "content": {"value": 7}}):
            error = await client.error(retry(2, "it", one, {"first": wrong}))
            assert error.code == INVALID_PARAMS
            assert len(server.status.parked) == 1
        two = await client.result(retry(3, "it", one, {"first": accept("a")}))
        assert keys(two) == ["second"]


async def test_retry_without_an_answer_gets_the_request_again(autojump_clock: MockClock) -> None:
    async with connected(serving(twice), revision=None) as client:
        one = await first_round(client)
        again = await client.result(retry(2, "it", one, {}))
        assert keys(again) == ["first"]
        assert again["requestState"] != one["requestState"]


async def test_cancelled_retry_ends_the_handler(autojump_clock: MockClock) -> None:
    ended: list[str | None] = []

    async def works_on(ctx: Context) -> str:
        await ctx.elicit("what?", str, key="what")
        try:
            await trio.sleep_forever()
        finally:
            ended.append(ctx.cancel_reason)
        return "unreachable"

    server = serving(works_on, timeouts=Timeouts(request=50))
    async with connected(server, revision=None) as client:
        one = await first_round(client)
        error = await client.error(retry(2, "it", one, {"what": accept("a")}))
        assert "timed out" in error.message
        await trio.testing.wait_all_tasks_blocked()
        assert len(ended) == 1


async def test_request_inside_a_shielded_scope_fails(autojump_clock: MockClock) -> None:
    async def shielded(ctx: Context) -> str:
        with trio.CancelScope(shield=True):
            await ctx.elicit("what?", str)
        return "unreachable"

    async with connected(serving(shielded), revision=None) as client:
        assert (await first_round(client))["isError"] is True


async def test_custom_request_is_refused_in_the_stateless_revision(autojump_clock: MockClock) -> None:
    """MCP 2026-07-28, basic/patterns: servers MUST NOT initiate JSON-RPC requests."""

    async def own(ctx: Context) -> str:
        return str(await ctx.request("acme/question", timeout=5))

    async with connected(serving(own), revision=None) as client:
        await client.send(tool(1, "it", modern=True))
        answer = await client.next()
        assert isinstance(answer, ErrorResponse), answer
        assert answer.code == METHOD_NOT_FOUND
        assert 'connect with revision="2025-11-25"' in answer.message


async def test_effects_run_once_over_all_rounds(autojump_clock: MockClock) -> None:
    charged: list[str] = []

    async def charge(what: str) -> dict[str, str]:
        charged.append(what)
        return {"receipt": what}

    async def buys(ctx: Context) -> str:
        one = await ctx.once(charge, "book")
        await ctx.elicit("sure?", str, key="sure")
        two = await ctx.once(charge, "book")
        return f"{one} {two}"

    async with connected(serving(buys, limits=ServerLimits(parked=0)), revision=None) as client:
        one = await first_round(client)
        assert text(await client.result(retry(2, "it", one, {"sure": accept("y")}))).count("book") == 2
        # Two calls of the same effect are two effects.
        assert charged == ["book", "book"]


async def test_state_that_grows_too_large_is_refused(autojump_clock: MockClock) -> None:
    async with connected(serving(twice, limits=ServerLimits(state_bytes=2000)), revision=None) as client:
        one = await first_round(client)
        error = await client.error(retry(2, "it", one, {"first": accept("x" * 5000)}))
        assert error.code == INTERNAL_ERROR
        giant = tool(3, "it", modern=True, inputResponses={}, requestState="x" * 100_000)
        assert (await client.error(giant)).code == INVALID_PARAMS


async def test_server_stop_ends_parked_handlers(autojump_clock: MockClock) -> None:
    ended: list[int] = []

    async def waiting(ctx: Context) -> str:
        try:
            return await ctx.ask("what?", str)
        finally:
            ended.append(1)

    server = serving(waiting)
    async with connected(server, revision=None) as client:
        await first_round(client)
        await server.supervisor.drain()
        await trio.testing.wait_all_tasks_blocked()
        assert ended == [1]


async def test_concurrent_requests_can_be_answered_one_by_one(autojump_clock: MockClock) -> None:
    async def both(ctx: Context) -> str:
        answers: dict[str, str] = {}

        async def ask(key: str) -> None:
            answers[key] = await ctx.ask(f"{key}?", str, key=key)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, "a")
            nursery.start_soon(ask, "b")
        return answers["a"] + answers["b"]

    async with connected(serving(both), revision=None) as client:
        asked = await first_round(client)
        for id in range(2, 5):
            asked = await client.result(retry(id, "it", asked, {key: accept(key) for key in keys(asked)[:1]}))
            if asked["resultType"] == "complete":
                break
        assert text(asked) == "ab"


async def test_handler_whose_state_is_too_large_is_not_parked(autojump_clock: MockClock) -> None:
    """The client has no state, so it could never retry."""
    ended: list[int] = []

    async def large(ctx: Context) -> str:
        try:
            return await ctx.ask("again?", str, key="k" * 3000)
        finally:
            ended.append(1)

    server = serving(large, limits=ServerLimits(state_bytes=2000, parked=2))
    server.add_tool(twice)
    async with connected(server, revision=None) as client:
        waiting = await client.result(tool(1, "twice", modern=True))
        for id in range(2, 7):
            assert "need a state of" in (await client.error(tool(id, "it", modern=True))).message
        await trio.testing.wait_all_tasks_blocked()
        assert len(ended) == 5
        assert [each.label for each in server.status.parked] == ["twice"]
        assert keys(await client.result(retry(9, "twice", waiting, {"first": accept("a")}))) == ["second"]


@pytest.mark.parametrize("action", ["decline", "cancel"])
@pytest.mark.parametrize("id", [None, "sign-in"])
async def test_declined_url_is_requested_once(id: str | None, action: str, autojump_clock: MockClock) -> None:
    async def guarded(ctx: Context) -> str:
        await ctx.elicit("name?", str, key="name")
        raise ctx.url_required("sign in first", "https://example.com/in", id=id)

    async with connected(serving(guarded), revision=None) as client:
        one = await first_round(client)
        # The declined request was another one.
        two = await client.result(retry(2, "it", one, {"name": {"action": "decline"}}))
        (page,) = keys(two)
        last = await client.result(retry(3, "it", two, {page: {"action": action}}))
        assert last["isError"]
        assert last["content"][0]["text"] == f"the user chose to {action}: sign in first"


async def test_accepted_url_is_requested_until_it_is_visited(autojump_clock: MockClock) -> None:
    calls: list[int] = []

    async def guarded(ctx: Context) -> str:
        calls.append(1)
        if len(calls) < 3:
            raise ctx.url_required("sign in first", "https://example.com/in")
        return "signed in"

    async with connected(serving(guarded), revision=None) as client:
        asked = await first_round(client)
        for id in (2, 3):
            (page,) = keys(asked)
            asked = await client.result(retry(id, "it", asked, {page: {"action": "accept"}}))
        assert text(asked) == "signed in"


async def test_client_with_many_parked_handlers_evicts_its_own(autojump_clock: MockClock) -> None:
    starts: list[str] = []

    async def asks(ctx: Context) -> str:
        starts.append(ctx.caller)
        return await ctx.ask("what?", str, key="what")

    server = serving(asks, limits=ServerLimits(parked=5))
    async with connected(server, revision=None) as greedy, open_client(server) as modest:
        asked = await first_round(modest)
        for id in range(20):
            await first_round(greedy, id)
        assert text(await modest.result(retry(2, "it", asked, {"what": accept("a")}))) == "a"
        assert len(server.status.parked) == 4
        assert len(starts) == 21


async def test_client_disconnect_ends_its_parked_handlers(autojump_clock: MockClock) -> None:
    ended: list[str] = []

    async def asks(ctx: Context) -> str:
        try:
            return await ctx.ask("what?", str)
        finally:
            ended.append(ctx.caller)

    server = serving(asks)
    async with connected(server, revision=None) as stays:
        await first_round(stays)
        async with open_client(server) as leaves:
            for id in range(3):
                await first_round(leaves, id)
        await trio.testing.wait_all_tasks_blocked()
        assert len(ended) == 3
        assert len(server.status.parked) == 1
