"""HTTP exchanges on ASGI servers other than our engine, such as Uvicorn and Hypercorn.

``HTTPApp`` makes one for each request that does not come from our own engine. ASGI bounds no write, so this class adds
a deadline. It reports a disconnect only to a call of ``receive``, so a task of this class makes that call.

Source: ASGI 3.0, HTTP message format.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any, TypeAlias

import trio

from mcptrio.errors import ConnectionClosed
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.http.exchange import RawHeaders

__all__ = ["ASGIExchange", "Receive", "Scope", "Send"]

Scope: TypeAlias = "MutableMapping[str, Any]"
Receive: TypeAlias = "Callable[[], Awaitable[MutableMapping[str, Any]]]"
Send: TypeAlias = "Callable[[MutableMapping[str, Any]], Awaitable[None]]"


class ASGIExchange:
    """See :class:`mcptrio.http.exchange.HTTPExchange`.

    Args:
        write_timeout: Seconds for a whole response.
    """

    # The response ends when the application returns, so an open stream needs its task.
    can_stay_open = False

    def __init__(self, receive: Receive, send: Send, write_timeout: float) -> None:
        self.status = 0
        self.note = ""
        self._receive = receive
        self._send = send
        self._write_timeout = write_timeout
        self._is_read = False
        self._start: MutableMapping[str, Any] | None = None
        """The head of the response, until it is sent."""

    def body_now(self) -> bytes | None:
        # ASGI delivers a body only by awaiting `receive`.
        return None

    async def read(self) -> bytes:
        while not self._is_read:
            event = await self._receive()
            if event["type"] != "http.request":
                raise ConnectionClosed("the client has disconnected")
            self._is_read = not event.get("more_body")
            if body := event.get("body", b""):
                return bytes(body)
        return b""

    async def while_connected(self, work: Callable[[], Awaitable[object]], on_disconnect: Callable[[], None]) -> None:
        async def watch() -> None:
            while (await self._receive())["type"] != "http.disconnect":
                pass
            on_disconnect()

        # Exceptions of `work` must reach the caller unchanged, not in an exception group.
        async with open_hidden_nursery() as nursery:
            nursery.start_soon(watch)
            await work()

    async def respond(self, status: int, headers: RawHeaders, body: bytes = b"") -> None:
        self.begin(status, headers)
        with trio.move_on_after(self._write_timeout):
            await self._emit(body, more=False)

    def begin(self, status: int, headers: RawHeaders) -> None:
        self.status = status
        self._start = {"type": "http.response.start", "status": status, "headers": headers}

    async def write(self, data: bytes) -> None:
        await self._emit(data, more=True)

    def write_now(self, data: bytes) -> bytes | memoryview:
        # write_rest() sends all of it, because an ASGI send may wait.
        return data

    async def write_rest(self, rest: bytes | memoryview) -> None:
        await self._emit(bytes(rest), more=True)

    async def finish(self) -> None:
        await self._emit(b"", more=False)

    def keep_open(self) -> None:
        raise RuntimeError("an ASGI server ends the response when the application returns")

    def close(self) -> None:
        raise RuntimeError("expected finish(): the response was not kept open")

    async def _emit(self, body: bytes, *, more: bool) -> None:
        # The head is sent with the first bytes, so that the status can be changed until then.
        start, self._start = self._start, None
        if start is not None:
            await self._send(start)
        await self._send({"type": "http.response.body", "body": body, "more_body": more})
