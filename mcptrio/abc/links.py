"""Interface of a client's connection to one server.

The client uses it. A message channel and :mod:`mcptrio.http.client.link` implement it.
"""

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
    """The connection of a client to one server: a message channel, or one HTTP exchange per message.

    The client numbers requests, reads results and answers the server's requests; a link only carries them. The failure
    of one exchange does not affect the others.
    """

    name: str
    """For logs and errors: the command, or the URL without credentials and query."""

    @property
    def closed(self) -> bool:
        """True if no further exchange can succeed."""
        ...

    async def exchange(
        self, request: Request, revision: Revision, *, param_headers: Mapping[str, tuple[str, ...]] = ...
    ) -> Response | ErrorResponse:
        """Send a request and return its response. Other messages of the server go to the receiver of the link.

        Sets no deadline: the caller cancels this call or calls :meth:`abandon`. Cancelling the call cancels the request
        on the server only if :meth:`cancels_by_closing` returns True.

        Args:
            param_headers: Names in lower case without ``mcp-param-``, each with the path of its argument.

        Raises:
            RequestFailed: The request could not be delivered, or its response is unreadable. The link stays usable.
            SessionLost: The server has forgotten the session (HTTP 404); the request was not served.
            AuthorizationError: The server requires credentials that cannot be obtained.
            ConnectionClosed: The link is closed, or was closed before the response came.
            trio.TooSlowError: :meth:`abandon` was called.
        """
        ...

    def abandon(self, id: RequestId) -> None:
        """Make the exchange of this request raise TooSlowError. Does nothing if it has ended.

        A client that watches the deadlines of many exchanges uses this, because a cancel scope around each would cost
        more than the rest of the exchange.
        """
        ...

    async def send(self, message: Notification | Response | ErrorResponse, revision: Revision) -> None:
        """Send a message that has no response.

        Raises:
            RequestFailed: The message was refused or could not be delivered.
            SessionLost: The server has forgotten the session.
            AuthorizationError: The server requires credentials that cannot be obtained.
            ConnectionClosed: The link is closed.
        """
        ...

    def cancels_by_closing(self, revision: Revision) -> bool:
        """Return True if cancelling :meth:`exchange` cancels the request on the server (2026-07-28 over HTTP)."""
        ...

    def sends_param_headers(self, revision: Revision) -> bool:
        """Return True if arguments marked in a tool's schema are sent as parameter headers (see :meth:`exchange`)."""
        ...

    def start_listening(self, revision: Revision) -> None:
        """Start to receive unsolicited messages. The client calls it after each handshake."""
        ...

    def drop_revision(self, revision: Revision) -> bool:
        """Make :meth:`wait_closed` raise SessionLost, because the server no longer supports the negotiated revision.

        Returns:
            False if the link cannot carry another handshake, because it ends when the server is replaced.
        """
        ...

    async def until_listening(self) -> None:
        """Wait until the link receives unsolicited messages, for about a second at most."""
        ...

    async def wait_closed(self) -> str:
        """Wait until the server has closed the link or it broke, and return the reason in a few words.

        Raises:
            SessionLost: The server has forgotten the session, or no longer supports its revision. The link can carry
                another handshake, and this method can be called again.
        """
        ...


Receiver = Callable[[Request | Notification], None]
"""Receives the requests and notifications of a server in the order of its stream. Must not block or raise."""

LinkOpener = Callable[[Receiver], AbstractAsyncContextManager[Link]]
"""Opens a new link. Leaving the context closes the session on the server within a limited time."""
