"""A client's link over one channel of messages: a child's pipes, a socket, memory, HTTP+SSE.

Opened by the client for every channel that carries all messages of a server in one stream. A reader gives each answer
to who waits for it, a writer empties the outbox.
The one rule: what a server sends wrongly concerns nobody but the request it answers; where that cannot be told, nobody.

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
"""Seconds for what is still queued when the link is left: cancellations, mostly."""

_QUEUED = 1000
"""Messages that wait for the writer; the next one waits for them."""
_MAX_QUOTED_CHARS = 200
"""Characters of a line that is no message in the log."""
_NOTHING: Mapping[str, tuple[str, ...]] = MappingProxyType({})

Answer: TypeAlias = Response | ErrorResponse


class PipeLink:
    """Made by :func:`open_pipe_link`."""

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
        """Who waits for room in the outbox."""
        self._closed = trio.Event()
        self._reason = ""
        self._heard_rubbish = False

    @property
    def closed(self) -> bool:
        """See :class:`mcptrio.abc.links.Link`."""
        return bool(self._reason)

    async def exchange(
        self, request: Request, revision: Revision, *, mirrored: Mapping[str, tuple[str, ...]] = _NOTHING
    ) -> Answer:
        """See :class:`mcptrio.abc.links.Link`; headers are none here."""
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._reason:
            raise ConnectionClosed(self._reason)
        # Where others wait too, more may be sent at once.
        if self._waiting or not self._outbox.send_now(request):
            await self._queue(request)
        # Whoever closes the link while this waited for room has not seen us waiting.
        if self._reason:
            raise ConnectionClosed(self._reason)
        # No checkpoint since it was queued, so no answer can have come.
        waiter: Waiter[Answer] = Waiter()
        self._waiting[request.id] = waiter
        try:
            return await waiter.wait()
        finally:
            self._waiting.pop(request.id, None)

    def give_up(self, id: RequestId) -> None:
        """See :class:`mcptrio.abc.links.Link`."""
        waiter = self._waiting.pop(id, None)
        if waiter is not None:
            waiter.fail(trio.TooSlowError())
        elif id in self._queueing:
            self._queueing[id].cancel()

    async def send(self, message: Notification | Response | ErrorResponse, revision: Revision) -> None:
        """See :class:`mcptrio.abc.links.Link`."""
        await self._outbox.send(message)

    def cancels_by_leaving(self, revision: Revision) -> bool:
        """Never: one stream carries everything."""
        return False

    def mirrors(self, revision: Revision) -> bool:
        """Never: there are no headers."""
        return False

    def settled(self, revision: Revision) -> None:
        """Whatever the server sends has been heard all along."""

    def outgrown(self, revision: Revision) -> bool:
        """Never: another server has another pipe."""
        return False

    async def until_listening(self) -> None:
        """See :class:`mcptrio.abc.links.Link`. The reader listens from the start."""

    async def wait_closed(self) -> str:
        """See :class:`mcptrio.abc.links.Link`."""
        await self._closed.wait()
        return self._reason

    # The two tasks

    async def read(self) -> None:
        try:
            while True:
                # Never waits for the writer: while the server does not read, because it waits for its answers to be
                # read, both sides would wait for each other. Requests wait where they are made, and the client
                # bounds the answers to the server's requests.
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
        """Take nothing more; what is queued still goes out."""
        self._outbox.close()

    def close(self, reason: str) -> None:
        """Whoever waits for an answer gets ConnectionClosed."""
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
        """Queue it; where there is no room, as soon as there is, unless it is given up before."""
        if not self._outbox.full:
            await self._outbox.send(request)
            return
        with trio.CancelScope() as scope:
            self._queueing[request.id] = scope
            try:
                await self._outbox.send(request)
            finally:
                del self._queueing[request.id]
        # Also where it has just been queued: nobody waits for the answer.
        if scope.cancel_called:
            raise trio.TooSlowError

    async def _end(self, error: ConnectionClosed | None) -> None:
        if not self._reason:
            said = await self._why() if self._why is not None else ""
            self.close(said or (str(error) if error is not None else "the server closed the connection"))

    def _take(self, incoming: Incoming) -> None:
        if isinstance(incoming, Response | ErrorResponse):
            self._settle(incoming)
        elif isinstance(incoming, Request | Notification):
            self._receive(incoming)
        elif isinstance(incoming, Batch):
            for message in incoming.messages:
                self._take(message)
        elif isinstance(incoming, Malformed):
            self._malformed(incoming)

    def _settle(self, answer: Answer) -> None:
        waiter = self._waiting.pop(self._meant(answer.id), None)
        if waiter is None or not waiter.set(answer):
            _log.debug("%s: ignored an answer to %r: its caller was cancelled, or has one", self.name, answer.id)

    def _meant(self, id: RequestId | None) -> RequestId:
        """Whose answer this is, also where the server took the number for a text or could not read the id at all."""
        if id is None:
            return next(iter(self._waiting)) if len(self._waiting) == 1 else ""
        if type(id) is str and id not in self._waiting and id.isascii() and id.isdigit():
            return int(id[:18])
        return id

    def _malformed(self, received: Malformed) -> None:
        problem = received.reply.message
        if received.answers in self._waiting:
            failed = RequestFailed(f"the answer cannot be read: {problem}")
            self._waiting.pop(received.answers).fail(failed)
            return
        level = logging.DEBUG if self._heard_rubbish else logging.WARNING
        self._heard_rubbish = True
        _log.log(level, "%s: ignored what is no message: %s", self.name, problem[:_MAX_QUOTED_CHARS])


@asynccontextmanager
async def open_pipe_link(
    channel: MessageChannel, receive: Receiver, *, why: Callable[[], Awaitable[str]] | None = None
) -> AsyncIterator[PipeLink]:
    """A link over a channel, which it closes on leaving.

    Args:
        why: asked when the channel has ended; says why better than the channel can (an exit code).
    """
    link = PipeLink(channel, receive, why=why)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(link.read)
        written = trio.Event()
        # Whoever leaves is often cancelled; what they still have to say is not, for GOODBYE seconds.
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
