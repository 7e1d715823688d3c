"""Two servers behind one address, with one store and one bus: each serves every session."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, evolve
from trio.testing import MockClock

from mcptrio import Context, Server
from mcptrio.abc import Principal, SessionRecord, session_topic
from mcptrio.errors import StoreFailed
from mcptrio.http.server.app import HTTPApp
from mcptrio.serving import HTTPLimits, Timeouts
from mcptrio.stores.memory import MemoryBus, MemorySessionStore, memory_stores
from tests.function_guard import FunctionGuard
from tests.runtime.asgi import Reply, exchange, post
from tests.server_options import server_options

__all__: list[str] = []

CAPABILITIES = {"elicitation": {}}


@define(eq=False)
class Replicas:
    servers: list[Server]
    apps: list[HTTPApp]
    nursery: trio.Nursery
    id: int = 0

    async def begin(self, app: int = 0, **headers: str) -> str:
        """Start a session, and return its id."""
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "clientInfo": info}
        reply = await post(self.apps[app], self.request("initialize", params), **headers)
        assert reply.status == 200, reply
        session = reply.headers["mcp-session-id"]
        initialized = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await post(self.apps[app], initialized, mcp_session_id=session, **headers)).status == 202
        return session

    def request(self, method: str, params: Mapping[str, Any] | None = None) -> dict[str, Any]:
        self.id += 1
        return {"jsonrpc": "2.0", "id": self.id, "method": method, "params": dict(params or {})}

    def start(self, app: int, session: str, message: Mapping[str, Any]) -> Reply:
        """Start a POST."""
        reply = Reply()
        headers = {"mcp-session-id": session}
        self.nursery.start_soon(exchange, self.apps[app], "POST", headers, json.dumps(message).encode(), reply)
        return reply


def authenticate_by_header(headers: Mapping[str, str]) -> Principal | None:
    if not headers.get("x-user"):
        return None
    return Principal(subject=headers["x-user"], scopes=frozenset(headers.get("x-scopes", "").split()))


@asynccontextmanager
async def replicas(
    *functions: Callable[..., Any], sessions: MemorySessionStore | None = None, **options: Any
) -> AsyncIterator[Replicas]:
    stores = memory_stores(bus=MemoryBus())
    if sessions is not None:
        stores = evolve(stores, sessions=sessions)
    servers = [Server(**server_options({**options, "stores": stores})) for _ in range(2)]
    for server in servers:
        for function in functions:
            server.add_tool(function)
    guard = FunctionGuard(authenticate_by_header)
    make = partial(HTTPApp, sessions=stores.sessions, events=stores.events, bus=stores.bus, guard=guard)
    async with servers[0].open(), servers[1].open(), trio.open_nursery() as nursery:
        apps = [make(server.supervisor) for server in servers]
        for app in apps:
            await nursery.start(app.run)
        yield Replicas(servers, apps, nursery)
        nursery.cancel_scope.cancel()
    for server in servers:
        assert server.status.in_flight == 0


async def name(ctx: Context) -> str:
    """Ask."""
    return str(await ctx.ask("name?", str))


async def test_session_continues_on_the_other_replica(autojump_clock: MockClock) -> None:
    async def who(ctx: Context) -> str:
        assert ctx.client_info is not None
        return ctx.client_info.name

    async with replicas(who) as both:
        session = await both.begin(0)
        reply = await post(both.apps[1], both.request("tools/call", {"name": "who"}), mcp_session_id=session)
        assert reply.messages[0]["result"]["content"][0]["text"] == "raw"


async def test_response_reaches_its_request_on_the_other_replica(autojump_clock: MockClock) -> None:
    async with replicas(name) as both:
        session = await both.begin(0)
        call = both.start(0, session, both.request("tools/call", {"name": "name"}))
        asked = await call.next()
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"value": "Ann"}}}
        assert (await post(both.apps[1], answer, mcp_session_id=session)).status == 202
        assert (await call.next())["result"]["content"][0]["text"] == "Ann"


async def test_cancellation_reaches_its_request_on_the_other_replica(autojump_clock: MockClock) -> None:
    cancelled: list[str | None] = []

    async def endless(ctx: Context) -> str:
        try:
            await trio.sleep_forever()
        finally:
            cancelled.append(ctx.cancel_reason)
        return "unreachable"

    async with replicas(endless) as both:
        session = await both.begin(0)
        request = both.request("tools/call", {"name": "endless"})
        call = both.start(0, session, request)
        await trio.sleep(5)
        params = {"requestId": request["id"], "reason": "enough"}
        cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": params}
        assert (await post(both.apps[1], cancel, mcp_session_id=session)).status == 202
        await call.ended.wait()
        assert cancelled == ["enough"]


async def test_call_runs_on_one_replica_despite_other_session_changes(autojump_clock: MockClock) -> None:
    """A change of the session by one request is not mistaken for that of another request."""
    runs: list[int] = []
    go = trio.Event()

    async def effect() -> str:
        runs.append(1)
        await go.wait()
        return "done"

    async def change(ctx: Context) -> str:
        """Change the record, and respond later than the other call."""
        ctx._scope.session.set_log_level("error")
        go.set()
        await trio.sleep(0.5)
        return "changed"

    async with replicas(effect, change) as both:
        session = await both.begin(0)
        await post(both.apps[1], both.request("ping"), mcp_session_id=session)
        calls = [both.start(0, session, both.request("tools/call", {"name": tool})) for tool in ("effect", "change")]
        for call in calls:
            await call.ended.wait()
        await trio.sleep(10)
        assert runs == [1]


async def test_log_level_set_on_one_replica_applies_on_the_other(autojump_clock: MockClock) -> None:
    async def speak(ctx: Context) -> str:
        await ctx.info("hello")
        return "done"

    async with replicas(speak) as both:
        session = await both.begin(0)
        heard = await post(both.apps[1], both.request("tools/call", {"name": "speak"}), mcp_session_id=session)
        assert len(heard.messages) == 2
        await post(both.apps[0], both.request("logging/setLevel", {"level": "error"}), mcp_session_id=session)
        await trio.sleep(1)
        heard = await post(both.apps[1], both.request("tools/call", {"name": "speak"}), mcp_session_id=session)
        assert len(heard.messages) == 1


async def test_session_deleted_on_one_replica_ends_on_the_other(autojump_clock: MockClock) -> None:
    ended: list[int] = []

    async def endless() -> str:
        try:
            await trio.sleep_forever()
        finally:
            ended.append(1)
        return "unreachable"

    async with replicas(endless) as both:
        session = await both.begin(0)
        call = both.start(0, session, both.request("tools/call", {"name": "endless"}))
        await trio.sleep(5)
        reply = Reply()
        await exchange(both.apps[1], "DELETE", {"mcp-session-id": session}, b"", reply)
        assert reply.status == 204
        await call.ended.wait()
        assert ended == [1]
        assert (await post(both.apps[0], both.request("ping"), mcp_session_id=session)).status == 404


async def test_session_is_available_to_its_own_principal_only(autojump_clock: MockClock) -> None:
    async with replicas() as both:
        session = await both.begin(0, x_user="ann")
        for app in both.apps:
            for others in ({}, {"x_user": "bob"}):
                assert (await post(app, both.request("ping"), mcp_session_id=session, **others)).status == 404
            assert (await post(app, both.request("ping"), mcp_session_id=session, x_user="ann")).status == 200


async def test_handler_receives_the_token_of_its_own_request(autojump_clock: MockClock) -> None:
    """It must not be the token of the session's first request, because scopes are granted and revoked meanwhile."""

    async def may(ctx: Context) -> str:
        await trio.sleep(0.5)
        assert ctx.principal is not None
        return " ".join(sorted(ctx.principal.scopes))

    async with replicas(may) as both:
        session = await both.begin(0, x_user="ann", x_scopes="read write")
        seen = {}

        async def call(scopes: str) -> None:
            message = both.request("tools/call", {"name": "may"})
            reply = await post(both.apps[0], message, mcp_session_id=session, x_user="ann", x_scopes=scopes)
            seen[scopes] = reply.messages[0]["result"]["content"][0]["text"]

        async with trio.open_nursery() as nursery:
            for scopes in ("read", "admin read write", ""):
                nursery.start_soon(call, scopes)
        assert all(scopes == got for scopes, got in seen.items())


