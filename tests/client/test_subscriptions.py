"""Subscriptions to changes, by one API over session notifications and streams."""

from __future__ import annotations

import sys
from collections import Counter
from functools import partial
from typing import Any

import pytest
import trio
from trio.testing import wait_all_tasks_blocked

from mcptrio import ConnectionClosed, MCPError, MCPTrioError, RequestTimeout, Server, connect
from mcptrio.client import Change, Changes, ClientTimeouts
from mcptrio.errors import RemoteProtocolError
from mcptrio.protocol.messages import Request
from mcptrio.types import TextContent
from tests.client.scripted import Script, play
from tests.error_codes import METHOD_NOT_FOUND, RESOURCE_NOT_FOUND
from tests.interaction.applies import HANDSHAKE, MODERN, REVISIONS

__all__: list[str] = []

OLD, NEW = HANDSHAKE[-1], MODERN[-1]
ID = "io.modelcontextprotocol/subscriptionId"
TOOLS = Change("tools")


async def take(changes: Changes) -> Change:
    with trio.fail_after(30):
        return await changes.__anext__()


def unread(changes: Changes) -> list[Change]:
    return list(changes._waiting)


# --- an mcptrio server


def early() -> str:
    """The first tool."""
    return ""


def late() -> str:
    """The tool that is added."""
    return ""


async def test_one_uri_instead_of_several_is_an_error() -> None:
    async with connect(Server()) as client:
        with pytest.raises(TypeError, match=r"expected a sequence of URIs, such as \['note:///1'\], got a string"):
            async with client.subscribe("note:///1"):
                pass


@pytest.mark.parametrize("revision", REVISIONS)
async def test_changes_of_an_mcptrio_server_are_reported(revision: str) -> None:
    server = Server()
    server.add_tool(early)
    server.add_prompt(early)
    server.add_resource(early, uri="note:///1")
    server.add_resource(early, uri="note:///2")
    async with connect(server, revision=revision) as client:
        async with client.subscribe(["note:///1"], tools=True, prompts=True, resources=True) as changes:
            server.notify_resource_updated("note:///2")
            server.notify_resource_updated("note:///1")
            assert await take(changes) == Change("resource", "note:///1")
            server.add_tool(late)
            assert await take(changes) == TOOLS
            server.remove_prompt("early")
            assert await take(changes) == Change("prompts")
            server.remove_resource("note:///2")
            assert await take(changes) == Change("resources")
            await wait_all_tasks_blocked()
            assert unread(changes) == []


@pytest.mark.parametrize("revision", REVISIONS)
async def test_only_requested_changes_are_reported(revision: str) -> None:
    server = Server()
    server.add_tool(early)
    server.add_prompt(early)
    async with connect(server, revision=revision) as client:
        await client.ping()
        async with client.subscribe(prompts=True) as prompts, client.subscribe(tools=True) as tools:
            server.add_tool(late)
            server.add_prompt(late)
            assert await take(tools) == TOOLS
            assert await take(prompts) == Change("prompts")
            await wait_all_tasks_blocked()
            assert unread(tools) == unread(prompts) == []


@pytest.mark.parametrize("revision", REVISIONS)
async def test_unsupported_subscription_is_refused(revision: str) -> None:
    """A server without resources has none to subscribe to."""
    server = Server()
    server.add_tool(early)
    async with connect(server, revision=revision) as client:
        if revision in HANDSHAKE:
            with pytest.raises(MCPError):
                await client.subscribe(["note:///1"]).__aenter__()
        else:
            async with client.subscribe(["note:///1"], tools=True) as changes:
                assert changes.honoured is not None
                assert changes.honoured.tools_list_changed
                assert changes.honoured.resource_subscriptions == ()


# --- reading


