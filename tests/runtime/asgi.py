"""Requests to an ASGI application without sockets, for tests with the autojump clock."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import trio
from attrs import define, field

from mcptrio.abc import ASGIApp

__all__ = ["Reply", "exchange", "post"]


@define(eq=False)
class Reply:
    """A response while it arrives."""

    status: int = 0
    headers: dict[str, str] = field(factory=dict)
    messages: list[dict[str, Any]] = field(factory=list)
    ids: list[str] = field(factory=list)
    """The buffered bytes of the events."""
    began: trio.Event = field(factory=trio.Event)
    ended: trio.Event = field(factory=trio.Event)
    reading: trio.Event | None = None
    """Set when the client begins to read; ``None`` if it reads from the start."""
    _came: trio.Event = field(factory=trio.Event)
    _leave: trio.Event = field(factory=trio.Event)
    _read: int = 0
    _body: bytes = b""

    def disconnect(self) -> None:
        self._leave.set()

    async def next(self) -> dict[str, Any]:
        """The next JSON-RPC message."""
        while len(self.messages) <= self._read:
            self._came = trio.Event()
            await self._came.wait()
        self._read += 1
        return self.messages[self._read - 1]

    def _feed(self, data: bytes, more: bool) -> None:
        self._body += data
        if self.headers.get("content-type") == "text/event-stream":
            *events, self._body = self._body.split(b"\n\n")
            for event in events:
                self.ids += [line[3:].strip().decode() for line in event.split(b"\n") if line.startswith(b"id:")]
                payload = b"".join(line[5:].strip() for line in event.split(b"\n") if line.startswith(b"data:"))
                if payload:
                    self.messages.append(json.loads(payload))
        elif not more and self._body:
            self.messages.append(json.loads(self._body))
        self._came.set()


async def exchange(app: ASGIApp, method: str, headers: Mapping[str, str], body: bytes, reply: Reply) -> None:
    """Run one exchange until it ends."""
    sent = False

    async def receive() -> dict[str, Any]:
        nonlocal sent
        if not sent:
            sent = True
            return {"type": "http.request", "body": body, "more_body": False}
        await reply._leave.wait()
        return {"type": "http.disconnect"}

    async def send(event: Mapping[str, Any]) -> None:
        if reply.reading is not None:
            await reply.reading.wait()
        if event["type"] == "http.response.start":
            reply.status = event["status"]
            reply.headers = {name.decode().lower(): value.decode() for name, value in event["headers"]}
            reply.began.set()
        else:
            reply._feed(event.get("body", b""), event.get("more_body", False))
        await trio.lowlevel.checkpoint()

    given = {
        "host": "127.0.0.1",
        "accept": "application/json, text/event-stream",
        "content-type": "application/json",
        **headers,
    }
    pairs = [(name.lower().encode(), value.encode()) for name, value in given.items()]
    await app({"type": "http", "method": method, "path": "/mcp", "headers": pairs}, receive, send)
    reply.ended.set()


async def post(app: ASGIApp, message: Mapping[str, Any], **headers: str) -> Reply:
    """Run a POST until it ends."""
    reply = Reply()
    named = {name.replace("_", "-"): value for name, value in headers.items()}
    await exchange(app, "POST", named, json.dumps(message).encode(), reply)
    return reply
