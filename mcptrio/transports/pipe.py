"""A client's link over one message channel: the pipes of a child, a socket, memory, HTTP with SSE.

The client opens it for every channel that carries all messages of a server in one stream. A reader task passes each
answer to the exchange that waits for it; a writer task drains the outbox. An invalid answer fails only its own request;
if that request is unknown, the answer is logged and ignored.

Source: JSON-RPC 2.0 section 5; MCP 2026-07-28, basic/transports/stdio.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import TypeAlias

import trio

from mcptrio.abc import MessageChannel, SynchronousChannel
from mcptrio.abc.links import Receiver
from mcptrio.errors import ConnectionClosed, RequestFailed
from mcptrio.ground.waiter import Waiter
from mcptrio.outbox import Outbox
from mcptrio.protocol.messages import (
    Batch,
    ErrorResponse,
    Incoming,
    Malformed,
    Notification,
    Request,
    RequestId,
    Response,
)
from mcptrio.protocol.revisions.revision import Revision

__all__ = ["PipeLink", "open_pipe_link"]

_log = logging.getLogger("mcptrio.transports.pipe")

CLOSE_TIMEOUT = 1.0
"""Seconds to send queued messages when the link is left; most of them are cancellations."""

_QUEUED = 1000
"""Messages queued for the writer. When full, senders wait."""
_MAX_QUOTED_CHARS = 200
"""Characters of an invalid line that the log quotes."""
_NOTHING: Mapping[str, tuple[str, ...]] = MappingProxyType({})

Answer: TypeAlias = Response | ErrorResponse


class PipeLink:
    """A :class:`mcptrio.abc.links.Link` over one message channel. Made by :func:`open_pipe_link`."""

    def __init__(
        self, channel: MessageChannel, receive: Receiver, *, why: Callable[[], Awaitable[str]] | None = None
    ) -> None:
        self.name = channel.name
        self._channel = channel
        self._receive = receive
        self._why = why
        self._outbox = Outbox(_QUEUED, write_now=channel.send_now if isinstance(channel, SynchronousChannel) else None)
        self._waiting: dict[RequestId, Waiter[Answer]] = {}
        self._queueing: dict[RequestId, trio.CancelScope] = {}
        """The cancel scopes of the exchanges that wait for room in the outbox."""
        self._closed = trio.Event()
        self._reason = ""
        self._has_logged_invalid = False

    @property
    def closed(self) -> bool:
        return bool(self._reason)

    async def exchange(
        self, request: Request, revision: Revision, *, param_headers: Mapping[str, tuple[str, ...]] = _NOTHING
    ) -> Answer:
        """Send a request and wait for its answer. ``param_headers`` is ignored."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._reason:
            raise ConnectionClosed(self._reason)
        # If other exchanges are waiting, the request is queued, so that several messages may become one write.
        if self._waiting or not self._outbox.send_now(request):
            await self._queue(request)
        # close() fails only the registered waiters, and this one was not registered while it waited for room.
        if self._reason:
            raise ConnectionClosed(self._reason)
        # No checkpoint since the request was queued, so its answer cannot have arrived before the waiter exists.
        waiter: Waiter[Answer] = Waiter()
        self._waiting[request.id] = waiter
        try:
            return await waiter.wait()
        finally:
            self._waiting.pop(request.id, None)

    def abandon(self, id: RequestId) -> None:
        waiter = self._waiting.pop(id, None)
        if waiter is not None:
            waiter.fail(trio.TooSlowError())
        elif id in self._queueing:
            self._queueing[id].cancel()

    async def send(self, message: Notification | Response | ErrorResponse, revision: Revision) -> None:
        await self._outbox.send(message)

    def cancels_by_closing(self, revision: Revision) -> bool:
        """Return False: one stream carries all requests, so cancelling needs a message."""
        return False

    def sends_param_headers(self, revision: Revision) -> bool:
        """Return False: a pipe has no headers."""
        return False

    def start_listening(self, revision: Revision) -> None:
        """Do nothing: the reader has been receiving all messages since the start."""

    def drop_revision(self, revision: Revision) -> bool:
        """Return False: a replaced server has another pipe."""
        return False

    async def until_listening(self) -> None:
        """Do nothing: the reader has been receiving all messages since the start."""

    async def wait_closed(self) -> str:
        await self._closed.wait()
        return self._reason

    # Reader and writer tasks

    async def read(self) -> None:
        try:
            while True:
                # The reader must not wait for the writer: if the server does the same, both would wait for each other.
                # The memory is bounded without that, because requests wait in exchange(), and the client limits its
                # answers to the server's requests.
                for incoming in await self._channel.receive():
                    self._take(incoming)
        except trio.EndOfChannel:
            await self._end(None)
        except ConnectionClosed as error:
            await self._end(error)

    async def write(self) -> None:
        try:
            while True:
                await self._channel.send(await self._outbox.take())
        except trio.EndOfChannel:
            pass
        except ConnectionClosed as error:
            await self._end(error)

    def finish(self) -> None:
        """Accept no more messages; queued ones are still sent."""
        self._outbox.close()

    def close(self, reason: str) -> None:
        """Fail all pending exchanges with ConnectionClosed."""
        if self._reason:
            return
        self._reason = reason
        self._outbox.close()
        for waiter in self._waiting.values():
            waiter.fail(ConnectionClosed(reason))
        self._waiting.clear()
        self._closed.set()

    # Private

    async def _queue(self, request: Request) -> None:
        """Queue a request, waiting for room in the outbox.

        Raises:
            trio.TooSlowError: :meth:`abandon` was called for the request.
        """
        # The usual case needs no cancel scope.
        if not self._outbox.full:
            await self._outbox.send(request)
            return
        with trio.CancelScope() as scope:
            self._queueing[request.id] = scope
            try:
                await self._outbox.send(request)
            finally:
                del self._queueing[request.id]
        # Raised even if the request was queued in the meantime, because its exchange has been abandoned.
        if scope.cancel_called:
            raise trio.TooSlowError

    async def _end(self, error: ConnectionClosed | None) -> None:
        if not self._reason:
            reason = await self._why() if self._why is not None else ""
            self.close(reason or (str(error) if error is not None else "the server closed the connection"))

    def _take(self, incoming: Incoming) -> None:
        if isinstance(incoming, Response | ErrorResponse):
            self._settle(incoming)
        elif isinstance(incoming, Request | Notification):
            self._receive(incoming)
        elif isinstance(incoming, Batch):
            for message in incoming.messages:
                self._take(message)
        elif isinstance(incoming, Malformed):
            self._on_malformed(incoming)

    def _settle(self, answer: Answer) -> None:
        waiter = self._waiting.pop(self._request_id_for(answer.id), None)
        if waiter is None or not waiter.set(answer):
            _log.debug("%s: ignored an answer to %r: its caller was cancelled, or has one", self.name, answer.id)

    def _request_id_for(self, id: RequestId | None) -> RequestId:
        """Return the id of the request that an answer belongs to."""
        # JSON-RPC section 5: the id is null if the server could not read that of the request. If one request is in
        # flight, the answer must be for it.
        if id is None:
            return next(iter(self._waiting)) if len(self._waiting) == 1 else ""
        # Some servers return a number as a string.
        if type(id) is str and id not in self._waiting and id.isascii() and id.isdigit():
            return int(id[:18])
        return id

    def _on_malformed(self, received: Malformed) -> None:
        problem = received.reply.message
        if received.answers in self._waiting:
            failed = RequestFailed(f"the answer cannot be read: {problem}")
            self._waiting.pop(received.answers).fail(failed)
            return
        level = logging.DEBUG if self._has_logged_invalid else logging.WARNING
        self._has_logged_invalid = True
        _log.log(level, "%s: ignored a line that is not a message: %s", self.name, problem[:_MAX_QUOTED_CHARS])


@asynccontextmanager
async def open_pipe_link(
    channel: MessageChannel, receive: Receiver, *, why: Callable[[], Awaitable[str]] | None = None
) -> AsyncIterator[PipeLink]:
    """Open a link over a channel inside the context; close the channel at the end.

    Args:
        channel: The channel to the server.
        receive: A function called with each request and notification of the server.
        why: A function called after the channel has ended. It returns a reason that the channel does not know, for
            example an exit code.
    """
    link = PipeLink(channel, receive, why=why)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.read)
        written = trio.Event()
        # Shielded, because the caller is often being cancelled when it leaves the context. Queued messages, such as the
        # cancellation of its requests, are still sent for CLOSE_TIMEOUT seconds.
        writing = trio.CancelScope(shield=True)

        async def write() -> None:
            try:
                with writing:
                    await link.write()
            finally:
                written.set()

        nursery.start_soon(write)
        try:
            yield link
        finally:
            link.finish()
            with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
                await written.wait()
            writing.cancel()
            link.close("the client has closed the connection")
            nursery.cancel_scope.cancel()
            with trio.move_on_after(CLOSE_TIMEOUT, shield=True):
                await channel.aclose()
