"""A link that reports its state: opening, the revision in use, and why it has ended.

The host wraps each link of its clients, which open and lose links on their own. Messages pass unchanged.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from types import MappingProxyType
from typing import Protocol

from mcptrio.abc.links import Link, LinkOpener, Receiver
from mcptrio.errors import MCPTrioError
from mcptrio.ground.nurseries import open_hidden_nursery
from mcptrio.protocol.messages import ErrorResponse, Notification, Request, RequestId, Response
from mcptrio.protocol.revisions.revision import Revision

__all__ = ["LinkWatcher", "watched"]

_NOTHING: Mapping[str, tuple[str, ...]] = MappingProxyType({})


class LinkWatcher(Protocol):
    """Receives the reports. Its methods neither wait nor raise."""

    def opening(self) -> None:
        """Called when a link is being opened."""
        ...

    def settled(self, revision: Revision) -> None:
        """Called when client and server have agreed on a revision; again when the session is renewed."""
        ...

    def heard(self, message: Request | Notification) -> None:
        """Called with each message that the server sends unasked."""
        ...

    def ended(self, reason: str) -> None:
        """Called when the link has ended or could not be opened."""
        ...


def watched(opener: LinkOpener, watcher: LinkWatcher) -> LinkOpener:
    """Wrap an opener so that the watcher receives reports of its links."""

    @asynccontextmanager
    async def open_link(receive: Receiver) -> AsyncIterator[Link]:
        def hear(message: Request | Notification) -> None:
            # The watcher first: it forgets lists that have changed before a handler asks for them again.
            watcher.heard(message)
            receive(message)

        watcher.opening()
        # The reason if the client is cancelled or removed; the branches below know better ones.
        reason = "it was disconnected"
        try:
            # Links have nurseries of their own; the one here takes what is raised out of their groups.
            async with open_hidden_nursery(), opener(hear) as link:
                watching = _WatchedLink(link, watcher)
                yield watching
            # The client leaves a link that has not ended only if the server did not answer a ping.
            reason = watching.reason or "the server did not answer a ping"
        except MCPTrioError as error:
            reason = str(error)
            raise
        finally:
            watcher.ended(reason)

    return open_link


class _WatchedLink:
    def __init__(self, link: Link, watcher: LinkWatcher) -> None:
        self.name = link.name
        self.reason = ""
        self._link = link
        self._watcher = watcher

    @property
    def closed(self) -> bool:
        return self._link.closed

    async def exchange(
        self, request: Request, revision: Revision, *, mirrored: Mapping[str, tuple[str, ...]] = _NOTHING
    ) -> Response | ErrorResponse:
        return await self._link.exchange(request, revision, mirrored=mirrored)

    def give_up(self, id: RequestId) -> None:
        self._link.give_up(id)

    async def send(self, message: Notification | Response | ErrorResponse, revision: Revision) -> None:
        await self._link.send(message, revision)

    def cancels_by_leaving(self, revision: Revision) -> bool:
        return self._link.cancels_by_leaving(revision)

    def mirrors(self, revision: Revision) -> bool:
        return self._link.mirrors(revision)

    def settled(self, revision: Revision) -> None:
        self._link.settled(revision)
        self._watcher.settled(revision)

    def outgrown(self, revision: Revision) -> bool:
        return self._link.outgrown(revision)

    async def until_listening(self) -> None:
        await self._link.until_listening()

    async def wait_closed(self) -> str:
        self.reason = await self._link.wait_closed()
        return self.reason
