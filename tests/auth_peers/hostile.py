"""A server that sends the responses of a test, and records the requests.

test_hostile_servers.py, in which the servers are the attackers, uses it. It is a plugin of our server that writes HTTP
responses itself.
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

__all__ = ["CannedResponse", "Hostile", "ReceivedRequest", "endless", "hostile"]


Writer: TypeAlias = Callable[[Callable[[bytes], Awaitable[None]]], Awaitable[None]]


@frozen
class ReceivedRequest:
    method: str
    path: str
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    @property
    def text(self) -> str:
        return f"{self.path} {self.headers} {self.body.decode('latin-1')}"


@frozen
class CannedResponse:
    status: int = 200
    body: Any = b""
    """Bytes, or a value that is sent as JSON."""
    headers: Mapping[str, str] = field(factory=dict)
    writer: Writer | None = None
    """Writes the body instead; it may be endless."""


@define(eq=False)
class Hostile:
    url: str = ""
    responses: dict[str, CannedResponse | Callable[[ReceivedRequest], CannedResponse]] = field(factory=dict)
    """Responses by path; others are 404."""
    requests: list[ReceivedRequest] = field(factory=list)
    written: int = 0
    """Bytes of endless bodies that were sent."""

    def paths(self) -> list[str]:
        return [each.path for each in self.requests]

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
        request = ReceivedRequest(scope["method"], scope["path"] + (f"?{query}" if query else ""), headers, body)
        self.requests.append(request)
        canned = self.responses.get(scope["path"], CannedResponse(404))
        canned = canned if isinstance(canned, CannedResponse) else canned(request)
        fields = {"content-type": "application/json", **canned.headers}
        await send(
            {
                "type": "http.response.start",
                "status": canned.status,
                "headers": [(name.encode(), value.encode()) for name, value in fields.items()],
            }
        )
        if canned.writer is not None:

            async def write(data: bytes) -> None:
                await send({"type": "http.response.body", "body": data, "more_body": True})
                self.written += len(data)

            await canned.writer(write)
        body = canned.body if isinstance(canned.body, bytes) else orjson.dumps(canned.body)
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