async def test_session_without_ping_answers_can_be_resumed(autojump_clock: MockClock) -> None:
    """Its local part has ended properly: nothing hangs, and all counts return to zero."""
    async with replicas(ping_interval=10, timeouts=Timeouts(ping=5)) as both:
        session = await both.begin(0)
        stream = Reply()
        headers = {"mcp-session-id": session}
        both.nursery.start_soon(exchange, both.apps[0], "GET", headers, b"", stream)
        await stream.began.wait()
        await trio.sleep(60)
        assert both.servers[0].status.sessions == ()
        with trio.fail_after(20):
            for _ in range(3):
                assert (await post(both.apps[0], both.request("ping"), mcp_session_id=session)).status == 200
        assert both.servers[0].supervisor.in_flight == 0


def listen(both: Replicas, app: int, session: str, **headers: str) -> Reply:
    """Open a GET that stays open."""
    reply = Reply()
    named = {"mcp-session-id": session, **{name.replace("_", "-"): value for name, value in headers.items()}}
    both.nursery.start_soon(exchange, both.apps[app], "GET", named, b"", reply)
    return reply


async def changed(both: Replicas, name: str) -> None:
    """Change the list of tools, and wait until every replica has received the change."""

    async def work() -> str:
        return ""

    both.servers[0].add_tool(work, name=name)
    await trio.sleep(2)


