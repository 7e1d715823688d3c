"""The ports: interfaces between the engines, below both who calls them and who implements them.

The one rule: nothing here does anything. Values are frozen; protocols are small.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol, runtime_checkable

from attrs import field, frozen

from mcptrio.protocol.messages import ErrorResponse, Incoming, Message, Notification, Request, RequestId, Response
from mcptrio.protocol.revisions.revision import Revision

__all__ = [
    "Bus",
    "ClientAuth",
    "Engine",
    "EventStore",
    "Link",
    "LinkOpener",
    "MessageChannel",
    "Outlet",
    "PeerSession",
    "Principal",
    "PromptChannel",
    "Receiver",
    "SessionRecord",
    "SessionStore",
    "StateSealer",
    "StoredEvent",
]


@frozen(kw_only=True)
class Principal:
    """Who was authenticated. Sessions never authenticate; a session is bound to its principal."""

    subject: str
    issuer: str | None = None
    client_id: str | None = None
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(factory=dict, eq=False)


class MessageChannel(Protocol):
    """Messages to and from one peer over one pipe: stdio, a socket, memory."""

    name: str
    """For logs and the tree: ``stdio``, ``memory``, ``tcp``."""

    async def receive(self) -> Sequence[Incoming]:
        """Everything that has arrived, at least one item.

        Raises:
            trio.EndOfChannel: the peer has closed its side.
            ConnectionClosed: the pipe broke.
        """
        ...

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Write all of it in one go; an inner sequence is one JSON-RPC batch. One task calls this at a time.

        Raises:
            ConnectionClosed: the pipe broke.
        """
        ...

    async def aclose(self) -> None: ...


@runtime_checkable
class PromptChannel(MessageChannel, Protocol):
    """A channel that can write a short message without waiting."""

    def send_now(self, message: Message) -> bool:
        """Write it at once where it can be written as a whole, otherwise nothing of it. Not while ``send`` runs.

        Returns:
            Whether it was written. What is wrong, if something is, the next ``send`` tells.
        """
        ...


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

    async def wait_closed(self) -> str:
        """Wait until the server has closed the link or it broke; why, in a few words."""
        ...


Receiver = Callable[[Request | Notification], None]
"""Takes in what a server sends that answers nothing, in the order of its stream. Never waits, never raises."""

LinkOpener = Callable[[Receiver], AbstractAsyncContextManager[Link]]
"""Opens a new link; leaving it says goodbye to the server within a stated time."""


class ClientAuth(Protocol):
    """Authorizes a client's HTTP requests."""

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """What to send with a request, e.g. ``Authorization``; empty where there is nothing yet."""
        ...

    async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        """The server refused with 401 or 403; ``headers`` are its answer's, in lower case.

        Returns:
            Whether there are other credentials now, with which the request is worth one more try.

        Raises:
            AuthorizationError: there will be none, and why.
        """
        ...


class Outlet(Protocol):
    """Where the messages about one request (or about none) go out."""

    async def send(self, message: Message | Sequence[Message]) -> None:
        """Hand a message over; waits while the outlet is full.

        Raises:
            ConnectionClosed: the outlet is closed; the message goes nowhere.
        """
        ...

    def offer(self, message: Notification, key: object) -> None:
        """Hand over a message that only matters while it is the newest with its key. Never waits.

        In a full outlet it takes the place of an earlier one with the same key that is still queued, or is held back
        until there is room; of very many keys the rest is dropped.
        On a closed outlet nothing happens.
        """
        ...

    def close(self) -> None:
        """Nothing more will be sent. What is queued still goes out."""
        ...

    def release(self, retry_ms: int) -> bool:
        """Let the client go, to come back in ``retry_ms`` milliseconds for the rest.

        Returns:
            Whether this outlet can: only streams that a client can resume do.
        """
        ...


@frozen(kw_only=True)
class SessionRecord:
    """A handshake session as every replica sees it. No replica owns it."""

    id: str
    revision: str
    principal: Principal | None = None
    client_info: Mapping[str, Any] = field(factory=dict)
    """The wire form of Implementation."""
    client_capabilities: Mapping[str, Any] = field(factory=dict)
    """The wire form of ClientCapabilities."""
    initialized: bool = False
    """Whether ``notifications/initialized`` has arrived."""
    log_level: str | None = None
    subscriptions: frozenset[str] = frozenset()
    """URIs of ``resources/subscribe``."""