@pytest.mark.parametrize("revision", [OLD, NEW])
async def test_repeated_unread_changes_are_coalesced(revision: str) -> None:
    server = Server()
    server.add_tool(early)
    async with connect(server, revision=revision) as client, client.subscribe(tools=True) as changes:
        for number in range(5):
            server.add_tool(late, name=f"late_{number}")
            await wait_all_tasks_blocked()
        assert await take(changes) == TOOLS
        assert unread(changes) == []


async def test_changes_are_read_in_the_order_of_arrival() -> None:
    uris = [f"note:///{number}" for number in range(5)]
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(_accept, script, len(uris))
        async with client.subscribe(uris) as changes:
            for uri in reversed(uris):
                await script.notify("notifications/resources/updated", {"uri": uri})
            assert [await take(changes) for _ in uris] == [Change("resource", uri) for uri in reversed(uris)]
            nursery.start_soon(_accept, script, len(uris))


async def _accept(script: Script, requests: int) -> None:
    for _ in range(requests):
        await script.answer(await script.next_request())


async def test_change_of_a_sub_resource_reaches_the_subscriber() -> None:
    """Source: MCP 2026-07-28, server/resources: the URI may be that of a sub-resource."""
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(_accept, script, 1)
        async with client.subscribe(["file:///a"]) as changes:
            for uri in ("file:///ab", "file:///", "file:///a/b", "file:///a"):
                await script.notify("notifications/resources/updated", {"uri": uri})
            assert await take(changes) == Change("resource", "file:///a/b")
            assert await take(changes) == Change("resource", "file:///a")
            nursery.start_soon(_accept, script, 1)


async def test_too_many_resource_changes_become_one_of_their_parent() -> None:
    uris = [f"note:///{number}" for number in range(1001)]
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(_accept, script, 1)
        async with client.subscribe(["note:///"]) as changes:
            for uri in uris:
                await script.notify("notifications/resources/updated", {"uri": uri})
            await wait_all_tasks_blocked()
            read = [await take(changes) for _ in unread(changes)]
            nursery.start_soon(_accept, script, 1)
    assert read == [Change("resource", "note:///")]


async def test_too_many_resource_changes_keep_a_list_change() -> None:
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(_accept, script, 1)
        async with client.subscribe(["note:///"], tools=True) as changes:
            await script.notify("notifications/tools/list_changed")
            for number in range(1000):
                await script.notify("notifications/resources/updated", {"uri": f"note:///{number}"})
            await wait_all_tasks_blocked()
            assert {await take(changes) for _ in unread(changes)} == {TOOLS, Change("resource", "note:///")}
            nursery.start_soon(_accept, script, 1)


# --- notifications of the session


@pytest.mark.parametrize("revision", HANDSHAKE)
async def test_shared_resource_is_subscribed_once_and_unsubscribed_by_its_last_subscriber(revision: str) -> None:
    async with play(revision) as (client, script):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(_accept, script, 2)
            async with client.subscribe(["note:///1", "note:///2", "note:///1"]) as first:
                async with client.subscribe(["note:///1"]) as second:
                    await script.notify("notifications/resources/updated", {"uri": "note:///1"})
                    assert await take(first) == await take(second) == Change("resource", "note:///1")
                await script.expect_nothing()
                nursery.start_soon(_accept, script, 2)

        sent = [
            (message.method, (message.params or {})["uri"])
            for message in script.received
            if isinstance(message, Request) and message.method.endswith("scribe")
        ]
    assert sent == [
        ("resources/subscribe", "note:///1"),
        ("resources/subscribe", "note:///2"),
        ("resources/unsubscribe", "note:///1"),
        ("resources/unsubscribe", "note:///2"),
    ]


