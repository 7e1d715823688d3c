"""Sessions that the server has forgotten, and servers that restart with another revision or transport."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from mcptrio import Client, ConnectionClosed, Server, connect
from mcptrio.client import Change, Changes, ClientTimeouts
from mcptrio.errors import RequestFailed, SessionLost
from mcptrio.serve.http import serve_http
from tests.error_codes import (
    HEADER_MISMATCH,
    INVALID_PARAMS,
    INVALID_REQUEST,
    METHOD_NOT_FOUND,
    UNSUPPORTED_PROTOCOL_VERSION,
)
from tests.http.web import ReceivedRequest, Wire, answer, eventually, serving
from tests.interaction.applies import HANDSHAKE

__all__: list[str] = []

OLD = "2025-11-25"
TOOLS = Change("tools")
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"


def early() -> str:
    """The first tool."""
    return ""


async def take(changes: Changes) -> Change:
    with trio.fail_after(60):
        return await changes.__anext__()


class Forgetful:
    """A server that forgets its session when a test requires it."""

    def __init__(self) -> None:
        self.session = 1
        self.has_sessions = True
        self.subscribed: list[tuple[str, str]] = []
        self.refuses = False
        """Whether it refuses new sessions."""
        self.slow = trio.Event()
        """Unset while handshakes must wait."""
        self.slow.set()
        self.lost_at = ""
        """The method at which the server forgets every session."""

    async def __call__(self, seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "DELETE":
            await wire.reply(status=204)
            return
        message = seen.message if seen.method == "POST" else {}
        method, id = message.get("method"), seen.headers.get("mcp-session-id")
        if method == "initialize":
            await self.slow.wait()
            can = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
            result = {"protocolVersion": OLD, "capabilities": can, "serverInfo": {"name": "f", "version": "1"}}
            if self.refuses:
                await wire.reply("no sessions today", 503)
            else:
                headers = {"mcp_session_id": str(self.session)} if self.has_sessions else {}
                await wire.reply(answer(seen, **result), **headers)
        elif (self.has_sessions and id != str(self.session)) or method == self.lost_at:
            await wire.reply("who are you?", 404)
        elif seen.method == "GET":
            await wire.reply(status=405)
        elif "id" not in message:
            await wire.reply(status=202)
        else:
            if method == "resources/subscribe":
                self.subscribed.append((id, message["params"]["uri"]))
            await wire.reply(answer(seen, content=[]))


@asynccontextmanager
async def forgetful(**options: Any) -> AsyncIterator[tuple[Client, Forgetful]]:
    site = Forgetful()
    with trio.fail_after(60):
        async with serving(site) as web, connect(web.url, revision=OLD, ping_interval=0, **options) as client:
            yield client, site


@pytest.mark.parametrize("revision", [HANDSHAKE[1], HANDSHAKE[-1]])
async def test_subscription_survives_a_server_restart_without_a_request(revision: str) -> None:
    """Only the stream of the session can report that the server has forgotten it."""
    with trio.fail_after(60):
        async with trio.open_nursery() as nursery:
            first = await nursery.start(_serve, _with_tool(), 0)
            port = first.port
            async with (
                connect(f"http://127.0.0.1:{port}/mcp", revision=revision, restart=True, ping_interval=0) as client,
                client.subscribe(tools=True) as changes,
            ):
                await first.stop()
                server = _with_tool()
                await nursery.start(_serve, server, port)
                assert await take(changes) == TOOLS
                server.add_tool(early, name="late")
                assert await take(changes) == TOOLS
                nursery.cancel_scope.cancel()


def _with_tool() -> Server:
    server = Server()
    server.add_tool(early)
    return server


class _Served:
    def __init__(self, port: int) -> None:
        self.port = port
        self.scope = trio.CancelScope()
        self.stopped = trio.Event()

    async def stop(self) -> None:
        self.scope.cancel()
        await self.stopped.wait()


async def _serve(server: Server, port: int, *, task_status: trio.TaskStatus[_Served]) -> None:
    async with trio.open_nursery() as nursery:
        [url, *_] = await nursery.start(partial(serve_http, server, port=port))
        served = _Served(int(url.rsplit(":", 1)[1].split("/")[0]))
        with served.scope:
            task_status.started(served)
            await trio.sleep_forever()
        nursery.cancel_scope.cancel()
    served.stopped.set()


async def test_ping_detects_a_lost_session() -> None:
    site = Forgetful()
    with trio.fail_after(60):
        async with serving(site) as web, connect(web.url, revision=OLD, ping_interval=0.1) as client:
            async with client.subscribe(["note:///1"]) as changes:
                site.session = 2
                assert await take(changes) == Change("resource", "note:///1")
                assert site.subscribed == [("1", "note:///1"), ("2", "note:///1")]


async def test_cancelled_call_during_session_renewal_keeps_all_subscriptions() -> None:
    uris = [f"note:///{number}" for number in range(20)]
    async with forgetful() as (client, site), client.subscribe(uris) as changes:
        site.session, site.slow = 2, trio.Event()
        with trio.move_on_after(0.05):
            await client.call_tool("work")
        site.slow.set()
        assert {await take(changes) for _ in uris} == {Change("resource", uri) for uri in uris}
        assert site.subscribed == [("1", uri) for uri in uris] + [("2", uri) for uri in uris]


async def test_call_waits_for_a_new_session_up_to_its_timeout() -> None:
    async with forgetful() as (client, site):
        site.session, site.slow = 2, trio.Event()
        began = trio.current_time()
        with pytest.raises(ConnectionClosed, match=r"not connected again within 0\.2 s"):
            await client.call_tool("work", timeout=0.2)
        assert trio.current_time() - began < 10
        site.slow.set()
        await client.call_tool("work")


async def test_call_raises_the_error_of_a_failed_session_renewal() -> None:
    async with forgetful() as (client, site):
        site.session, site.refuses = 2, True
        with pytest.raises(RequestFailed, match="no sessions today"):
            await client.call_tool("work")
        site.refuses = False
        await client.call_tool("work")


async def test_session_lost_during_the_handshake_raises_session_lost() -> None:
    site = Forgetful()
    site.lost_at = "notifications/initialized"
    with trio.fail_after(60):
        async with serving(site) as web:
            with pytest.raises(SessionLost, match="forgotten the session"):
                await connect(web.url, revision=OLD).__aenter__()


LIVES = """
import json, pathlib, sys
starts = pathlib.Path(sys.argv[1])
number = len(starts.read_text())
starts.write_text("x" * (number + 1))
era = sys.argv[2].split()[number]
SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
TOOLS = {"tools": {"listChanged": True}}

