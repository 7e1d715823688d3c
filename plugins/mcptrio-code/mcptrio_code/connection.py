"""A connection to a running language server: requests with deadlines, notifications, and requests of the server.

``LanguageServer`` creates and runs it; the session uses it. One task reads, one writes and one discards standard error.

Source: LSP 3.17, "Base Protocol"; JSON-RPC 2.0.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final

import trio
from attrs import define, field

from mcptrio.net import ChildProcess

from .frames import BrokenFrame, FrameReader, frame

__all__ = ["LanguageConnection", "RequestRefused", "ServerEnded"]

_MAX_PENDING: Final = 64
"""Maximum requests that wait for a response."""
_MAX_QUEUED: Final = 64
"""Maximum messages that wait to be written. The largest contain the text of a document."""
_CHUNK_BYTES: Final = 64 * 1024
_MAX_ERROR_CHARS: Final = 300
_METHOD_NOT_FOUND: Final = -32601


class ServerEnded(Exception):
    """The language server has exited, or was stopped because it violated the protocol."""


class RequestRefused(Exception):
    """The language server returned an error, an invalid result, or nothing in time."""


@define(eq=False)
class _Pending:
    """A request that waits for its response."""

    answered: trio.Event = field(factory=trio.Event)
    result: Any = None
    error: Exception | None = None


@define(eq=False)
class LanguageConnection:
    """The messages to and from one process.

    Attributes:
        process: The language server.
        max_message_bytes: Maximum size of a message from the server.
        answer_request: Returns the result of a request from the server. Must not block.
        handle_notification: Handles a notification from the server. Must not block.
    """

    process: ChildProcess
    max_message_bytes: int
    answer_request: Callable[[str, Any], Any]
    handle_notification: Callable[[str, Any], None]
    ended: str | None = None
    """The reason why the connection has ended; ``None`` while it is open."""

    _pending: dict[int, _Pending] = field(init=False, factory=dict)
    _last_id: int = field(init=False, default=0)
    _scope: trio.CancelScope = field(init=False, factory=trio.CancelScope)
    _send_channel: trio.MemorySendChannel[bytes] = field(init=False)
    _receive_channel: trio.MemoryReceiveChannel[bytes] = field(init=False)

    def __attrs_post_init__(self) -> None:
        self._send_channel, self._receive_channel = trio.open_memory_channel[bytes](_MAX_QUEUED)

    async def run(self) -> None:
        """Read and write until the server exits or the caller cancels. All waiting requests then fail."""
        streams = [trio.lowlevel.FdStream(fd) for fd in (self.process.stdin, self.process.stdout, self.process.stderr)]
        stdin, stdout, stderr = streams
        try:
            async with trio.open_nursery() as nursery:
                self._scope = nursery.cancel_scope
                nursery.start_soon(self._write, stdin)
                nursery.start_soon(_discard, stderr)
                nursery.start_soon(self._read, stdout)
        finally:
            self._end("was stopped")
            for stream in streams:
                stream.close()

    async def request(self, method: str, params: Any, *, seconds: float) -> Any:
        """Send a request and return its result. If the caller is cancelled or time runs out, the request is cancelled.

        Raises:
            RequestRefused: The server returned an error, or no response within ``seconds``.
            ServerEnded: The connection has ended.
        """
        self._check_open()
        if len(self._pending) >= _MAX_PENDING:
            raise RequestRefused(f"{len(self._pending)} requests are waiting for the language server; try again later")
        self._last_id += 1
        id = self._last_id
        pending = self._pending[id] = _Pending()
        is_sent = False
        try:
            with trio.move_on_after(seconds):
                await self._send({"id": id, "method": method, "params": params})
                is_sent = True
                await pending.answered.wait()
        finally:
            del self._pending[id]
            if is_sent and not pending.answered.is_set() and self.ended is None:
                self._send_nowait({"method": "$/cancelRequest", "params": {"id": id}})
        if pending.error is not None:
            raise pending.error
        if not pending.answered.is_set():
            raise RequestRefused(f"the language server has not answered {method} within {seconds:g} seconds")
        return pending.result

    async def notify(self, method: str, params: Any) -> None:
        """Send a notification.

        Raises:
            ServerEnded: The connection has ended.
        """
        self._check_open()
        await self._send({"method": method, "params": params})

    def _check_open(self) -> None:
        if self.ended is not None:
            raise ServerEnded(self.ended)

    async def _send(self, message: dict[str, Any]) -> None:
        try:
            await self._send_channel.send(frame({"jsonrpc": "2.0", **message}))
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            raise ServerEnded(self.ended or "was stopped") from None

    def _send_nowait(self, message: dict[str, Any]) -> None:
        try:
            self._send_channel.send_nowait(frame({"jsonrpc": "2.0", **message}))
        except trio.WouldBlock:
            self._end("did not read its messages")
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass  # the connection has ended

    async def _read(self, stream: trio.lowlevel.FdStream) -> None:
        reader = FrameReader(self.max_message_bytes)
        while data := await stream.receive_some(_CHUNK_BYTES):
            try:
                for message in reader.feed(data):
                    self._dispatch(message)
            except BrokenFrame as error:
                self._end(f"broke the protocol ({error})")
        self._end("has ended")

    async def _write(self, stream: trio.lowlevel.FdStream) -> None:
        try:
            async for data in self._receive_channel:
                await stream.send_all(data)
        except trio.BrokenResourceError:
            self._end("stopped reading")

    def _dispatch(self, message: dict[str, Any]) -> None:
        method, id = message.get("method"), message.get("id")
        if isinstance(method, str):
            if id is None:
                self.handle_notification(method, message.get("params"))
            else:
                self._send_nowait({"id": id, **self._answer(method, message.get("params"))})
            return
        pending = self._pending.get(id) if isinstance(id, int) else None
        if pending is None or pending.answered.is_set():
            return  # the response to a cancelled request
        if (error := message.get("error")) is not None:
            reason = error.get("message") if isinstance(error, dict) else None
            pending.error = RequestRefused(f"the language server refused: {str(reason)[:_MAX_ERROR_CHARS]}")
        pending.result = message.get("result")
        pending.answered.set()

    def _answer(self, method: str, params: Any) -> dict[str, Any]:
        try:
            return {"result": self.answer_request(method, params)}
        except LookupError:
            return {"error": {"code": _METHOD_NOT_FOUND, "message": "not supported by this client"}}

    def _end(self, reason: str) -> None:
        if self.ended is not None:
            return
        code = self.process.returncode
        self.ended = reason if code is None else f"{reason} with exit code {code}"
        for pending in self._pending.values():
            if not pending.answered.is_set():
                pending.error = ServerEnded(self.ended)
                pending.answered.set()
        self._send_channel.close()
        self._scope.cancel()


async def _discard(stream: trio.lowlevel.FdStream) -> None:
    """Read and discard standard error, so that the server does not block. It may contain source code."""
    while await stream.receive_some(_CHUNK_BYTES):
        pass
