"""The requests of one HTTP/2 connection, between Hypercorn's streams and the engine.

Hypercorn calls :meth:`Requests.spawn_app` for each new stream. The engine runs the application, as it does for
HTTP/1.1, so failures, timeouts and the access log are the same for both.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Awaitable, Callable, MutableMapping
from typing import Any

import trio

from mcptrio.http.engine.connection import HTTPConnection

__all__ = ["Requests"]

_MAX_QUEUED_PARTS = 10
"""Parts of a body that may wait for the application before the connection is no longer read."""

_Event = MutableMapping[str, Any]


class Requests:
    """Replaces Hypercorn's task group. Hypercorn's protocols call only the two public methods below.

    Args:
        concurrent: Streams that the client may have open. Twice as many requests may run, because the application ends
            a moment after the client has reset the stream. If more are running, the connection is closed.
        on_change: Called when a request has begun or ended.
    """

    def __init__(
        self, connection: HTTPConnection, nursery: trio.Nursery, concurrent: int, on_change: Callable[[], None]
    ) -> None:
        self._connection = connection
        self._nursery = nursery
        self._max = 2 * concurrent
        self._on_change = on_change
        self._running = 0

    def __len__(self) -> int:
        return self._running

    async def spawn_app(self, app: Any, config: Any, scope: Any, send: Callable[[Any], Awaitable[None]]) -> Any:
        request = _Request(self._connection, scope, send)
        if self._running >= self._max:
            # Rapid reset (CVE-2023-44487): each reset stream costs a call of the application.
            self._connection.end()
            return request.put
        self._running += 1
        self._on_change()
        self._nursery.start_soon(self._run, request)
        return request.put

    def spawn(self, func: Callable[..., Awaitable[Any]], *args: Any) -> None:
        self._nursery.start_soon(func, *args)

    async def _run(self, request: _Request) -> None:
        try:
            await request.run()
        finally:
            self._running -= 1
            self._on_change()


class _Request:
    """One request; see :class:`mcptrio.http.engine.engine.ServedRequest`."""

    is_kept_open = False

    def __init__(self, connection: HTTPConnection, scope: Any, send: Callable[[Any], Awaitable[None]]) -> None:
        self.is_complete = False
        self.is_gone = False
        self.refusal = 0
        self._connection = connection
        self._scope = scope
        self._to_stream = send
        self._began = trio.current_time()
        self._status = 0
        self._is_whole = False
        """True once all of the body has arrived."""
        self._inbox: deque[_Event] = deque()
        self._changed = trio.Event()
        self._room = trio.Event()
        self._writing: trio.CancelScope | None = None

    @property
    def is_uploading(self) -> bool:
        return not self._is_whole

    async def put(self, event: _Event) -> None:
        """Queue an event for the application. A disconnect is not queued, and cancels the write in progress."""
        if event["type"].endswith(".disconnect"):
            self._on_disconnect()
            return
        while len(self._inbox) >= _MAX_QUEUED_PARTS and not self.is_gone:
            self._room = trio.Event()
            await self._room.wait()
        self._is_whole = not event.get("more_body", False)
        self._inbox.append(event)
        self._changed.set()

    async def run(self) -> None:
        connection = self._connection
        try:
            if self._scope["type"] == "websocket":
                await self._to_stream({"type": "websocket.http.response.start", "status": 501, "headers": []})
                await self._to_stream({"type": "websocket.http.response.body"})
            elif connection.engine.is_ending:
                await self.refuse(503)
            else:
                await connection.call(self)
        finally:
            # Hypercorn ends the stream, or resets it if the response is incomplete.
            with trio.move_on_after(connection.engine.limits.write_timeout, shield=True):
                await self._to_stream(None)
            if connection.engine.access_log.wanted:
                method = self._scope.get("method", "CONNECT")
                connection.log_request(method, self._scope["path"], self._status, self._began)

    # Called by the engine and the application

    def scope(self) -> Any:
        self._scope["extensions"].update(self._connection.extensions)
        return self._scope

    async def receive(self) -> _Event:
        with trio.CancelScope() as waiting:
            if not self._is_whole:
                waiting.deadline = trio.current_time() + self._connection.engine.limits.body_timeout
            while not self._inbox and not self.is_gone and not self.is_complete:
                self._changed = trio.Event()
                await self._changed.wait()
        if waiting.cancelled_caught:
            self.refusal = 408
            self.is_gone = True
        if not self._inbox:
            return {"type": "http.disconnect"}
        event = self._inbox.popleft()
        self._room.set()
        return event

    async def send(self, event: _Event) -> None:
        if self.is_gone and not self.refusal:
            await trio.lowlevel.checkpoint()
            return
        if event["type"] == "http.response.start":
            self._status = event["status"]
        with trio.move_on_after(self._connection.engine.limits.write_timeout) as self._writing:
            await self._to_stream(event)
        if self._writing.cancelled_caught and not self.is_gone:
            # The client has not opened its flow-control window for so long that it probably reads nothing.
            self._connection.cut()
        self._writing = None
        if event["type"] == "http.response.body" and not event.get("more_body", False):
            self.is_complete = True
            self._changed.set()

    async def refuse(self, status: int) -> None:
        """Answer with a status if the application has not begun a response; otherwise the stream is reset."""
        if not self._status:
            await self.send({"type": "http.response.start", "status": status, "headers": []})
            await self.send({"type": "http.response.body", "body": b"", "more_body": False})

    def _on_disconnect(self) -> None:
        self.is_gone = True
        self._changed.set()
        self._room.set()
        if self._writing is not None:
            self._writing.cancel()
