"""A whole server on a socket, for tests of HTTP with SSE."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio
from attrs import define, field

from mcptrio import Context, Server, tool
from mcptrio.http.engine.limits import ConnectionLimits
from mcptrio.http.engine.server import serve_asgi as serve
from mcptrio.http.server.app import HTTPApp
from mcptrio.serve.http_options import make_http_app
from mcptrio.serving import HTTPOptions
from tests.interaction.client import Peer
from tests.interaction.wires import SSEWire
from tests.server_options import server_options

from .web import eventually

__all__ = ["PING", "Site", "Work", "call", "greet", "site", "status"]

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


@define(eq=False)
class Work:
    """Tools that wait, and talk."""

    notes: list[str] = field(factory=list)
    begun: trio.Event = field(factory=trio.Event)
    ended: trio.Event = field(factory=trio.Event)
    release: trio.Event = field(factory=trio.Event)

    @tool
    async def hold(self, ctx: Context) -> str:
        """Wait until released."""
        self.begun.set()
        try:
            await self.release.wait()
        except trio.Cancelled:
            self.notes.append("cancelled")
            raise
        finally:
            self.ended.set()
        return "released"

    @tool
    async def talk(self) -> str:
        """Return more than sockets hold."""
        return "x" * 20_000_000

    @tool
    async def whoami(self, ctx: Context) -> str:
        """Return the caller."""
        return ctx.principal.subject if ctx.principal else "nobody"


@define(eq=False)
class Site:
    """A server that serves."""

    port: int
    server: Server
    work: Work
    nursery: trio.Nursery
    shutdown: trio.Event
    app: HTTPApp

    @asynccontextmanager
    async def wire(self, **options: Any) -> AsyncIterator[SSEWire]:
        """A stream that was asked for."""
        wire = SSEWire(self.port, **options)
        try:
            await wire.open()
            yield wire
        finally:
            await wire.aclose()

    @asynccontextmanager
    async def peer(self, revision: str = "2025-11-25", **options: Any) -> AsyncIterator[Peer]:
        """A client that has shaken hands."""
        async with self.wire(**options) as wire:
            peer = Peer(revision=revision, wire=wire, nursery=self.nursery)
            await self.nursery.start(peer.run)
            await peer.begin()
            yield peer


@asynccontextmanager
async def site(
    options: HTTPOptions | None = None,
    *,
    wrap: Any = None,
    connection: ConnectionLimits | None = None,
    **more: Any,
) -> AsyncIterator[Site]:
    """A whole server on a socket; at the end nothing is left of any session."""
    work = Work()
    server = Server("tested", version="7", plugins=[work], **server_options(more))
    shutdown = trio.Event()
    with trio.fail_after(60):
        async with server.open(), trio.open_nursery() as nursery:
            app = make_http_app(server, options or HTTPOptions())
            await nursery.start(app.run)
            served: Any = wrap(app) if wrap is not None else app
            [url] = await nursery.start(
                partial(serve, served, bind="127.0.0.1:0", shutdown=shutdown, shutdown_timeout=0.5, limits=connection)
            )
            port = int(url.rpartition(":")[2])
            here = Site(port, server, work, nursery, shutdown, app)
            yield here
            await eventually(lambda: not server.status.sessions)
            nursery.cancel_scope.cancel()


async def status(port: int, request: str, *headers: str, body: bytes = b"") -> tuple[int, dict[str, str], bytes]:
    """Of the answer to any request."""
    lines = [f"{request} HTTP/1.1", "connection: close", *headers]
    async with await trio.open_tcp_stream("127.0.0.1", port) as stream:
        await stream.send_all("\r\n".join(lines).encode("latin-1") + b"\r\n\r\n" + body)
        got = b""
        while chunk := await stream.receive_some():
            got += chunk
    head, _, rest = got.partition(b"\r\n\r\n")
    pairs = (line.split(": ", 1) for line in head.decode("latin-1").split("\r\n")[1:])
    return int(got[9:12]), {name.lower(): value for name, value in pairs}, rest


def call(name: str) -> bytes:
    return json.dumps({"jsonrpc": "2.0", "id": name, "method": "tools/call", "params": {"name": name}}).encode()


async def greet(wire: SSEWire) -> None:
    """The handshake, by hand, after which nothing is read."""
    params = {"protocolVersion": "2024-11-05", "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
    await wire.send(json.dumps({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}).encode())
    assert await wire.receive()
    await wire.send(b'{"jsonrpc":"2.0","method":"notifications/initialized"}')
