"""An engine that implements every member of the HTTP port, and a server on a real socket around it."""

from __future__ import annotations

import json
import secrets
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping
from contextlib import AsyncExitStack, asynccontextmanager
from functools import partial
from typing import Any

import h11
import httpx2
import pytest
import trio
from attrs import define, evolve, field

from mcptrio.abc import ASGIApp, MessageChannel, MessageSink, Principal, SessionRecord
from mcptrio.abc.status import Readiness
from mcptrio.errors import ConnectionClosed, InvalidParams, MethodNotFound, Overloaded, UnsupportedProtocolVersion
from mcptrio.http.client import link
from mcptrio.http.engine.limits import ConnectionLimits
from mcptrio.http.engine.server import serve_asgi
from mcptrio.http.exchange import EXTENSION
from mcptrio.http.server.app import HTTPApp
from mcptrio.outbox import Outbox
from mcptrio.protocol.envelope import CLIENT_CAPABILITIES, PROTOCOL_VERSION, Envelope
from mcptrio.protocol.messages import Batch, ErrorResponse, Incoming, Malformed, Notification, Request, Response
from mcptrio.protocol.revisions.registry import MODERN_VERSIONS, REVISIONS, negotiate
from mcptrio.stores.memory import MemoryEventStore, MemorySessionStore

MODERN = MODERN_VERSIONS[-1]
ACCEPT = "application/json, text/event-stream"


class EchoSession:
    """The local part of one session of the :class:`EchoEngine`."""

    def __init__(self, engine: EchoEngine, principal: Principal | None, record: SessionRecord | None) -> None:
        self.engine = engine
        self.id = record.id if record else secrets.token_urlsafe(24)
        self.principal = principal
        self.record = record
        self.sinks: list[MessageSink] = []
        self.attached = trio.Event()
        self.scopes: dict[Any, trio.CancelScope] = {}
        self.asked: dict[Any, trio.Event] = {}
        self.answers: dict[Any, Any] = {}
        self.ended = False
        self.reports = 0
        """How many times the session was asked to report everything as changed."""

    @property
    def busy(self) -> bool:
        return bool(self.scopes or self.sinks)

    def refresh(self, record: SessionRecord) -> None:
        self.record = record

    def report_everything_changed(self) -> None:
        self.reports += 1

    def receive(self, incoming: Incoming, sink: MessageSink) -> None:
        if isinstance(incoming, Batch):
            if self.record is None or not REVISIONS[self.record.revision].batches:
                self.engine.start(self._refuse_batch, sink)
                return
            requests = [m for m in incoming.messages if isinstance(m, Request)]
            for message in incoming.messages:
                if not isinstance(message, (Request, Malformed)):
                    self.receive(message, Outbox())
            if requests:
                self.engine.start(self._run_batch, requests, sink)
            else:
                sink.close()
        elif isinstance(incoming, Request):
            self.engine.start(self._run, incoming, sink)
        elif isinstance(incoming, Notification):
            self.engine.notified.append(incoming.method)
            if incoming.method == "notifications/initialized" and self.record is not None:
                self.record = evolve(self.record, initialized=True)
            if incoming.method == "notifications/cancelled" and incoming.params:
                scope = self.scopes.get(incoming.params["requestId"])
                if scope is not None:
                    scope.cancel()
            sink.close()
        elif isinstance(incoming, Response):
            if incoming.id in self.asked:
                self.answers[incoming.id] = incoming.result
                self.asked[incoming.id].set()
            sink.close()
        elif isinstance(incoming, ErrorResponse):
            if incoming.id in self.asked:
                self.answers[incoming.id] = {"error": incoming.message}
                self.asked[incoming.id].set()
            sink.close()

    def attach(self, sink: MessageSink) -> None:
        self.sinks.append(sink)
        self.attached.set()

    def detach(self, sink: MessageSink) -> None:
        self.sinks.remove(sink)

    def end(self, reason: str) -> None:
        self.ended = True
        self.engine.sessions.discard(self)
        for scope in self.scopes.values():
            scope.cancel()

    async def ask(self, sink: MessageSink, method: str) -> Any:
        id = f"ask-{secrets.token_hex(4)}"
        self.asked[id] = trio.Event()
        await sink.send(Request(id, method, {}))
        await self.asked[id].wait()
        del self.asked[id]
        return self.answers.pop(id)

    async def _refuse_batch(self, sink: MessageSink) -> None:
        await sink.send(ErrorResponse(None, -32600, "batches are not in this revision"))
        sink.close()

    async def _run_batch(self, requests: list[Request], sink: MessageSink) -> None:
        replies = [await self.engine.reply(request, sink, self) for request in requests]
        await sink.send([reply for reply in replies if reply is not None])
        sink.close()

    async def _run(self, request: Request, sink: MessageSink) -> None:
        with trio.CancelScope() as scope:
            self.scopes[request.id] = scope
            try:
                if request.method == "initialize":
                    reply: Any = self._initialize(request)
                else:
                    reply = await self.engine.reply(request, sink, self)
                if reply is not None:
                    await sink.send(reply)
            except ConnectionClosed:
                self.engine.unheard += 1
            finally:
                del self.scopes[request.id]
        sink.close()

    def _initialize(self, request: Request) -> Response | ErrorResponse:
        params = request.params or {}
        if "protocolVersion" not in params:
            return ErrorResponse(request.id, -32602, "expected protocolVersion")
        version = negotiate(params["protocolVersion"]).version
        self.record = SessionRecord(id=self.id, revision=version, principal=self.principal)
        return Response(request.id, {"protocolVersion": version})


