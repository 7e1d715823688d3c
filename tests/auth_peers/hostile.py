"""A server that gives the responses of a test, and records the requests.

The tests in which the servers are the attackers use it. It is a plugin of our server, which only listens; the plugin
writes the responses itself.
"""

from __future__ import annotations

import socket
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any, TypeAlias

import orjson
import trio
from attrs import define, field, frozen

from mcptrio.http.engine.limits import ConnectionLimits
from mcptrio.http.engine.server import serve_asgi as serve

__all__ = ["Asked", "Hostile", "Said", "endless", "hostile"]


Writer: TypeAlias = Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]]


@frozen
class Asked:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def everything(self) -> str:
        return f"{self.path} {self.headers} {self.body.decode('latin-1')}"


@frozen
class Said:
    status: int = 200
    body: Any = b""
    """Bytes, or what becomes JSON."""
    headers: Mapping[str, str] = field(factory=dict)
    writer: Writer | None = None
    """Writes the body instead, and may never end."""


@define(eq=False)
class Hostile:
    url: str = ""
    says: dict[str, Said | Callable[[Asked], Said]] = field(factory=dict)
    """Responses by path; others are 404."""
    asked: list[Asked] = field(factory=list)
    written: int = 0
    """Bytes of bodies without end that were taken."""

    def paths(self) -> list[str]:
        return [each.path for each in self.asked]

    async def __call__(self, scope: Any, receive: Any, send: Any) -> None:
        if scope["type"] != "http":
            return
        body = b""
        while True:
            event = await receive()
            body += event.get("body", b"")
            if not event.get("more_body"):
                break
        headers = {name.decode(): value.decode("latin-1") for name, value in scope["headers"]}
        query = scope["query_string"].decode()
        asked = Asked(scope["method"], scope["path"] + (f"?{query}" if query else ""), headers, body)
        self.asked.append(asked)
        said = self.says.get(scope["path"], Said(404))
        said = said if isinstance(said, Said) else said(asked)
        fields = {"content-type": "application/json", **said.headers}
        await send(
            {
                "type": "http.response.start",
                "status": said.status,
                "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
            }
        )
        if said.writer is not None:

            async def write(data: bytes) -> None:
                await send({"type": "http.response.body", "body": data, "more_body": True})
                self.written += len(data)

            await said.writer(write)
        body = said.body if isinstance(said.body, bytes) else orjson.dumps(said.body)
        await send({"type": "http.response.body", "body": body})


async def endless(write: Callable[[bytes], Awaitable[None]]) -> None:
    """Write JSON without an end, until the client stops reading."""
    await write(b'{"keys": ["')
    while True:
        await write(b"x" * 65536)


@asynccontextmanager
async def hostile(host: str = "127.0.0.1") -> AsyncIterator[Hostile]:
    found = Hostile()
    with socket.create_server((host, 0)) as listener:
        found.url = f"http://{host}:{listener.getsockname()[1]}"
        async with trio.open_nursery() as nursery:
            await nursery.start(_serve, found, listener.fileno())
            yield found
            nursery.cancel_scope.cancel()


async def _serve(app: Hostile, descriptor: int, task_status: trio.TaskStatus[Any]) -> None:
    await serve(
        app,
        limits=ConnectionLimits(),
        bind=[f"fd://{descriptor}"],
        task_status=task_status,
    )