async def test_newer_listening_stream_delivers_on_any_replica(autojump_clock: MockClock) -> None:
    async with replicas(name) as both:
        session = await both.begin(0)
        first = listen(both, 0, session)
        await trio.sleep(1)
        second = listen(both, 1, session)
        await trio.sleep(1)
        # A stream that follows another one begins with a report that everything may have changed.
        assert (len(first.messages), len(second.messages)) == (0, 1)
        await changed(both, "one")
        assert (len(first.messages), len(second.messages)) == (0, 2)
        third = listen(both, 0, session)
        await trio.sleep(1)
        await changed(both, "two")
        assert [len(each.messages) for each in (first, second, third)] == [0, 2, 2]


async def test_older_listening_stream_delivers_again_after_the_newer_disconnects(autojump_clock: MockClock) -> None:
    async with replicas(name) as both:
        session = await both.begin(0)
        first = listen(both, 0, session)
        await trio.sleep(1)
        second = listen(both, 1, session)
        await trio.sleep(1)
        second.disconnect()
        # The messages for the disconnected client are kept for this time, in case it reconnects.
        await trio.sleep(HTTPLimits().resume_timeout + 10)
        # The notifications of the time between are replaced by a report that everything may have changed.
        assert len(first.messages) == 1
        await changed(both, "one")
        assert len(first.messages) == 2


async def test_stream_resumed_on_another_replica_ends_on_the_first(autojump_clock: MockClock) -> None:
    async with replicas(name) as both:
        session = await both.begin(0)
        call = both.start(0, session, both.request("tools/call", {"name": "name"}))
        asked = await call.next()
        cursor = call.ids[0]
        readers = []
        for _ in range(2):
            readers.append(listen(both, 1, session, last_event_id=cursor))
            await trio.sleep(1)
        assert call.ended.is_set()
        assert [len(reader.messages) for reader in readers] == [1, 1]
        answer = {"jsonrpc": "2.0", "id": asked["id"], "result": {"action": "accept", "content": {"value": "Ann"}}}
        assert (await post(both.apps[1], answer, mcp_session_id=session)).status == 202
        await trio.sleep(1)
        # Only the response that resumed last receives the result.
        assert [len(reply.messages) for reply in (call, *readers)] == [1, 1, 2]


class StalledStore(MemorySessionStore):
    """A store that saves nothing while its engine is unreachable."""

    is_away = False

    async def save(self, record: SessionRecord) -> SessionRecord | None:
        if self.is_away:
            raise StoreFailed("the engine does not answer")
        return await super().save(record)


class SlowStore(MemorySessionStore):
    """A store whose saves and loads take a second, as over a slow network; it counts them."""

    calls = 0

    async def save(self, record: SessionRecord) -> SessionRecord | None:
        await self._wait()
        return await super().save(record)

    async def load(self, id: str) -> SessionRecord | None:
        found = await super().load(id)
        await self._wait()
        return found

    async def _wait(self) -> None:
        self.calls += 1
        await trio.sleep(1)


