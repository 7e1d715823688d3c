"""The ASGI application behind the hostile cases: it reports the requests, and counts the running ones.

:mod:`tests.hostile.child` serves it. Its paths:

- ``/echo`` responds after the body with a report, ``/early`` before it, ``/refuse/STATUS`` likewise with that status;
- without reading the body, ``/slow`` responds a moment later, and ``/deaf`` after a request for ``/release`` with the
  same query; ``/wait`` responds when the client has left;
- ``/large`` responds with 8 MiB, ``/stream`` without end, ``/crash`` and ``/crash-late`` not at all, and ``/split``,
  ``/short`` and ``/long`` with invalid responses;
- ``/state`` returns the counters.

``/smuggled`` is requested only within other requests, so it must never be reached.
"""

from __future__ import annotations

import hashlib
import json
import sys
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import trio
from attrs import define, field

__all__ = ["Application"]

Receive = Callable[[], Awaitable[Any]]
Send = Callable[[Any], Awaitable[None]]

LARGE = 8 * 1024 * 1024


@define
class Application:
    """An ASGI application that reports how it was called, with an MCP server below ``/mcp``.

    Attributes:
        mounted: The ASGI application of the MCP server.
    """

    mounted: Any
    running: int = 0
    """Requests and WebSockets in flight, except the one that asks."""
    smuggled: list[str] = field(factory=list)
    truncated: list[str] = field(factory=list)
    """Queries of requests whose body was incomplete."""
    releases: dict[bytes, trio.Event] = field(factory=dict)
    """By query."""

    async def __call__(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        if scope["type"] == "lifespan" or scope["path"] == "/mcp":
            await self.mounted(scope, receive, send)
            return
        self.running += 1
        try:
            if scope["path"] == "/ws-deaf":
                await receive()
                await send({"type": "websocket.accept"})
                await self._deaf(scope)
                await _gone(receive)
            elif scope["type"] == "websocket":
                await _SOCKETS[scope["path"]](receive, send)
            else:
                await self._serve(scope, receive, send)
        finally:
            self.running -= 1

    async def _serve(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        path = scope["path"]
        if path == "/echo":
            await self._echo(scope, receive, send)
        elif path == "/early":
            await _answer(send, 200, {"path": path})
        elif path.startswith("/refuse/"):
            await _answer(send, int(path.removeprefix("/refuse/")), {"path": path})
        elif path == "/slow":
            await trio.sleep(0.3)
            await _answer(send, 200, {"path": path, "query": scope["query_string"].decode()})
        elif path == "/deaf":
            await self._deaf(scope)
            await _answer(send, 200, {"path": path})
        elif path == "/release":
            self.releases.setdefault(scope["query_string"], trio.Event()).set()
            await _answer(send, 200, {"path": path})
        elif path == "/wait":
            await _gone(receive)
        elif path == "/large":
            await _answer(send, 200, {"text": "x" * LARGE})
        elif path == "/stream":
            await _stream(receive, send)
        elif path == "/crash":
            raise RuntimeError("the application fails")
        elif path == "/crash-late":
            await send({"type": "http.response.start", "status": 200, "headers": []})
            await send({"type": "http.response.body", "body": b"half", "more_body": True})
            raise RuntimeError("the application fails in the middle")
        elif path == "/split":
            await _answer(send, 200, {}, (b"x-where", b"/\r\nx-smuggled: yes\r\n\r\nHTTP/1.1 200 OK"))
        elif path in ("/short", "/long"):
            length = (b"content-length", b"20" if path == "/short" else b"2")
            await send({"type": "http.response.start", "status": 200, "headers": [length]})
            await send({"type": "http.response.body", "body": b"0123456789"})
        elif path == "/state":
            state = {"running": self.running - 1, "smuggled": self.smuggled, "truncated": self.truncated}
            await _answer(send, 200, {**state, "blocks": sys.getallocatedblocks()})
        else:
            if path == "/smuggled":
                self.smuggled.append(scope["query_string"].decode())
            await _answer(send, 404, {"path": path})

    async def _deaf(self, scope: MutableMapping[str, Any]) -> None:
        with trio.move_on_after(120):
            await self.releases.setdefault(scope["query_string"], trio.Event()).wait()

    async def _echo(self, scope: MutableMapping[str, Any], receive: Receive, send: Send) -> None:
        body = b""
        while True:
            message = await receive()
            if message["type"] == "http.disconnect":
                self.truncated.append(scope["query_string"].decode())
                return
            body += message.get("body", b"")
            if not message.get("more_body", False):
                break
        seen = {
            "method": scope["method"],
            "path": scope["path"],
            "query": scope["query_string"].decode("latin-1"),
            "version": scope["http_version"],
            "headers": [[name.decode("latin-1"), value.decode("latin-1")] for name, value in scope["headers"]],
            "length": len(body),
            "body": body[:200].decode("latin-1"),
            "digest": hashlib.sha256(body).hexdigest(),
        }
        await _answer(send, 200, seen)


async def _answer(send: Send, status: int, value: Any, *more: tuple[bytes, bytes]) -> None:
    body = json.dumps(value).encode()
    headers = [(b"content-type", b"application/json"), (b"content-length", b"%d" % len(body)), *more]
    await send({"type": "http.response.start", "status": status, "headers": headers})
    await send({"type": "http.response.body", "body": body})


async def _gone(receive: Receive) -> None:
    while (await receive())["type"] not in ("http.disconnect", "websocket.disconnect"):
        pass


async def _stream(receive: Receive, send: Send) -> None:
    """Stream until the client has disconnected; a server may report that with an event or an exception."""
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            await _gone(receive)
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
        try:
            while True:
                await send({"type": "http.response.body", "body": b"x" * 65536, "more_body": True})
                await trio.lowlevel.checkpoint()
        except OSError:
            nursery.cancel_scope.cancel()


async def _echo_socket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    while (message := await receive())["type"] == "websocket.receive":
        try:
            await send({"type": "websocket.send", "bytes": message.get("bytes"), "text": message.get("text")})
        except OSError:
            return


async def _flooding_socket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    async with trio.open_nursery() as nursery:

        async def watch() -> None:
            await _gone(receive)
            nursery.cancel_scope.cancel()

        nursery.start_soon(watch)
        try:
            while True:
                await send({"type": "websocket.send", "bytes": b"x" * 65536, "text": None})
                await trio.lowlevel.checkpoint()
        except OSError:
            nursery.cancel_scope.cancel()


async def _closing_socket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    await send({"type": "websocket.close", "code": 1001})


async def _refusing_socket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.close", "code": 1008})


async def _crashing_socket(receive: Receive, send: Send) -> None:
    await receive()
    await send({"type": "websocket.accept"})
    await receive()
    raise RuntimeError("the application fails")


_SOCKETS: dict[str, Callable[[Receive, Send], Awaitable[None]]] = {
    "/ws": _echo_socket,
    "/ws-flood": _flooding_socket,
    "/ws-close": _closing_socket,
    "/ws-refuse": _refusing_socket,
    "/ws-crash": _crashing_socket,
}
