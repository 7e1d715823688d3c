"""Traces all messages between a client and a server, if there is a tracer when the link is opened.

Client passes its openers through :func:`traced`, so neither the session nor the negotiation knows about tracing.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager

import trio

from mcptrio.abc.links import Link, LinkOpener, Receiver
from mcptrio.abc.tracing import TRACING, trace_received, trace_sending
from mcptrio.protocol.messages import ErrorResponse, Notification, Request, RequestId, Response
from mcptrio.protocol.revisions.revision import Revision

__all__ = ["traced"]

_NO_HEADERS: Mapping[str, tuple[str, ...]] = {}


def traced(openers: Sequence[LinkOpener]) -> list[LinkOpener]:
    """Return openers whose links are traced."""
    return [_with_tracing(opener) for opener in openers]


def _with_tracing(opener: LinkOpener) -> LinkOpener:
    def open(receive: Receiver) -> AbstractAsyncContextManager[Link]:
        return opener(receive) if TRACING.tracer is None else _open_traced(opener, receive)

    return open


@asynccontextmanager
async def _open_traced(opener: LinkOpener, receive: Receiver) -> AsyncIterator[Link]:
    def received(message: Request | Notification) -> None:
        with trace_received(message):
            receive(message)

    async with opener(received) as link:
        opened = trio.current_time()
        try:
            yield TracedLink(link)
        finally:
            if TRACING.tracer is not None:
                TRACING.tracer.disconnected(link.name, trio.current_time() - opened)


class TracedLink:
    """A link whose messages are traced. See :class:`mcptrio.abc.links.Link`."""

    def __init__(self, link: Link) -> None:
        self._link = link
        self.name = link.name

    @property
    def closed(self) -> bool:
        return self._link.closed

    async def exchange(
        self, request: Request, revision: Revision, *, param_headers: Mapping[str, tuple[str, ...]] = _NO_HEADERS
    ) -> Response | ErrorResponse:
        with trace_sending(request, revision=revision.version, to=self.name) as sent:
            sent.reply = reply = await self._link.exchange(request, revision, param_headers=param_headers)
        return reply

    async def send(self, message: Notification | Response | ErrorResponse, revision: Revision) -> None:
        if isinstance(message, Notification):
            with trace_sending(message, revision=revision.version, to=self.name):
                await self._link.send(message, revision)
        else:
            await self._link.send(message, revision)

    def abandon(self, id: RequestId) -> None:
        self._link.abandon(id)

    def cancels_by_closing(self, revision: Revision) -> bool:
        return self._link.cancels_by_closing(revision)

    def sends_param_headers(self, revision: Revision) -> bool:
        return self._link.sends_param_headers(revision)

    def start_listening(self, revision: Revision) -> None:
        self._link.start_listening(revision)

    def drop_revision(self, revision: Revision) -> bool:
        return self._link.drop_revision(revision)

    async def until_listening(self) -> None:
        await self._link.until_listening()

    async def wait_closed(self) -> str:
        return await self._link.wait_closed()