async def test_changes_made_while_the_record_is_stored_are_stored_too(autojump_clock: MockClock) -> None:
    store = SlowStore()
    async with replicas(name, sessions=store) as both:
        both.servers[0].add_resource(page, uri="doc:///page")
        session = await both.begin()
        before = store.calls
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                change = partial(post, both.apps[0], mcp_session_id=session)
                nursery.start_soon(change, both.request("logging/setLevel", {"level": "debug"}))
                # Each load takes a second, so the second change is made while the first one is being stored.
                await trio.sleep(0.5)
                nursery.start_soon(change, both.request("resources/subscribe", {"uri": "doc:///page"}))
        record = await store.load(session)

        assert record is not None
        assert (record.log_level, record.subscriptions) == ("debug", frozenset({"doc:///page"}))
        assert store.calls - before < 10


async def test_change_announced_while_another_is_loaded_is_loaded_too(autojump_clock: MockClock) -> None:
    store = SlowStore()
    async with replicas(name, sessions=store) as both:
        session = await both.begin(0)
        stream = listen(both, 1, session)
        await trio.sleep(5)
        here = both.apps[1]._sessions._local[session]
        assert both.servers[0].stores is not None
        bus = both.servers[0].stores.bus
        assert bus is not None
        for number in range(4):
            # The other replica announces each change half a second after loading of the previous one has begun.
            stored = await MemorySessionStore.load(store, session)
            assert stored is not None
            await MemorySessionStore.save(store, evolve(stored, subscriptions=frozenset({f"doc:///{number}"})))
            bus.publish(session_topic(session), b"record %d other" % (stored.generation + 1))
            await trio.sleep(0.5)
        await trio.sleep(3)

        assert here.peer.record is not None
        assert here.peer.record.subscriptions == frozenset({"doc:///3"})
        stream.disconnect()


async def page() -> str:
    """A page."""
    return "text"


@pytest.mark.parametrize(
    ("method", "params"), [("resources/subscribe", {"uri": "doc:///page"}), ("logging/setLevel", {"level": "debug"})]
)
async def test_change_of_session_is_refused_until_it_is_stored(
    method: str, params: dict[str, Any], autojump_clock: MockClock
) -> None:
    """Otherwise a client would rely on a subscription that ends with this replica."""
    store = StalledStore()
    async with replicas(name, sessions=store) as both:
        both.servers[0].add_resource(page, uri="doc:///page")
        session = await both.begin()
        store.is_away = True

        refused = await post(both.apps[0], both.request(method, params), mcp_session_id=session)
        store.is_away = False
        accepted = await post(both.apps[0], both.request(method, params), mcp_session_id=session)

        assert (refused.status, accepted.status) == (503, 200)


async def test_readiness_of_client_is_refused_until_it_is_stored(autojump_clock: MockClock) -> None:
    store = StalledStore()
    async with replicas(name, sessions=store) as both:
        info = {"name": "raw", "version": "1"}
        params = {"protocolVersion": "2025-11-25", "capabilities": CAPABILITIES, "clientInfo": info}
        session = (await post(both.apps[0], both.request("initialize", params))).headers["mcp-session-id"]
        ready = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        store.is_away = True

        refused = await post(both.apps[0], ready, mcp_session_id=session)
        store.is_away = False
        accepted = await post(both.apps[0], ready, mcp_session_id=session)

        assert (refused.status, accepted.status) == (503, 202)


async def test_stream_that_could_not_be_stored_does_not_replace_a_later_one(autojump_clock: MockClock) -> None:
    store = StalledStore()
    async with replicas(name, sessions=store) as both:
        session = await both.begin()
        # Both replicas have a local part of the session.
        await post(both.apps[1], both.request("tools/list"), mcp_session_id=session)
        store.is_away = True
        refused = listen(both, 0, session)
        await trio.sleep(1)
        store.is_away = False
        stream = listen(both, 1, session)
        # Every few seconds, a replica stores what it could not store before.
        await trio.sleep(30)
        await changed(both, "one")

        assert refused.status == 503
        assert [message["method"] for message in stream.messages][-1:] == ["notifications/tools/list_changed"]
        stream.disconnect()