class EchoEngine:
    """Tools by name: echo, slow, progress, ask, flood, release, crowd."""

    def __init__(self) -> None:
        self.draining = False
        self.ready = True
        self.limit: int | None = None
        self.in_flight = 0
        self.cancelled: list[float] = []
        self.was_cancelled = trio.Event()
        self.started = trio.Event()
        self.go = trio.Event()
        self.notified: list[str] = []
        self.unheard = 0
        self.sent = 0
        self.sessions: set[EchoSession] = set()
        self.routes: dict[str, ASGIApp] = {}
        self.nursery: trio.Nursery

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        async with trio.open_nursery() as self.nursery:
            task_status.started()
            await trio.sleep_forever()

    def start(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        self.nursery.start_soon(function, *args)

    async def serve(self, channel: MessageChannel, *, principal: Principal | None = None) -> None:
        raise NotImplementedError

    async def run_guarded(self, task: Any, what: str) -> None:
        await task()

    async def answer(
        self,
        message: Any,
        sink: MessageSink,
        *,
        principal: Principal | None = None,
        opened: Callable[[Callable[[str], None]], None] | None = None,
        may_stay_open: bool = False,
    ) -> bool:
        if self.limit == 0:
            raise Overloaded("too much", retry_after=7)
        try:
            if isinstance(message, Notification):
                self.notified.append(message.method)
                return False
            envelope = Envelope.read(message.params)
            if envelope.version not in MODERN_VERSIONS:
                error = UnsupportedProtocolVersion(envelope.version, list(MODERN_VERSIONS))
                await sink.send(ErrorResponse.of(message.id, error))
                return False
            with trio.CancelScope() as scope:
                if opened is not None:
                    opened(lambda reason: scope.cancel(reason=reason))
                reply = await self.reply(message, sink, None)
                if reply is not None:
                    await sink.send(reply)
        finally:
            sink.close()
        return False

    def open_session(self, *, principal: Principal | None = None, record: SessionRecord | None = None) -> EchoSession:
        if self.limit is not None and len(self.sessions) >= self.limit:
            raise Overloaded("too many sessions", retry_after=3)
        session = EchoSession(self, principal, record)
        self.sessions.add(session)
        return session

    def missing_scopes(self, incoming: Incoming, principal: Principal | None) -> frozenset[str]:
        return frozenset()

    def route(self, path: str) -> ASGIApp | None:
        return self.routes.get(path)

    def param_headers(self, tool: str) -> Mapping[str, tuple[str, ...]]:
        return {"region": ("where", "region"), "count": ("count",), "flag": ("flag",)} if tool == "echo" else {}

    def readiness(self) -> Readiness:
        return Readiness(ready=self.ready, plugins={})

    async def reply(
        self, request: Request, sink: MessageSink, session: EchoSession | None
    ) -> Response | ErrorResponse | None:
        self.in_flight += 1
        try:
            return await self._reply(request, sink, session)
        except trio.Cancelled:
            self.cancelled.append(trio.current_time())
            self.was_cancelled.set()
            raise
        finally:
            self.in_flight -= 1

    async def _reply(self, request: Request, sink: MessageSink, session: EchoSession | None) -> Any:
        params = request.params or {}
        if request.method == "subscriptions/listen":
            await sink.send(Notification("notifications/subscriptions/acknowledged"))
            self.started.set()
            await self.go.wait()
            return Response(request.id, {})
        if request.method == "logging/setLevel" and session is not None and session.record is not None:
            session.record = evolve(session.record, log_level=params["level"])
            return Response(request.id, {})
        if request.method != "tools/call":
            return ErrorResponse.of(request.id, MethodNotFound(f"no such method: {request.method}"))
        tool, arguments = params.get("name"), params.get("arguments") or {}
        if tool == "echo":
            return Response(request.id, {"echo": arguments})
        if tool == "slow":
            self.started.set()
            await self.go.wait()
            return Response(request.id, {"slow": True})
        if tool == "progress":
            more = {"message": "x" * arguments["size"]} if "size" in arguments else {}
            for step in range(arguments.get("steps", 3)):
                await sink.send(Notification("notifications/progress", {"progress": step, **more}))
            self.started.set()
            if arguments.get("wait"):
                await self.go.wait()
            return Response(request.id, {"done": True})
        if tool == "ask" and session is not None:
            return Response(request.id, {"answer": await session.ask(sink, "elicitation/create")})
        if tool == "flood":
            self.started.set()
            while True:
                self.sent += 1
                await sink.send(Notification("notifications/message", {"data": "x" * 10_000}))
        if tool == "release":
            released = sink.release(500)  # type: ignore[attr-defined]
            self.started.set()
            await self.go.wait()
            return Response(request.id, {"released": released})
        if tool == "offer":
            sink.send_latest(Notification("notifications/progress", {"progress": 1}), "p")
            sink.send_latest(Notification("notifications/progress", {"progress": 2}), "p")
            return Response(request.id, {})
        return ErrorResponse.of(request.id, InvalidParams(f"unknown tool: {tool}"))


def call(tool: str, arguments: Any = None, *, id: Any = 1, version: str | None = None) -> dict[str, Any]:
    """A ``tools/call``; with a version, in that per-request revision."""
    params: dict[str, Any] = {"name": tool, "arguments": arguments or {}}
    if version is not None:
        params["_meta"] = {PROTOCOL_VERSION: version, CLIENT_CAPABILITIES: {}}
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": params}


def modern_headers(message: dict[str, Any], **more: str) -> dict[str, str]:
    headers = {"accept": ACCEPT, "mcp-protocol-version": MODERN, "mcp-method": message["method"]}
    name = (message.get("params") or {}).get("name")
    if name is not None:
        headers["mcp-name"] = name
    return headers | {key.replace("_", "-"): value for key, value in more.items()}


@define
class Client:
    """One HTTP client of one server."""

    http: httpx2.AsyncClient
    port: int
    session: str | None = None
    version: str | None = None

    async def modern(self, tool: str, arguments: Any = None, *, id: Any = 1, **headers: str) -> httpx2.Response:
        message = call(tool, arguments, id=id, version=MODERN)
        return await self.http.post("/mcp", json=message, headers=modern_headers(message, **headers))

    def headers(self) -> dict[str, str]:
        headers = {"accept": ACCEPT}
        if self.session is not None:
            headers["mcp-session-id"] = self.session
        return headers

    async def post(self, message: Any, **headers: str) -> httpx2.Response:
        more = {key.replace("_", "-"): value for key, value in headers.items()}
        return await self.http.post("/mcp", json=message, headers=self.headers() | more)

    async def initialize(self, version: str = "2025-11-25", **headers: str) -> httpx2.Response:
        self.session = None
        params = {"protocolVersion": version, "capabilities": {}, "clientInfo": {"name": "t", "version": "1"}}
        response = await self.post({"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": params}, **headers)
        self.session = response.headers.get("mcp-session-id")
        return response

    @asynccontextmanager
    async def stream(self, method: str, message: Any = None, **headers: str) -> AsyncIterator[Events]:
        """Run one exchange on its own socket, which is closed at the end of the block."""
        all_headers = {"host": f"127.0.0.1:{self.port}", "content-type": "application/json"} | self.headers()
        if method == "GET":
            all_headers["accept"] = "text/event-stream"
        all_headers |= {key.replace("_", "-"): value for key, value in headers.items()}
        body = json.dumps(message).encode() if message is not None else b""
        all_headers["content-length"] = str(len(body))
        connection = h11.Connection(h11.CLIENT)
        request = h11.Request(method=method, target="/mcp", headers=list(all_headers.items()))
        data = b"".join(connection.send(e) or b"" for e in (request, h11.Data(data=body), h11.EndOfMessage()))
        with trio.fail_after(60):
            async with await trio.open_tcp_stream("127.0.0.1", self.port) as socket:
                await socket.send_all(data)
                events = Events(socket, connection)
                await events.begin()
                yield events


class Events:
    """The events of one response, as dicts with id, data (parsed, or None where empty) and retry."""

    def __init__(self, socket: trio.SocketStream, connection: h11.Connection) -> None:
        self.comments = 0
        self.retry: int | None = None
        self.status = 0
        self.headers: dict[str, str] = {}
        self._socket = socket
        self._connection = connection
        self._text = ""

    async def begin(self) -> None:
        response = await self._read()
        self.status = response.status_code
        self.headers = {name.decode(): value.decode() for name, value in response.headers}

    async def next(self) -> dict[str, Any] | None:
        """The next event, or ``None`` at the end."""
        while True:
            block, separator, rest = self._text.partition("\n\n")
            if not separator:
                event = await self._read()
                if not isinstance(event, h11.Data):
                    return None
                self._text += bytes(event.data).decode()
                continue
            self._text = rest
            fields = dict(line.split(": ", 1) for line in block.split("\n") if not line.startswith(":"))
            self.comments += block.startswith(":")
            if "retry" in fields:
                self.retry = int(fields["retry"])
            if "data" in fields:
                return fields | {"data": json.loads(fields["data"]) if fields["data"] else None}

    async def rest(self) -> list[dict[str, Any]]:
        events = []
        while (event := await self.next()) is not None:
            events.append(event)
        return events

    async def _read(self) -> Any:
        while (event := self._connection.next_event()) is h11.NEED_DATA:
            self._connection.receive_data(await self._socket.receive_some())
        return event


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Let the end of a link close its session on a slow machine too."""
    monkeypatch.setattr(link, "CLOSE_TIMEOUT", 20.0)


@define
class Server:
    engine: EchoEngine
    app: HTTPApp
    port: int
    client: Client
    sessions: MemorySessionStore
    events: MemoryEventStore
    shutdown: trio.Event


@define
class Starter:
    nursery: trio.Nursery
    stack: AsyncExitStack
    serve: Callable[..., Awaitable[None]]
    servers: list[Server] = field(factory=list)

    async def __call__(
        self,
        *,
        engine: EchoEngine | None = None,
        connection: ConnectionLimits | None = None,
        **options: Any,
    ) -> Server:
        engine = engine or EchoEngine()
        sessions = options.setdefault("sessions", MemorySessionStore())
        events = options.setdefault("events", MemoryEventStore())
        app = HTTPApp(engine, **options)
        shutdown = trio.Event()
        await self.nursery.start(engine.run)
        await self.nursery.start(app.run)
        urls = await self.nursery.start(
            partial(self.serve, app, bind="127.0.0.1:0", shutdown=shutdown, shutdown_timeout=0.5, limits=connection)
        )
        http = await self.stack.enter_async_context(httpx2.AsyncClient(base_url=urls[0], timeout=60))
        port = int(urls[0].rpartition(":")[2])
        server = Server(engine, app, port, Client(http, port), sessions, events, shutdown)
        self.servers.append(server)
        return server


async def serve_plain(app: ASGIApp, **options: Any) -> None:
    """Run the application as on an ASGI server that does not know the engine's exchange."""

    async def without_extension(scope: Any, receive: Any, send: Any) -> None:
        scope.get("extensions", {}).pop(EXTENSION, None)
        await app(scope, receive, send)

    await serve_asgi(without_extension, **options)


@pytest.fixture(params=[serve_asgi, serve_plain], ids=["engine", "asgi"])
async def start(request: pytest.FixtureRequest) -> AsyncIterator[Starter]:
    """Start servers; check at the end of the test that they have left nothing."""
    async with trio.open_nursery() as nursery:
        async with AsyncExitStack() as stack:
            starter = Starter(nursery, stack, request.param)
            yield starter
        for server in starter.servers:
            server.shutdown.set()
        nursery.cancel_scope.cancel()
    for server in starter.servers:
        assert server.engine.in_flight == 0
        assert server.app.exchanges == 0
        assert server.app._sessions._local == {}
