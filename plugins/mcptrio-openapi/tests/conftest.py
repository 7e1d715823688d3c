"""A real HTTP server on a loopback socket that records every received byte; and clients of the plugin."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, evolve, field
from mcptrio_openapi import Api, Config, OpenAPI

from mcptrio import Client, Server, connect
from mcptrio.serving import ServerLimits, ServerSettings

DATA = Path(__file__).parent / "data"


@define
class ReceivedRequest:
    """One received request."""

    raw: bytes
    body: bytes

    @property
    def head(self) -> bytes:
        return self.raw[: self.raw.index(b"\r\n\r\n")]

    @property
    def line(self) -> str:
        return self.head.split(b"\r\n")[0].decode()

    @property
    def target(self) -> str:
        return self.line.split(" ")[1]

    def header(self, name: str) -> str | None:
        for line in self.head.split(b"\r\n")[1:]:
            key, _, value = line.partition(b": ")
            if key.decode().lower() == name.lower():
                return value.decode()
        return None


def reply(
    body: bytes | str | Any = b"", status: int = 200, headers: dict[str, str] | None = None, kind: str | None = None
) -> bytes:
    """Return a response with a length; other values than bytes and strings are sent as JSON."""
    if not isinstance(body, bytes | str):
        body, kind = json.dumps(body), kind or "application/json"
    data = body if isinstance(body, bytes) else body.encode()
    lines = [f"HTTP/1.1 {status} Whatever", f"Content-Length: {len(data)}"]
    if kind:
        lines.append(f"Content-Type: {kind}")
    lines += [f"{key}: {value}" for key, value in (headers or {}).items()]
    return "\r\n".join(lines).encode() + b"\r\n\r\n" + data


Answering = Callable[[ReceivedRequest, trio.abc.Stream], Awaitable[bytes | None]]


@define(eq=False)
class Site:
    """The served responses, and the received requests."""

    url: str = ""
    arrived: list[ReceivedRequest] = field(factory=list)
    answers: list[bytes | Answering] = field(factory=list)
    """The responses for one request each, in order; then ``always``."""
    always: bytes | Answering = field(factory=partial(reply, {}))
    connections: int = 0
    open: int = 0
    most_open: int = 0
    closed: trio.Event = field(factory=trio.Event)
    """Set when a client has closed a connection while its request was being answered."""

    @property
    def last(self) -> ReceivedRequest:
        return self.arrived[-1]

    async def serve(self, stream: trio.abc.Stream) -> None:
        buffer = b""
        self.connections += 1
        while True:
            while b"\r\n\r\n" not in buffer:
                try:
                    chunk = await stream.receive_some()
                except trio.BrokenResourceError:
                    return
                if not chunk:
                    return
                buffer += chunk
            head, _, rest = buffer.partition(b"\r\n\r\n")
            arrived = ReceivedRequest(head + b"\r\n\r\n", b"")
            length = int(arrived.header("content-length") or 0)
            while len(rest) < length:
                rest += await stream.receive_some()
            arrived.body, buffer = rest[:length], rest[length:]
            arrived.raw += arrived.body
            self.arrived.append(arrived)
            answer = self.answers.pop(0) if self.answers else self.always
            self.open += 1
            self.most_open = max(self.open, self.most_open)
            try:
                data = answer if isinstance(answer, bytes) else await answer(arrived, stream)
                if data is None:
                    await stream.aclose()
                    return
                await stream.send_all(data)
            except trio.BrokenResourceError:
                self.closed.set()
                return
            finally:
                self.open -= 1

    async def hang(self, arrived: ReceivedRequest, stream: trio.abc.Stream) -> bytes | None:
        """Never respond, and notice when the client disconnects."""
        if not await stream.receive_some():
            self.closed.set()
        return None


@asynccontextmanager
async def open_site() -> AsyncIterator[Site]:
    site = Site()
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(partial(trio.serve_tcp, site.serve, 0, host="127.0.0.1"))
        port = listeners[0].socket.getsockname()[1]
        site.url = f"http://127.0.0.1:{port}"
        yield site
        nursery.cancel_scope.cancel()


@pytest.fixture
async def site() -> AsyncIterator[Site]:
    async with open_site() as one:
        yield one


@pytest.fixture
async def elsewhere() -> AsyncIterator[Site]:
    """A second origin."""
    async with open_site() as one:
        yield one


MakeDocument = Callable[..., Path]


@pytest.fixture
def document(tmp_path: Path) -> MakeDocument:
    """Write a document, and return its path."""

    def write(paths: Any, *, version: str = "3.1.0", name: str = "api.json", **more: Any) -> Path:
        path = tmp_path / name
        root = {"openapi": version, "info": {"title": "T", "version": "1"}, "paths": paths, **more}
        path.write_text(json.dumps(root))
        return path

    return write


Connected = Callable[..., AbstractAsyncContextManager[Client]]


@asynccontextmanager
async def _connected(
    *apis: Api, revision: str | None = None, config: Config | None = None, result_text: int = 40_000
) -> AsyncIterator[Client]:
    names = ["one", "two", "three"][: len(apis)]
    config = evolve(config or Config(), apis=dict(zip(names, apis, strict=True)))
    settings = ServerSettings(strict=True, limits=ServerLimits(result_text=result_text))
    server = Server(plugins=[OpenAPI(config)], settings=settings)
    options: dict[str, Any] = {} if revision is None else {"revision": revision}
    with trio.fail_after(60):
        async with connect(server, **options) as client:
            yield client


@pytest.fixture
def connected() -> Connected:
    """Yield a client of a server with these APIs, called one, two, three."""
    return _connected


@pytest.fixture
def data() -> Path:
    return DATA


Reply = Callable[..., bytes]


@pytest.fixture(name="reply")
def reply_fixture() -> Reply:
    """Return the function that creates a response of the site."""
    return reply
