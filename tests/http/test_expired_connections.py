"""Open connections end when the token that they were opened with becomes invalid.

Source: MCP 2026-07-28, basic/authorization, "Token Handling"; RFC 6455 section 7.4.1.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
from attrs import define

from mcptrio import Server
from mcptrio.abc import Guard, Principal, RequestHead
from mcptrio.errors import AuthorizationError
from mcptrio.http.server.reauthorization import Reauthorization
from mcptrio.serve.auth_config import guard_of
from mcptrio.serve.config import load_config
from mcptrio.serve.http import serve_http
from mcptrio.serving import (
    HTTPOptions,
)
from tests.auth.server_parts import ISSUER, RESOURCE, Clock, Issuer
from tests.function_guard import FunctionGuard

from .conftest import MODERN, Client, modern_headers
from .raw_websocket import Socket, upgrade

__all__: list[str] = []

BEARER = {"authorization": "Bearer ada"}
INITIALIZE = {
    "jsonrpc": "2.0",
    "id": 1,
    "method": "initialize",
    "params": {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}},
}


@define
class Site:
    client: Client
    revoked: bool = False

    def accept(self, headers: Mapping[str, str]) -> Principal:
        if self.revoked or headers.get("authorization") != BEARER["authorization"]:
            raise AuthorizationError("the token is not good")
        return Principal(subject="ada")


@asynccontextmanager
async def serving(guard: Guard | None = None) -> AsyncIterator[Site]:
    server = Server()
    server.add_resource(memo, "memo://{name}")
    async with trio.open_nursery() as nursery, httpx2.AsyncClient(timeout=60, headers=BEARER) as http:
        here = Site(Client(http, 0))

        async def serve(*, task_status: trio.TaskStatus[Any]) -> None:
            options = HTTPOptions(auth=guard or FunctionGuard(here.accept))
            await serve_http(server, port=0, options=options, task_status=task_status)

        (url, *_) = await nursery.start(serve)
        http.base_url = url.removesuffix("/mcp")
        here.client.port = int(url.rpartition(":")[2].partition("/")[0])
        yield here
        nursery.cancel_scope.cancel()


async def memo(name: str) -> str:
    return name


async def test_websocket_is_closed_when_its_token_expires() -> None:
    async with serving() as here:
        port = here.client.port
        socket = await Socket.open(port, upgrade(port, "/ws", "Authorization: Bearer ada"))
        async with socket.stream:
            await socket.message(INITIALIZE)
            assert (await socket.receive())["result"]["protocolVersion"] == "2025-11-25"
            here.revoked = True
            assert await socket.receive() == 1008


@pytest.mark.parametrize("resumed", [False, True])
async def test_session_stream_ends_when_its_token_expires(resumed: bool) -> None:
    async with serving() as here:
        await here.client.initialize(**BEARER)
        async with here.client.stream("GET", **BEARER) as first:
            event = await first.next()
            assert event is not None
            if not resumed:
                here.revoked = True
                assert await first.rest() == []
                return
        async with here.client.stream("GET", **BEARER, last_event_id=event["id"]) as again:
            assert again.status == 200
            here.revoked = True
            assert await again.rest() == []


async def test_stream_ends_when_introspection_reports_its_token_inactive(tmp_path: Path) -> None:
    """The stream ends when requests with the token are refused, although ``auth.limits.remember`` is a minute."""
    issuer = Issuer(clock=Clock(time.time()))
    issuer.active["ada"] = {"active": True, "sub": "ada", "aud": RESOURCE, "token_type": "Bearer"}
    table = f'resource = "{RESOURCE}"\nissuers = ["{ISSUER}"]\nintrospection = {{ client_id = "mcp", remember = 1 }}\n'
    (tmp_path / "mcptrio.toml").write_text(f"[auth]\n{table}")
    guard = guard_of(load_config(tmp_path / "mcptrio.toml"), fetch=issuer, environ={})
    async with serving(guard) as here:
        await here.client.initialize(**BEARER)
        async with here.client.stream("GET", **BEARER) as events:
            assert await events.next() is not None
            issuer.active["ada"] = {"active": False}
            began = trio.current_time()
            assert await events.rest() == []
            assert trio.current_time() - began < 30


async def test_subscription_of_the_newest_revision_ends_when_its_token_expires() -> None:
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "subscriptions/listen",
        "params": {
            "notifications": {"resourceSubscriptions": ["memo://a"]},
            "_meta": {
                "io.modelcontextprotocol/protocolVersion": MODERN,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": {"name": "t", "version": "1"},
            },
        },
    }
    async with serving() as here, here.client.stream("POST", message, **modern_headers(message), **BEARER) as events:
        first = await events.next()
        assert first is not None
        assert first["data"]["method"] == "notifications/subscriptions/acknowledged"
        here.revoked = True
        assert await events.rest() == []


async def test_legacy_sse_session_ends_when_its_token_expires() -> None:
    async with serving() as here:
        request = (
            "GET /sse HTTP/1.1\r\nhost: localhost\r\naccept: text/event-stream\r\nauthorization: Bearer ada\r\n\r\n"
        )
        async with await trio.open_tcp_stream("127.0.0.1", here.client.port) as stream:
            with trio.fail_after(60):
                await stream.send_all(request.encode())
                data = b""
                while b"event: endpoint" not in data:
                    data += await stream.receive_some()
                here.revoked = True
                while not data.endswith(b"0\r\n\r\n"):
                    part = await stream.receive_some()
                    assert part
                    data += part


async def test_stream_stays_open_while_its_token_is_valid() -> None:
    async with serving() as here:
        await here.client.initialize(**BEARER)
        async with here.client.stream("GET", **BEARER) as events:
            await events.next()
            with trio.move_on_after(0.3) as scope:
                await events.rest()
            assert scope.cancelled_caught


async def test_ended_streams_are_removed_from_the_token_checks() -> None:
    """A client may open and close thousands of streams before the guard checks their tokens again."""

    def accept(headers: Mapping[str, str]) -> Principal:
        return Principal(subject="ada")

    reauthorization = Reauthorization(Server().supervisor, FunctionGuard(accept))
    open_exchanges = [
        reauthorization.admit(RequestHead(method="POST", url="http://a/mcp", headers={}), Principal(subject="ada"))
        for _ in range(50)
    ]
    for admitted in open_exchanges:
        admitted.watch(lambda: None)
    for _ in range(1000):
        admitted = reauthorization.admit(
            RequestHead(method="POST", url="http://a/mcp", headers={}), Principal(subject="ada")
        )
        admitted.watch(lambda: None)
        admitted.forget()
        assert len(reauthorization) < 350
    for admitted in open_exchanges:
        admitted.forget()
    assert len(reauthorization) < 350