@pytest.mark.parametrize("first", ["subscribes", "unsubscribes"])
async def test_resource_stays_subscribed_for_an_overlapping_subscription(first: str) -> None:
    """The server answers after the other subscription has started or ended."""
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:
        leave, entered = trio.Event(), trio.Event()
        messages: list[Change] = []

        async def one() -> None:
            async with client.subscribe(["note:///1"]):
                entered.set()
                await leave.wait()

        async def other() -> None:
            async with client.subscribe(["note:///1"]) as changes:
                messages.append(await take(changes))

        nursery.start_soon(one)
        request = await script.next_request("resources/subscribe")
        if first == "unsubscribes":
            await script.answer(request)
            await entered.wait()
            leave.set()
            request = await script.next_request("resources/unsubscribe")
        nursery.start_soon(other)
        await wait_all_tasks_blocked()
        await script.answer(request)
        if first == "unsubscribes":
            await script.answer(await script.next_request("resources/subscribe"))
        else:
            await entered.wait()
            leave.set()
            await script.expect_nothing()
        await wait_all_tasks_blocked()
        await script.notify("notifications/resources/updated", {"uri": "note:///1"})
        await script.answer(await script.next_request("resources/unsubscribe"))
    assert messages == [Change("resource", "note:///1")]


@pytest.mark.parametrize("revision", [OLD, NEW])
async def test_subscription_without_any_reported_change_is_refused(revision: str) -> None:
    async with play(revision, capabilities={"tools": {}}) as (client, script), trio.open_nursery() as nursery:
        if revision == NEW:
            nursery.start_soon(partial(acknowledge, script, promptsListChanged=False))
        with pytest.raises(MCPError, match="reports none of these changes: tools, prompts, note:///1"):
            await client.subscribe(["note:///1"], tools=True, prompts=True).__aenter__()


@pytest.mark.parametrize("revision", [OLD, NEW])
async def test_unreported_changes_are_named(revision: str) -> None:
    async with play(revision, capabilities={"tools": {"listChanged": True}}) as (client, script):
        async with trio.open_nursery() as nursery:
            if revision == NEW:
                nursery.start_soon(acknowledge, script)
            async with client.subscribe(["note:///1"], tools=True, prompts=True) as changes:
                assert changes.missing == ("prompts", "note:///1")


async def test_refused_subscription_is_undone() -> None:
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.answer(await script.next_request("resources/subscribe"))
            await script.refuse(
                await script.next_request("resources/subscribe"), RESOURCE_NOT_FOUND, "no such resource"
            )
            await script.answer(await script.next_request("resources/unsubscribe"))
            await _accept(script, 2)

        nursery.start_soon(serve)
        with pytest.raises(MCPError, match="no such resource"):
            await client.subscribe(["note:///1", "note:///2"]).__aenter__()
        async with client.subscribe(["note:///1"]):
            pass


async def test_unanswered_unsubscribe_is_cancelled_after_its_timeout(autojump_clock: object) -> None:
    """The next subscription to a resource whose unsubscribe timed out sends a new request."""
    async with play(OLD) as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(_accept, script, 2)
        async with client.subscribe(["note:///1", "note:///2"]):
            began = trio.current_time()
        assert trio.current_time() - began <= 1
        # Each in its own task, so in any order.
        sent = Counter([getattr(await script.take_any(), "method", "") for _ in range(4)])
        assert sent == {"resources/unsubscribe": 2, "notifications/cancelled": 2}

        async def serve() -> None:
            request = await script.next_request("resources/subscribe")
            assert request.params is not None
            assert request.params["uri"] == "note:///2"
            await script.answer(request)
            await _accept(script, 1)

        nursery.start_soon(serve)
        async with client.subscribe(["note:///2"]):
            pass


# --- streams


async def acknowledge(script: Script, **notifications: Any) -> Request:
    """Acknowledge a stream; return its request."""
    request = await script.next_request("subscriptions/listen")
    await script.notify(
        "notifications/subscriptions/acknowledged",
        {"_meta": {ID: request.id}, "notifications": notifications or {"toolsListChanged": True}},
    )
    return request


