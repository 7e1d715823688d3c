"""A server that a client reaches over links which a test cuts, with sessions that the server forgets.

Used by the model test of the client's session. One kind of link is a pipe over channels in memory. The other kind
behaves as HTTP does: each request is separate, and the link survives the loss of the session.

Source: MCP 2025-11-25, basic/transports, "Session Management"; MCP 2026-07-28, basic/versioning.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from types import MappingProxyType
from typing import Any

import trio
from attrs import define, field

from mcptrio.abc import MessageChannel
from mcptrio.abc.links import Link, LinkOpener, Receiver
from mcptrio.errors import ConnectionClosed, MCPError, RequestFailed, SessionLost
from mcptrio.protocol.envelope import SUBSCRIPTION_ID
from mcptrio.protocol.messages import ErrorResponse, Message, Notification, Request, RequestId, Response
from mcptrio.protocol.revisions.revision import Revision
from mcptrio.serving import memory_channel_pair
from mcptrio.transports.pipe import open_pipe_link

__all__ = ["NEW", "OLD", "URIS", "Site"]

OLD = "2025-11-25"
NEW = "2026-07-28"
URIS = ("note:///0", "note:///1")
TTL = 3_000_000
"""Milliseconds for which the client may keep a result of the newer revision."""

_CHANGED = {"tools": "notifications/tools/list_changed"}
_NOTHING: Mapping[str, tuple[str, ...]] = MappingProxyType({})
_CAPABILITIES = {"tools": {"listChanged": True}, "resources": {"subscribe": True}}
_INFO = {"name": "modelled", "version": "1"}


@define(eq=False)
class Peer:
    """One session of the server, or one link if the revision has no sessions."""

    send: Callable[[Notification], Awaitable[None]]
    has_session: bool = False
    uris: set[str] = field(factory=set)
    streams: dict[RequestId, dict[str, Any]] = field(factory=dict)
    """The changes that each stream reports, by the id of its request."""
    stream_ends: dict[RequestId, trio.Event] = field(factory=dict)


class Site:
    """The server that the client reaches over the links.

    Attributes:
        versions: Versions of the list of tools and of each resource.
        executed: Number of executions of each call.
        latency: Seconds before each response.
        handshakes: ``initialize`` requests in progress.
    """

    def __init__(self, *, is_pipe: bool, revision: str) -> None:
        self.is_pipe = is_pipe
        self.revision = revision
        self.is_reachable = True
        self.latency = 0.0
        self.versions: Counter[str] = Counter()
        self.executed: Counter[str] = Counter()
        self.links: list[PipeEnd | SessionLink] = []
        self.handshakes = 0
        self.most_handshakes = 0
        self.most_links = 0

    @property
    def opener(self) -> LinkOpener:
        return self._open_pipe if self.is_pipe else self._open_sessions

    @property
    def peers(self) -> list[Peer]:
        return [link.peer for link in self.links]

    # Called by tests

    def cut(self) -> None:
        """Break every connection. An HTTP link survives that, but its requests fail."""
        for link in list(self.links):
            link.cut()

    def forget(self, *, notices: bool) -> None:
        """Forget the sessions.

        Args:
            notices: Whether the client learns of it at once, from its GET stream.
        """
        for link in self.links:
            link.forget(notices=notices)

    def end_streams(self) -> None:
        for peer in self.peers:
            for ended in peer.stream_ends.values():
                ended.set()

    async def change(self, what: str) -> None:
        """Change the list of tools or a resource, and report it to the current subscribers."""
        self.versions[what] += 1
        method, params = (
            _CHANGED.get(what, "notifications/resources/updated"),
            {} if what in _CHANGED else {"uri": what},
        )
        for peer in self.peers:
            if peer.has_session and (what in _CHANGED or what in peer.uris):
                await peer.send(Notification(method, params or None))
            for id, wanted in list(peer.streams.items()):
                if wanted.get("toolsListChanged") if what in _CHANGED else what in wanted["resourceSubscriptions"]:
                    await peer.send(Notification(method, {**params, "_meta": {SUBSCRIPTION_ID: id}}))

    # Serving

    async def serve(self, peer: Peer, request: Request) -> Response | ErrorResponse:
        """Execute a request, and answer it after the latency."""
        try:
            result = await self._serve(peer, request, request.params or {})
        except MCPError as error:
            return ErrorResponse(request.id, error.code, str(error))
        if self.revision == NEW:
            result = {"resultType": "complete", "ttlMs": TTL, "cacheScope": "private", **result}
        return Response(request.id, result)

    async def _serve(self, peer: Peer, request: Request, params: Mapping[str, Any]) -> dict[str, Any]:
        method, is_old = request.method, self.revision == OLD
        if method == "initialize" and is_old:
            return await self._initialize(peer)
        if method == "server/discover" and not is_old:
            await trio.sleep(self.latency)
            return {"supportedVersions": [NEW], "capabilities": _CAPABILITIES}
        if method == "subscriptions/listen" and not is_old:
            return await self._listen(peer, request.id, params["notifications"])
        result: dict[str, Any] = {}
        if method == "tools/call":
            self.executed[params["arguments"]["key"]] += 1
            result = {"content": [], "structuredContent": {f"v{self.versions['tools']}": True}}
        elif method == "tools/list":
            version = f"v{self.versions['tools']}"
            schema = {"type": "object", "required": [version]}
            result = {"tools": [{"name": "work", "title": version, "inputSchema": {"type": "object"}}]}
            result["tools"][0]["outputSchema"] = schema
        elif method == "resources/read":
            text = str(self.versions[params["uri"]])
            result = {"contents": [{"uri": params["uri"], "text": text}]}
        elif method == "resources/subscribe" and is_old:
            peer.uris.add(params["uri"])
        elif method == "resources/unsubscribe" and is_old:
            peer.uris.discard(params["uri"])
        elif method != "ping" or not is_old:
            raise MCPError(f"no such method: {method}", code=-32601)
        await trio.sleep(self.latency)
        return result

    async def _initialize(self, peer: Peer) -> dict[str, Any]:
        self.handshakes += 1
        self.most_handshakes = max(self.most_handshakes, self.handshakes)
        try:
            await trio.sleep(self.latency)
        finally:
            self.handshakes -= 1
        peer.has_session = True
        peer.uris.clear()
        return {"protocolVersion": OLD, "capabilities": _CAPABILITIES, "serverInfo": _INFO}

    async def _listen(self, peer: Peer, id: RequestId, wanted: dict[str, Any]) -> dict[str, Any]:
        await trio.sleep(self.latency)
        ended = peer.stream_ends[id] = trio.Event()
        wanted = {"resourceSubscriptions": [], **wanted}
        peer.streams[id] = wanted
        try:
            params = {"notifications": wanted, "_meta": {SUBSCRIPTION_ID: id}}
            await peer.send(Notification("notifications/subscriptions/acknowledged", params))
            await ended.wait()
        finally:
            del peer.streams[id], peer.stream_ends[id]
        return {"_meta": {SUBSCRIPTION_ID: id}}

    # Links

    @asynccontextmanager
    async def _open_pipe(self, receive: Receiver) -> AsyncIterator[Link]:
        if not self.is_reachable:
            raise ConnectionClosed("the server does not start")
        ours, theirs = memory_channel_pair()
        async with trio.open_nursery() as nursery:
            end = PipeEnd(self, theirs, nursery)
            nursery.start_soon(end.run)
            with self._listed(end):
                async with open_pipe_link(ours, receive) as link:
                    yield link
            nursery.cancel_scope.cancel()

    @asynccontextmanager
    async def _open_sessions(self, receive: Receiver) -> AsyncIterator[Link]:
        link = SessionLink(self, receive)
        with self._listed(link):
            try:
                yield link
            finally:
                link.close()

    @contextmanager
    def _listed(self, link: PipeEnd | SessionLink) -> Iterator[None]:
        self.links.append(link)
        self.most_links = max(self.most_links, len(self.links))
        try:
            yield
        finally:
            self.links.remove(link)


class PipeEnd:
    """The server's end of a pipe: the process."""

    def __init__(self, site: Site, channel: MessageChannel, nursery: trio.Nursery) -> None:
        self.peer = Peer(self._send)
        self._site = site
        self._channel = channel
        self._nursery = nursery
        self._handlers: dict[RequestId, trio.CancelScope] = {}

    async def run(self) -> None:
        try:
            while True:
                for message in await self._channel.receive():
                    self._take(message)
        except (trio.EndOfChannel, ConnectionClosed):
            self.cut()

    def cut(self) -> None:
        self.peer.has_session = False
        for scope in self._handlers.values():
            scope.cancel()
        self._nursery.start_soon(self._channel.aclose)

    def forget(self, *, notices: bool) -> None:
        """Do nothing: a pipe has no sessions to forget."""

    def _take(self, message: Message) -> None:
        if isinstance(message, Request):
            self._handlers[message.id] = trio.CancelScope()
            self._nursery.start_soon(self._handle, message)
        elif isinstance(message, Notification) and message.method == "notifications/cancelled":
            scope = self._handlers.get((message.params or {})["requestId"])
            if scope is not None:
                scope.cancel()

    async def _handle(self, request: Request) -> None:
        try:
            with self._handlers[request.id]:
                await self._send(await self._site.serve(self.peer, request))
        finally:
            del self._handlers[request.id]

    async def _send(self, message: Message) -> None:
        try:
            await self._channel.send([message])
        except ConnectionClosed:
            pass


