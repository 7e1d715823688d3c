"""Interface of the server engine that transports call.

:mod:`mcptrio.runtime` implements it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Any, Protocol, TypeAlias

from mcptrio.abc.authorization import Principal
from mcptrio.abc.channels import MessageChannel, MessageSink
from mcptrio.abc.status import Readiness
from mcptrio.abc.stores import SessionRecord
from mcptrio.protocol.messages import Incoming, Notification, Request

__all__ = [
    "ASGIApp",
    "Engine",
    "PeerSession",
    "StateSealer",
]


# A string, because a recursive alias of callables cannot be evaluated at run time.
ASGIApp: TypeAlias = "Callable[[Any, Any, Any], Awaitable[None]]"
"""Scope, receive, send; see ASGI 3.0."""


class StateSealer(Protocol):
    """Makes values that travel through the client opaque and unforgeable."""

    def seal(self, value: bytes, *, audience: bytes) -> str:
        """Encrypt a value for :meth:`open` with the same audience."""
        ...

    def open(self, sealed: str, *, audience: bytes) -> bytes:
        """Decrypt a sealed value.

        Raises:
            ValueError: The value was not sealed with a known key, was altered, or is for another audience.
        """
        ...


class PeerSession(Protocol):
    """The part of a handshake session that lives in this process."""

    # The transport sets it before each message, because the client renews its token during the session.
    principal: Principal | None
    """The principal of the session, with the scopes and claims of the token that came with the next message."""

    @property
    def id(self) -> str: ...

    @property
    def record(self) -> SessionRecord | None:
        """The record of the session; ``None`` until ``initialize`` has been answered with a result."""
        ...

    def refresh(self, record: SessionRecord) -> None:
        """Replace the record, because another replica or the transport has changed it."""
        ...

    def receive(self, incoming: Incoming, sink: MessageSink) -> bool:
        """Process the content of a POST. Does not block or raise.

        Requests run in the nursery of the session, so they outlive the POST. Their messages go to ``sink``, which is
        closed after the last one.

        Returns:
            False if the content answers or cancels a request that is not in flight in this process. Another replica may
            be waiting for it.
        """
        ...

    def attach(self, sink: MessageSink) -> None:
        """Send messages that belong to no request to this sink, the GET stream, from now on."""
        ...

    def detach(self, sink: MessageSink) -> None:
        """Stop sending the session's messages to this sink."""
        ...

    def report_everything_changed(self) -> None:
        """Report every list and subscribed resource as changed, because the client may have missed notifications."""
        ...

    @property
    def busy(self) -> bool:
        """True while requests are in flight or a sink is attached."""
        ...

    @property
    def ended(self) -> bool:
        """True if the session accepts no more messages: it was closed, or the peer answers no pings."""
        ...

    def end(self, reason: str) -> None:
        """Cancel all requests in flight and remove the session from this process."""
        ...


class Engine(Protocol):
    """The server engine that a transport calls. Implemented by the supervisor."""

    @property
    def draining(self) -> bool: ...

    async def serve(self, channel: MessageChannel, *, principal: Principal | None = None) -> None:
        """Serve one peer on one channel until either side ends it. Closes the channel.

        Raises:
            Overloaded: There are too many sessions. The channel is still open, so that the error can be sent.
        """
        ...

    async def answer(
        self,
        message: Request | Notification,
        sink: MessageSink,
        *,
        principal: Principal | None = None,
        opened: Callable[[Callable[[str], None]], None] | None = None,
        may_stay_open: bool = False,
    ) -> bool:
        """Serve one self-contained message of a per-request revision.

        All its messages go to ``sink``, which is closed at the end. Cancelling the caller cancels the request
        (2026-07-28: a client cancels a request by closing its response stream).

        Args:
            opened: Called for a request, but not for a notification, with a function that cancels it. That function
                takes the reason.
            may_stay_open: True if this call may return while a subscription (``subscriptions/listen``) stays open.

        Returns:
            True if the request stays open. It ends when ``sink`` is closed, and only the function passed to
            ``opened`` cancels it.

        Raises:
            Overloaded: The server is at a limit; nothing was sent.
        """
        ...

    def open_session(self, *, principal: Principal | None = None, record: SessionRecord | None = None) -> PeerSession:
        """Open a session that waits for ``initialize``, or the local part of a stored session.

        Raises:
            Overloaded: There are too many sessions.
        """
        ...

    async def run_guarded(self, task: Callable[[], Awaitable[object]], what: str) -> None:
        """Run a task of the transport, and log its exception, for example that of a failing store.

        Args:
            what: The name of the task in the log.
        """
        ...

    def param_headers(self, tool: str, /) -> Mapping[str, tuple[str, ...]]:
        """Return the path of the argument that each parameter header of a tool repeats.

        The names of the headers are in lower case, without ``mcp-param-``.
        """
        ...

    def missing_scopes(self, incoming: Incoming, principal: Principal | None, /) -> frozenset[str]:
        """Return all scopes that the requests need if the principal lacks any of them, otherwise an empty set."""
        ...

    def route(self, path: str, /) -> ASGIApp | None:
        """Return the ASGI application that a plugin serves at this path, if any."""
        ...

    def readiness(self) -> Readiness:
        """Return the content of ``/readyz``."""
        ...