class SessionStore(Protocol):
    """Handshake sessions between requests. Expiry is by idle time: ``load`` counts as use.

    Whatever a store keeps outside this process can fail: then each method raises StoreFailed, and the next call is
    tried anew.
    """

    async def save(self, record: SessionRecord) -> None:
        """
        Raises:
            Overloaded: a new session, and the store is full of ones that have not expired.
        """
        ...

    async def load(self, id: str) -> SessionRecord | None: ...
    async def delete(self, id: str) -> bool:
        """Whether there was such a session."""
        ...

    async def expire(self) -> list[str]:
        """Drop sessions idle for too long, and tell which; possibly not all of them at once."""
        ...


@frozen
class StoredEvent:
    id: str
    """Unique in the session, visible ASCII; names its stream."""
    data: bytes
    """An encoded message; empty for a priming event."""


class EventStore(Protocol):
    """Messages of streams that can be resumed. An id is a position in its stream.

    A stream has one writer, the process that appends to it; everybody may read. A cancelled call has happened as a
    whole or not at all. What fails raises StoreFailed, as with :class:`SessionStore`.
    """

    async def append(
        self, session: str, stream: str, *data: bytes, last: bool = False, will: bytes | None = None
    ) -> StoredEvent:
        """Store one event, or several in their order; readers find them when this returns.

        Args:
            data: of each event; at least one.
            last: nothing will follow on this stream.
            will: what becomes the last event of the stream if its writer ends before it has written one, however it
                ends (MQTT's word). ``None`` leaves what was said before; at first it is an event without data.

        Returns:
            The last of them.

        Raises:
            ConnectionClosed: the stream is complete.
        """
        ...

    async def settle(self, session: str, stream: str) -> None:
        """The writer gives the stream up: append its will now, unless it is complete or unknown.

        A store that cannot do it now does it as soon as it can. It does the same for writers that are gone without
        having said so.
        """
        ...

    async def after(self, session: str, event_id: str) -> tuple[str, list[StoredEvent], bool] | None:
        """The stream of ``event_id``, later events of that stream, and whether these are the last.

        Of very many events only the first come; then they are not the last, and the caller asks again.
        ``None`` when the id is unknown, of another session, or something that followed it is dropped already.
        """
        ...

    async def read(self, session: str, stream: str, position: int) -> tuple[list[StoredEvent], bool]:
        """Events of a stream from ``position`` (0 is the first), and whether these are the last; as :meth:`after`."""
        ...

    async def completed_after(self, session: str, stream: str) -> list[str]:
        """The streams of the session that began after this one and are complete, in the order they began."""
        ...

    async def listen(self, wake: Callable[[str, str], None]) -> None:
        """Call ``wake`` with session and stream when another process may have stored an event there.

        For one caller at a time. Runs until cancelled.
        """
        ...

    async def drop(self, session: str) -> None:
        """Forget all streams of a session."""
        ...


class Bus(Protocol):
    """Small messages between replicas. May lose them; never the only copy of anything."""

    async def publish(self, topic: str, message: bytes) -> None: ...

    def subscribe(self, topic: str) -> AbstractAsyncContextManager[AsyncIterator[bytes]]:
        """Messages published from now on. A slow reader loses the oldest."""
        ...


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

    def receive(self, incoming: Incoming, outlet: Outlet) -> bool:
        """Take in what a POST brought.

        Requests run in the session's own nursery, so they outlive the POST; all that belongs to them goes to
        ``outlet``, which is closed when nothing more will come. Never waits, never raises.

        Returns:
            Whether it concerned this process; ``False`` for an answer or a cancellation of something that is not in
            flight here, for which another replica may be waiting.
        """
        ...

    def attach(self, outlet: Outlet) -> None:
        """From now on, messages that belong to no request go to this outlet (the GET stream)."""
        ...

    def detach(self, outlet: Outlet) -> None: ...

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
        outlet: Outlet,
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

    def mirrored_parameters(self, tool: str) -> Mapping[str, tuple[str, ...]]:
        """Header name (lower case, without ``mcp-param-``) to the path of the argument it mirrors."""
        ...

    def health(self) -> Mapping[str, Any]:
        """``{"ready": bool, ...}`` with one entry a plugin; for ``/readyz``."""
        ...