class SessionLink:
    """A link whose requests are separate, as over HTTP."""

    name = "modelled"

    def __init__(self, site: Site, receive: Receiver) -> None:
        self.peer = Peer(self._send)
        self.closed = False
        self._site = site
        self._receive = receive
        self._revision: Revision | None = None
        self._is_lost = False
        self._ended = trio.Event()
        self._exchanges: dict[RequestId, trio.CancelScope] = {}
        self._late: set[RequestId] = set()

    def cut(self) -> None:
        for scope in self._exchanges.values():
            scope.cancel()

    def forget(self, *, notices: bool) -> None:
        self.peer.has_session = False
        self.peer.uris.clear()
        if notices and self._revision is not None and self._revision.http.sessions:
            self._lose()

    def close(self) -> None:
        self.closed = True
        self._ended.set()
        self.cut()

    async def exchange(
        self, request: Request, revision: Revision, *, param_headers: Mapping[str, tuple[str, ...]] = _NOTHING
    ) -> Response | ErrorResponse:
        await self._deliver(revision, is_first=request.method == "initialize")
        with trio.CancelScope() as scope:
            self._exchanges[request.id] = scope
            try:
                answer = await self._site.serve(self.peer, request)
                if request.method == "initialize":
                    self._is_lost = False
                return answer
            finally:
                del self._exchanges[request.id]
        if request.id in self._late:
            self._late.discard(request.id)
            raise trio.TooSlowError
        if self.closed:
            raise ConnectionClosed("the client has closed the connection")
        raise RequestFailed("the connection broke before the answer")

    def abandon(self, id: RequestId) -> None:
        if id in self._exchanges:
            self._late.add(id)
            self._exchanges[id].cancel()

    async def send(self, message: Notification | Response | ErrorResponse, revision: Revision) -> None:
        await self._deliver(revision, is_first=False)

    def cancels_by_closing(self, revision: Revision) -> bool:
        return not revision.http.sessions

    def sends_param_headers(self, revision: Revision) -> bool:
        return False

    def start_listening(self, revision: Revision) -> None:
        self._revision = revision
        # The server would answer its GET stream with 404.
        if revision.http.sessions and not self.peer.has_session:
            self._lose()

    def drop_revision(self, revision: Revision) -> bool:
        if revision is self._revision:
            self._lose()
        return True

    async def until_listening(self) -> None:
        pass

    async def wait_closed(self) -> str:
        await self._ended.wait()
        if self.closed:
            return "the client has closed the connection"
        self._ended = trio.Event()
        raise SessionLost("the server has forgotten the session")

    async def _deliver(self, revision: Revision, *, is_first: bool) -> None:
        await trio.lowlevel.checkpoint()
        if self.closed:
            raise ConnectionClosed("the client has closed the connection")
        if not self._site.is_reachable:
            raise RequestFailed("cannot connect", delivered=False)
        if revision.http.sessions and not is_first and self._is_lost:
            raise SessionLost("the server has forgotten the session")
        if revision.version != self._site.revision:
            raise RequestFailed("not in this revision", status=400, delivered=False)
        if revision.http.sessions and not is_first and not self.peer.has_session:
            self._lose()
            raise SessionLost("the server has forgotten the session")

    def _lose(self) -> None:
        if self._revision is not None:
            self._revision, self._is_lost = None, True
            self._ended.set()

    async def _send(self, notification: Notification) -> None:
        self._receive(notification)