async def test_stream_requests_changes_and_receives_the_accepted_ones() -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            request = await acknowledge(script, toolsListChanged=True)
            assert request.params is not None
            assert request.params["notifications"] == {
                "toolsListChanged": True,
                "resourceSubscriptions": ["note:///1", "note:///2"],
            }

        nursery.start_soon(serve)
        async with client.subscribe(["note:///1", "note:///2", "note:///1"], tools=True) as changes:
            assert changes.honoured is not None
            assert changes.honoured.tools_list_changed
            assert changes.honoured.resource_subscriptions == ()


async def test_stream_receives_only_its_own_notifications() -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:
        ids: list[Any] = []

        async def serve() -> None:
            ids.extend([(await acknowledge(script, toolsListChanged=True)).id for _ in range(2)])

        nursery.start_soon(serve)
        async with client.subscribe(tools=True) as first, client.subscribe(tools=True) as second:
            for id in (ids[1], 10_000, str(ids[0])):
                await script.notify("notifications/tools/list_changed", {"_meta": {ID: id}})
            assert await take(second) == TOOLS
            await wait_all_tasks_blocked()
            assert unread(first) == unread(second) == []


async def test_leaving_a_stream_cancels_its_request() -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(acknowledge, script)
        async with client.subscribe(tools=True) as changes:
            pass
        cancelled = await script.next_notification("notifications/cancelled")
        assert cancelled.params is not None
        assert cancelled.params["requestId"] == changes.id
        await script.expect_nothing()


async def test_refused_stream_raises_at_once() -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.refuse(await script.next_request("subscriptions/listen"), METHOD_NOT_FOUND, "no streams here")

        nursery.start_soon(serve)
        with pytest.raises(MCPError, match="no streams here"):
            await client.subscribe(tools=True).__aenter__()
        await script.expect_nothing()


@pytest.mark.parametrize("result", [{}, {"resultType": "task"}])
async def test_stream_that_ends_before_its_acknowledgement_is_an_error(result: dict[str, Any]) -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.answer(await script.next_request("subscriptions/listen"), result)

        nursery.start_soon(serve)
        with pytest.raises((ConnectionClosed, RemoteProtocolError)):
            await client.subscribe(tools=True).__aenter__()


async def test_unacknowledged_stream_times_out(autojump_clock: object) -> None:
    async with play(NEW, timeouts=ClientTimeouts(idle=30)) as (client, script):
        began = trio.current_time()
        with pytest.raises(MCPTrioError):
            await client.subscribe(tools=True).__aenter__()
        assert trio.current_time() - began == pytest.approx(30)
        request = await script.next_request("subscriptions/listen")
        cancelled = await script.next_notification("notifications/cancelled")
        assert cancelled.params is not None
        assert cancelled.params["requestId"] == request.id


async def test_acknowledged_stream_has_no_deadline(autojump_clock: object) -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:
        nursery.start_soon(acknowledge, script)
        async with client.subscribe(tools=True) as changes:
            await trio.sleep(24 * 3600)
            await script.notify("notifications/tools/list_changed", {"_meta": {ID: changes.id}})
            assert await take(changes) == TOOLS


@pytest.mark.parametrize("how", ["answered", "cancelled", "failed"])
async def test_ended_stream_is_reopened_and_reports_every_change(how: str, autojump_clock: object) -> None:
    """Changes between two streams are not reported, so the client assumes all of them."""
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:
        ids: list[Any] = []

        async def serve() -> None:
            for _ in range(3):
                request = await acknowledge(script, toolsListChanged=True)
                ids.append(request.id)
                await trio.sleep(100)
                if how == "cancelled":
                    await script.notify("notifications/cancelled", {"requestId": request.id})
                    await script.next_notification("notifications/cancelled")
                elif how == "answered":
                    await script.answer(request)
                else:
                    await script.answer(request, {"resultType": "nonsense"})
            ids.append((await acknowledge(script)).id)

        nursery.start_soon(serve)
        async with client.subscribe(["note:///1"], tools=True) as changes:
            for number in range(1, 4):
                with trio.fail_after(200):
                    assert {await changes.__anext__(), await changes.__anext__()} == {
                        TOOLS,
                        Change("resource", "note:///1"),
                    }
                assert changes.id == ids[number]
    assert len(set(ids)) == 4


