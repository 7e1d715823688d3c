"""A real web site on a loopback socket, a resolver with configured addresses, and a client of the plugin."""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Awaitable, Callable, Mapping, Sequence
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define, field, frozen
from mcptrio_fetch import Config, Fetch, Resolver, SystemResolver

from mcptrio import Client, Server, connect
from mcptrio.types import CallToolResult, TextContent


@frozen
class ReceivedRequest:
    """A request that the site received."""

    method: str
    path: str
    headers: Mapping[str, str]
    stream: trio.abc.Stream


Handler = Callable[[ReceivedRequest], Awaitable[None]]


@define(eq=False)
class Site:
    """A minimal HTTP/1.1 server; paths without a route are 404."""

    port: int
    scheme: str = "http"
    routes: dict[str, Handler] = field(factory=dict)
    seen: list[ReceivedRequest] = field(factory=list)
    connections: int = 0

    def url(self, path: str = "/", host: str = "127.0.0.1") -> str:
        return f"{self.scheme}://{host}:{self.port}{path}"

    def paths(self) -> list[str]:
        return [f"{each.method} {each.path}" for each in self.seen]

    def page(
        self,
        path: str,
        body: bytes | str = b"",
        kind: str = "text/html; charset=utf-8",
        *,
        status: int = 200,
        **headers: str,
    ) -> None:
        """Route a path to a response."""
        content = body.encode() if isinstance(body, str) else body
        lines = [f"HTTP/1.1 {status} So", f"Content-Length: {len(content)}"]
        if kind:
            lines.append(f"Content-Type: {kind}")
        lines += [f"{name.replace('_', '-')}: {value}" for name, value in headers.items()]
        head = "\r\n".join([*lines, "", ""]).encode()

        async def answer(seen: ReceivedRequest) -> None:
            await seen.stream.send_all(head if seen.method == "HEAD" else head + content)

        self.routes[path] = answer

    async def serve(self, stream: trio.abc.Stream) -> None:
        self.connections += 1
        buffer = b""
        try:
            async with stream:
                while True:
                    while b"\r\n\r\n" not in buffer:
                        received = await stream.receive_some()
                        if not received:
                            return
                        buffer += received
                    head, _, buffer = buffer.partition(b"\r\n\r\n")
                    first, *rest = head.decode("latin-1").split("\r\n")
                    method, path, _ = first.split(" ")
                    headers = {name.lower(): value for name, _, value in (line.partition(": ") for line in rest)}
                    seen = ReceivedRequest(method, path, headers, stream)
                    self.seen.append(seen)
                    handler = self.routes.get(path.partition("?")[0])
                    if handler is None:
                        await stream.send_all(b"HTTP/1.1 404 No\r\nContent-Length: 0\r\n\r\n")
                    else:
                        await handler(seen)
        except (trio.BrokenResourceError, trio.ClosedResourceError):
            pass


class Names:
    """A resolver with configured addresses in order, the last repeated; other names use the system's resolver."""

    def __init__(self, **answers: Sequence[Sequence[str]]) -> None:
        self._answers = {name.replace("_", "."): list(each) for name, each in answers.items()}
        self.asked: list[str] = []

    async def resolve(self, host: str, port: int) -> Sequence[str]:
        self.asked.append(host)
        answers = self._answers.get(host.rstrip("."))
        if answers is None:
            return await SystemResolver().resolve(host, port)
        await trio.lowlevel.checkpoint()
        return answers.pop(0) if len(answers) > 1 else answers[0]


async def open_site(nursery: trio.Nursery, host: str = "127.0.0.1", context: ssl.SSLContext | None = None) -> Site:
    [listener] = await trio.open_tcp_listeners(0, host=host)
    site = Site(listener.socket.getsockname()[1], "https" if context else "http")

    async def serve(stream: trio.SocketStream) -> None:
        await site.serve(trio.SSLStream(stream, context, server_side=True) if context else stream)

    nursery.start_soon(trio.serve_listeners, serve, [listener])
    return site


@pytest.fixture
async def site(nursery: trio.Nursery) -> Site:
    return await open_site(nursery)


OpenSite = Callable[..., Awaitable[Site]]


@pytest.fixture
def open_another(nursery: trio.Nursery) -> OpenSite:
    """Open one more site, at another address or with TLS."""

    async def open_it(host: str = "127.0.0.1", context: ssl.SSLContext | None = None) -> Site:
        return await open_site(nursery, host, context)

    return open_it


@pytest.fixture
def names() -> type[Names]:
    return Names


class Reader:
    """A client of the plugin."""

    def __init__(self, client: Client) -> None:
        self.client = client

    async def call(self, tool: str, /, **arguments: Any) -> CallToolResult:
        return await self.client.call_tool(tool, arguments)

    async def text(self, url: str, *, tool: str = "fetch", **arguments: Any) -> str:
        """Return the text of a successful call."""
        result = await self.call(tool, url=url, **arguments)
        assert not result.is_error, result
        assert isinstance(result.content[0], TextContent)
        return result.content[0].text

    async def failure(self, url: str, tool: str = "fetch", **arguments: Any) -> str:
        """Return the error of a tool call."""
        result = await self.call(tool, url=url, **arguments)
        assert result.is_error, result
        [block] = result.content
        assert isinstance(block, TextContent)
        return block.text


OpenReader = Callable[..., AbstractAsyncContextManager[Reader]]


@pytest.fixture
def reading() -> OpenReader:
    """``async with reading(allow_private=True) as reader``; robots.txt is ignored unless requested."""

    @asynccontextmanager
    async def open_reader(
        *, resolver: Resolver | None = None, revision: str = "2026-07-28", **config: Any
    ) -> AsyncIterator[Reader]:
        settings = {"robots": False, "requests_per_second": 0.0, **config}
        with trio.fail_after(60):
            plugin = Fetch(Config(**settings), resolver=resolver)
            async with connect(Server(plugins=[plugin]), revision=revision) as client:
                yield Reader(client)

    return open_reader