def send(**message):
    print(json.dumps({"jsonrpc": "2.0", **message}), flush=True)

stream = None
for line in sys.stdin:
    message = json.loads(line)
    method, id = message["method"], message.get("id")
    if method == "initialize" and era == "old":
        info = {"name": "lives", "version": "1"}
        send(id=id, result={"protocolVersion": "2025-11-25", "capabilities": TOOLS, "serverInfo": info})
    elif method == "server/discover" and era == "new":
        result = {"supportedVersions": ["2026-07-28"], "capabilities": TOOLS}
        send(id=id, result={"resultType": "complete", "ttlMs": 0, "cacheScope": "private", **result})
    elif method == "subscriptions/listen" and era == "new":
        stream = {"_meta": {SUBSCRIPTION: id}}
        honoured = {"notifications": {"toolsListChanged": True}}
        send(method="notifications/subscriptions/acknowledged", params={**stream, **honoured})
    elif method == "tools/call" and message["params"]["name"] == "die":
        sys.exit(1)
    elif method == "tools/call":
        send(method="notifications/tools/list_changed", **({"params": stream} if stream else {}))
        send(id=id, result={"resultType": "complete", "content": []})
    elif id is not None:
        send(id=id, error={"code": -32601, "message": "no such method"})
"""


@pytest.mark.parametrize(("first", "then"), [("old", "new"), ("new", "old")])
async def test_subscription_survives_a_restart_with_another_revision(first: str, then: str, tmp_path: Path) -> None:
    starts = tmp_path / "starts"
    starts.touch()
    command = [sys.executable, "-c", LIVES, str(starts), f"{first} {then} {then} {then}"]
    with trio.fail_after(60):
        async with connect(command, restart=True) as client, client.subscribe(tools=True) as changes:
            before = client.revision
            with pytest.raises(ConnectionClosed):
                await client.call_tool("die")
            assert await take(changes) == TOOLS
            await client.call_tool("change")
            assert await take(changes) == TOOLS
            assert client.revision != before


async def test_client_reconnects_over_another_transport() -> None:
    """First HTTP with SSE only; later Streamable HTTP at the same URL."""
    streams: list[Wire] = []
    modern = False
    site = Forgetful()

    async def serve(seen: ReceivedRequest, wire: Wire) -> None:
        if modern:
            await site(seen, wire)
        elif seen.method == "GET":
            streams.append(wire)
            await wire.stream()
            await wire.chunk(b"event: endpoint\ndata: /messages\n\n")
            await wire.wait_closed()
        elif seen.target == "/messages":
            await wire.reply(status=202)
            if seen.message["method"] == "initialize":
                result = {
                    "protocolVersion": "2024-11-05",
                    "capabilities": {},
                    "serverInfo": {"name": "s", "version": "1"},
                }
                await streams[-1].event(answer(seen, **result))
        else:
            await wire.reply(status=405)

    with trio.fail_after(60):
        async with serving(serve) as web, connect(web.url, restart=True, timeouts=ClientTimeouts(probe=0.1)) as client:
            assert client.revision == "2024-11-05"
            modern = True
            streams[-1].socket.socket.shutdown(1)
            await eventually(lambda: client.revision == OLD)
            await client.call_tool("work")


@pytest.mark.parametrize("has_sessions", [True, False])
async def test_client_negotiates_again_with_an_http_server_of_a_newer_revision(has_sessions: bool) -> None:
    site = Forgetful()
    site.has_sessions = has_sessions
    modern = False

    async def serve(seen: ReceivedRequest, wire: Wire) -> None:
        if not modern:
            await site(seen, wire)
            return
        if seen.method != "POST":
            await wire.reply(status=405)
            return
        message = seen.message
        if seen.headers.get("mcp-protocol-version") != "2026-07-28":
            data = {"supported": ["2026-07-28"], "requested": OLD}
            error = {"code": UNSUPPORTED_PROTOCOL_VERSION, "message": "unsupported protocol version", "data": data}
            await wire.reply({"jsonrpc": "2.0", "id": message.get("id"), "error": error}, status=400)
        elif message["method"] == "server/discover":
            can = {"supportedVersions": ["2026-07-28"], "capabilities": {"tools": {"listChanged": True}}}
            await wire.reply(answer(seen, resultType="complete", ttlMs=0, cacheScope="private", **can))
        elif message["method"] == "subscriptions/listen":
            notification = {"_meta": {SUBSCRIPTION: message["id"]}, "notifications": {"toolsListChanged": True}}
            acknowledged = {"method": "notifications/subscriptions/acknowledged", "params": notification}
            await wire.stream()
            await wire.event({"jsonrpc": "2.0", **acknowledged})
            await wire.wait_closed()
        else:
            await wire.reply(answer(seen, resultType="complete", content=[]))

    with trio.fail_after(60):
        async with serving(serve) as web, connect(web.url, ping_interval=0) as client:
            assert client.revision == OLD
            async with client.subscribe(tools=True) as changes:
                modern = True
                assert (await client.call_tool("work")).content == ()
                assert client.revision == "2026-07-28"
                assert await take(changes) == TOOLS


MODERN = "2026-07-28"


class Replaced:
    """An HTTP server of one era, replaced at the same URL by one of the other, with its own error responses."""

    def __init__(self, *, is_old: bool) -> None:
        self.is_old = is_old
        self.refusal: tuple[int, Any] = (400, "not in this era")
        self.calls = 0
        self.refuses_call: int | None = None
        """The status of each call; other requests are answered."""

    async def __call__(self, seen: ReceivedRequest, wire: Wire) -> None:
        message = seen.message if seen.method == "POST" else {}
        method = message.get("method")
        if seen.method != "POST":
            await wire.reply(status=405)
        elif self.is_old != (seen.headers.get("mcp-protocol-version") != MODERN):
            status, body = self.refusal
            await wire.reply(body, status)
        elif method == "initialize":
            result = {
                "protocolVersion": OLD,
                "capabilities": {"tools": {}},
                "serverInfo": {"name": "f", "version": "1"},
            }
            await wire.reply(answer(seen, **result))
        elif method == "server/discover":
            can = {"supportedVersions": [MODERN], "capabilities": {"tools": {}}}
            await wire.reply(answer(seen, resultType="complete", ttlMs=0, cacheScope="private", **can))
        elif "id" not in message:
            await wire.reply(status=202)
        else:
            self.calls += method == "tools/call"
            if self.refuses_call is not None and method == "tools/call":
                await wire.reply("not this one", self.refuses_call)
            else:
                await wire.reply(answer(seen, resultType="complete", content=[]))


def error(code: int, message: str, **data: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message, "data": data}}


OF_OLD = {
    "session wanted": (400, error(-32000, "Bad Request: Mcp-Session-Id header is required")),
    "no session": (400, error(INVALID_REQUEST, "Bad Request: Missing session ID")),
    "version": (400, error(-32000, "Bad Request: Unsupported protocol version")),
    "text": (400, "who are you?"),
    "nothing found": (404, "Session not found"),
}
OF_NEW = {
    "version": (400, error(UNSUPPORTED_PROTOCOL_VERSION, "unsupported", supported=[MODERN])),
    "headers": (400, error(HEADER_MISMATCH, "header mismatch: Mcp-Method is missing")),
    "envelope": (400, error(INVALID_PARAMS, "_meta is missing")),
    "method": (404, error(METHOD_NOT_FOUND, "no such method")),
}


@pytest.mark.parametrize(
    ("was_old", "refusal"),
    [
        *(pytest.param(False, refusal, id=f"new to old, {name}") for name, refusal in OF_OLD.items()),
        *(pytest.param(True, refusal, id=f"old to new, {name}") for name, refusal in OF_NEW.items()),
    ],
)
async def test_http_server_replaced_by_one_of_the_other_era_is_negotiated_again(
    was_old: bool, refusal: tuple[int, Any]
) -> None:
    site = Replaced(is_old=was_old)
    with trio.fail_after(60):
        async with serving(site) as web, connect(web.url, ping_interval=0) as client:
            await client.call_tool("work")
            site.is_old, site.refusal = not was_old, refusal
            assert (await client.call_tool("work")).content == ()
            assert client.revision == (MODERN if was_old else OLD)
            assert site.calls == 2


@pytest.mark.parametrize("is_old", [True, False])
async def test_call_refused_by_a_server_of_the_same_era_is_sent_once(is_old: bool) -> None:
    site = Replaced(is_old=is_old)
    with trio.fail_after(60):
        async with serving(site) as web, connect(web.url, ping_interval=0) as client:
            site.refuses_call = 400
            with pytest.raises(RequestFailed, match="not this one"):
                await client.call_tool("work")
            assert site.calls == 1
