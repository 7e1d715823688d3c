"""A client's way to one server."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractAsyncContextManager
from typing import Protocol

from mcptrio.protocol.messages import ErrorResponse, Notification, Request, RequestId, Response
from mcptrio.protocol.revisions.revision import Revision

__all__ = [
    "Link",
    "LinkOpener",
    "Receiver",
]


class Link(Protocol):
    """A client's way to one server: a pipe of messages, or one HTTP exchange a message.

    The client numbers requests, reads results and answers the server's requests; a link only carries them. Whatever
    goes wrong with one exchange is raised there and leaves the others alone.
    """

    name: str
    """For logs and errors: the command, or the URL without credentials and query."""

    @property
    def closed(self) -> bool:
        """Whether no exchange can succeed any more."""
        ...

    async def exchange(
        self, request: Request, revision: Revision, *, mirrored: Mapping[str, tuple[str, ...]] = ...
    ) -> Response | ErrorResponse:
        """Send a request and wait for its answer; what else the server sends meanwhile goes to the link's receiver.

        Sets no deadline: the caller cancels or gives up. Either tells the server only where :meth:`cancels_by_leaving`.

        Args:
            mirrored: header name in lower case, without ``mcp-param-``, to the path of the argument it repeats.

        Raises:
            RequestFailed: this request could not be delivered, or its answer not be read. The link is usable.
            SessionLost: the server has forgotten the session (HTTP 404); nothing was done.
            AuthorizationError: the server wants credentials, and there will be none.
            ConnectionClosed: the link is closed, or was closed before the answer came.
            trio.TooSlowError: :meth:`give_up` was called.
        """
        ...

    def give_up(self, id: RequestId) -> None:
        """Let the exchange of this request raise TooSlowError now; one that is over is not there to be told.

        For who keeps the deadlines of many exchanges: a cancel scope around each would cost more than the rest of it.
        """
        ...

    async def send(self, message: Notification | Response | ErrorResponse, revision: Revision) -> None:
        """Send what has no answer.

        Raises:
            RequestFailed: it was refused or could not be delivered.
            SessionLost: the server has forgotten the session.
            AuthorizationError: the server wants credentials, and there will be none.
            ConnectionClosed: the link is closed.
        """
        ...

    def cancels_by_leaving(self, revision: Revision) -> bool:
        """Whether leaving :meth:`exchange` is all the server needs to stop (2026-07-28 over HTTP)."""
        ...

    def mirrors(self, revision: Revision) -> bool:
        """Whether arguments that a tool's schema marks are repeated in headers (``mirrored`` of :meth:`exchange`)."""
        ...

    def settled(self, revision: Revision) -> None:
        """The handshake is done, for the first time or again: what the server sends unasked may come from now on."""
        ...

    def outgrown(self, revision: Revision) -> bool:
        """The server no longer speaks the revision that was agreed on: :meth:`wait_closed` raises SessionLost.

        Returns:
            ``False`` where the link ends when the server is replaced, so that nothing is agreed on anew over it.
        """
        ...

    async def until_listening(self) -> None:
        """Wait until the link receives what the server sends unasked, for about a second at most."""
        ...

    async def wait_closed(self) -> str:
        """Wait until the server has closed the link or it broke; why, in a few words.

        Raises:
            SessionLost: the server has forgotten the session, or no longer speaks its revision. The link is usable for
                another handshake, and this can be called again.
        """
        ...


Receiver = Callable[[Request | Notification], None]
"""Takes in what a server sends that answers nothing, in the order of its stream. Never waits, never raises."""

LinkOpener = Callable[[Receiver], AbstractAsyncContextManager[Link]]
"""Opens a new link; leaving it says goodbye to the server within a stated time."""
