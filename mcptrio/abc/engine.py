"""What a transport serves, as transports see it."""

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


ASGIApp: TypeAlias = "Callable[[Any, Any, Any], Awaitable[None]]"
"""Scope, receive, send; see ASGI 3.0."""


class StateSealer(Protocol):
    """Makes values that travel through the client opaque and unforgeable."""

    def seal(self, value: bytes, *, audience: bytes) -> str: ...

    def open(self, sealed: str, *, audience: bytes) -> bytes:
        """
        Raises:
            ValueError: not sealed by us, altered, or for another audience.
        """
        ...


class PeerSession(Protocol):
    """The local working part of one handshake session."""

    principal: Principal | None
    """Of whom what is received next comes: the session's person, with the token of that message."""

    @property
    def id(self) -> str: ...

    @property
    def record(self) -> SessionRecord | None:
        """``None`` until ``initialize`` has been answered with a result."""
        ...

    def receive(self, incoming: Incoming, outlet: MessageSink) -> bool:
        """Take in what a POST brought.

        Requests run in the session's own nursery, so they outlive the POST; all that belongs to them goes to
        ``outlet``, which is closed when nothing more will come. Never waits, never raises.

        Returns:
            Whether it concerned this process; ``False`` for an answer or a cancellation of something that is not in
            flight here, for which another replica may be waiting.
        """
        ...

    def attach(self, outlet: MessageSink) -> None:
        """From now on, messages that belong to no request go to this outlet (the GET stream)."""
        ...

    def detach(self, outlet: MessageSink) -> None: ...

    @property
    def busy(self) -> bool:
        """Whether requests are in flight or an outlet is attached."""
        ...

    @property
    def ended(self) -> bool:
        """Whether it takes in nothing more: told to end, or ended by itself (the peer answers no pings)."""
        ...

    def end(self, reason: str) -> None:
        """Cancel everything in flight and forget the session here."""
        ...


class Engine(Protocol):
    """What a transport serves. Implemented by the supervisor."""

    @property
    def draining(self) -> bool: ...

    async def serve(self, channel: MessageChannel, *, principal: Principal | None = None) -> None:
        """Serve one peer on one channel until either side ends it. Closes the channel.

        Raises:
            Overloaded: too many sessions; the channel is still open, for saying so.
        """
        ...

    async def answer(
        self,
        message: Request | Notification,
        outlet: MessageSink,
        *,
        principal: Principal | None = None,
        opened: Callable[[Callable[[str], None]], None] | None = None,
        standing: bool = False,
    ) -> bool:
        """Serve one self-contained message of a per-request revision.

        Everything about it goes to ``outlet``, which is closed at the end. Cancelling the caller cancels the request
        (2026-07-28: the client closing the response stream is cancellation).

        Args:
            opened: called, where it is a request, with what cancels it: a function of the reason.
            standing: whether a request that does nothing but stay open may do so without the caller.

        Returns:
            Whether it does. Then its end is that ``outlet`` is closed, and only ``opened``'s function cancels it.

        Raises:
            Overloaded: before anything was sent.
        """
        ...

    def open_session(self, *, principal: Principal | None = None, record: SessionRecord | None = None) -> PeerSession:
        """A new session waiting for ``initialize``, or the local working part of a stored one.

        Raises:
            Overloaded: too many sessions.
        """
        ...

    async def contained(self, task: Callable[[], Awaitable[object]], what: str) -> None:
        """Run a task of the transport's own; what it raises (a store that fails, say) is logged and ends nothing."""
        ...

    def mirrored_parameters(self, tool: str, /) -> Mapping[str, tuple[str, ...]]:
        """Header name (lower case, without ``mcp-param-``) to the path of the argument it mirrors."""
        ...

    def missing_scopes(self, incoming: Incoming, principal: Principal | None, /) -> frozenset[str]:
        """All scopes that the requests in it need, if the principal lacks any of them; nothing, if it lacks none."""
        ...

    def route(self, path: str, /) -> ASGIApp | None:
        """The ASGI application that a plugin serves at this path, if there is one."""
        ...

    def readiness(self) -> Readiness:
        """The answer of ``/readyz``."""
        ...