async def test_stream_that_ends_repeatedly_is_reopened_less_and_less_often(autojump_clock: object) -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:
        times: list[float] = []

        async def serve() -> None:
            while True:
                request = await acknowledge(script)
                times.append(trio.current_time())
                await script.answer(request)

        nursery.start_soon(serve)
        async with client.subscribe(tools=True):
            await trio.sleep(600)
        nursery.cancel_scope.cancel()
    assert 15 < len(times) < 40


async def test_stream_refused_on_reopening_ends_the_subscription(autojump_clock: object) -> None:
    async with play(NEW) as (client, script), trio.open_nursery() as nursery:

        async def serve() -> None:
            await script.answer(await acknowledge(script))
            await script.refuse(await script.next_request("subscriptions/listen"), METHOD_NOT_FOUND, "no longer")

        nursery.start_soon(serve)
        async with client.subscribe(tools=True) as changes:
            with pytest.raises(MCPError, match="no longer"):
                await changes.__anext__()


# --- the end of the connection


@pytest.mark.parametrize("revision", [OLD, NEW])
async def test_closed_connection_is_raised_after_queued_changes(revision: str) -> None:
    async with play(revision) as (client, script), trio.open_nursery() as nursery:
        if revision == NEW:
            nursery.start_soon(acknowledge, script)
        async with client.subscribe(tools=True) as changes:
            meta = {"_meta": {ID: changes.id}} if revision == NEW else {}
            await script.notify("notifications/tools/list_changed", meta)
            await wait_all_tasks_blocked()
            await script.close()
            assert await take(changes) == TOOLS
            with pytest.raises(ConnectionClosed):
                await take(changes)
            with pytest.raises(ConnectionClosed):
                await take(changes)


async def test_waiting_reader_is_woken_when_the_connection_closes() -> None:
    async with play(OLD) as (client, script), client.subscribe(tools=True) as changes, trio.open_nursery() as nursery:

        async def read() -> None:
            with pytest.raises(ConnectionClosed):
                await take(changes)

        nursery.start_soon(read)
        await wait_all_tasks_blocked()
        await script.close()


FORGETFUL = """
import json, sys
subscribed = []
for line in sys.stdin:
    message = json.loads(line)
    params, result = message.get("params") or {}, {}
    if message["method"] == "initialize":
        can = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
        result = {"protocolVersion": "2025-11-25", "capabilities": can, "serverInfo": {"name": "f", "version": "1"}}
    elif message["method"] == "resources/subscribe":
        subscribed.append(params["uri"])
    elif message["method"] == "tools/call" and params["name"] == "die":
        sys.exit(1)
    elif message["method"] == "tools/call":
        result = {"content": [{"type": "text", "text": " ".join(subscribed)}]}
    if "id" in message:
        print(json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}), flush=True)
"""


async def test_subscription_is_renewed_after_a_restart_of_the_server() -> None:
    command = [sys.executable, "-c", FORGETFUL]
    async with connect(command, revision=OLD, restart=True) as client:
        async with client.subscribe(["note:///1"], tools=True) as changes:
            with pytest.raises(ConnectionClosed):
                await client.call_tool("die")
            assert {await take(changes), await take(changes)} == {TOOLS, Change("resource", "note:///1")}
            result = await client.call_tool("show")
            assert result.content == (TextContent(text="note:///1"),)


async def test_subscribing_on_a_closed_client_fails() -> None:
    async with play(OLD) as (client, script):
        await script.close()
        await wait_all_tasks_blocked()
        with pytest.raises(ConnectionClosed):
            await client.subscribe(tools=True).__aenter__()


async def test_unanswered_subscription_times_out(autojump_clock: object) -> None:
    async with play(OLD) as (client, _):
        with pytest.raises(RequestTimeout):
            await client.subscribe(["note:///1"]).__aenter__()
