"""Our server over real HTTP with a real guard, and raw requests to it.

All tests of this folder use it. The guard is made for the address of the server, and all requests use sockets.
"""

from __future__ import annotations

import json
import socket
import ssl
from collections.abc import AsyncIterator, Callable, Mapping
from contextlib import asynccontextmanager
from typing import Any

import h11
import httpx2
import trio
from attrs import define, frozen

import mcptrio
from mcptrio import Context, Server, tool
from mcptrio.abc import AuthMethod, ClientAuth, Guard
from mcptrio.client import Handlers
from mcptrio.http.client.address_policy import AddressPolicy
from mcptrio.http.client.fetcher import Fetcher
from mcptrio.serve.http import HTTPSockets, serve_http
from mcptrio.serving import (
    HTTPOptions,
)
from tests.server_options import server_options

__all__ = [
    "ACCEPT",
    "CLIENT",
    "WAIT_TIMEOUT",
    "Answer",
    "Guarded",
    "Notes",
    "guarded",
    "last_message",
    "loopback_fetch",
    "modern",
    "plain_http",
]

WAIT_TIMEOUT = 60.0
"""Seconds; only a failing test waits this long."""
ACCEPT = "application/json, text/event-stream"
CLIENT = {"protocolVersion": "2025-11-25", "capabilities": {}, "clientInfo": {"name": "raw", "version": "1"}}


_NO_TLS = ssl.SSLContext(ssl.PROTOCOL_TLS_CLIENT)
"""All servers here use http; reading the system's certificates for each client takes a tenth of a second."""


class Notes:
    """A plugin that returns the caller."""

    @tool
    def who(self, ctx: Context) -> str:
        """Return the user, the client and the scopes of the request."""
        found = ctx.principal
        assert found is not None
        return f"{found.subject} {found.client_id} {' '.join(sorted(found.scopes))}"

    @tool(scopes=["write"])
    def write(self) -> str:
        """Require the scope ``write``."""
        return "written"


@frozen(kw_only=True)
class Guarded:
    """A running server that requires tokens.

    Args:
        url: The URL of the endpoint.
        guard: The guard of the endpoint.
    """

    url: str
    guard: Guard
    server: Server

    @property
    def origin(self) -> str:
        return self.url.removesuffix("/mcp")

    @asynccontextmanager
    async def client(
        self,
        revision: str | None = None,
        *,
        token: str | None = None,
        auth: AuthMethod | ClientAuth | None = None,
        handlers: Handlers | None = None,
    ) -> AsyncIterator[mcptrio.Client]:
        """Connect our client with a token or an authorization method."""
        headers = {"authorization": f"Bearer {token}"} if token is not None else {}
        endpoint = mcptrio.Endpoint(url=self.url, headers=headers, auth=auth, transport="http")
        with trio.fail_after(WAIT_TIMEOUT):
            async with mcptrio.connect(endpoint, revision=revision, handlers=handlers) as client:
                yield client

    @asynccontextmanager
    async def stream(
        self, message: Any = None, *, token: str, method: str = "POST", headers: Mapping[str, str] | None = None
    ) -> AsyncIterator[Answer]:
        """Send one request, and yield its response while it arrives."""
        body = b"" if message is None else json.dumps(message).encode()
        url = httpx2.URL(self.url)
        given = {"host": url.netloc.decode(), "accept": ACCEPT, "authorization": f"Bearer {token}", **(headers or {})}
        given |= {"content-type": "application/json", "content-length": str(len(body))} if body else {}
        connection = h11.Connection(h11.CLIENT)
        request = h11.Request(method=method, target=url.raw_path, headers=list(given.items()))
        sent = [request, h11.Data(data=body), h11.EndOfMessage()]
        async with await trio.open_tcp_stream("127.0.0.1", url.port or 80) as stream:
            for event in sent:
                await stream.send_all(connection.send(event) or b"")
            answer = Answer(stream, connection)
            await answer.begin()
            yield answer

    async def begin(self, token: str, revision: str = "2025-11-25") -> dict[str, str]:
        """Open a session. Return the headers of its requests."""
        hello = {"jsonrpc": "2.0", "id": 0, "method": "initialize", "params": {**CLIENT, "protocolVersion": revision}}
        opened = await self.send(hello, token=token)
        assert opened.status_code == 200, opened.text
        headers = {"mcp-session-id": opened.headers["mcp-session-id"], "mcp-protocol-version": revision}
        done = {"jsonrpc": "2.0", "method": "notifications/initialized"}
        assert (await self.send(done, token=token, headers=headers)).status_code == 202
        return headers

    async def send(
        self,
        message: Any = None,
        *,
        token: str | None = None,
        method: str = "POST",
        query: str = "",
        headers: Mapping[str, str] | None = None,
    ) -> httpx2.Response:
        """Send one request exactly as given, and return the whole response, including a stream up to its end."""
        given = {"accept": ACCEPT, **({"authorization": f"Bearer {token}"} if token else {}), **(headers or {})}
        if message is not None:
            given["content-type"] = "application/json"
        body = None if message is None else json.dumps(message).encode()
        async with plain_http() as http:
            return await http.request(method, self.url + query, content=body, headers=given)


@define(eq=False)
class Answer:
    """A response that is read line by line."""

    stream: trio.SocketStream
    connection: h11.Connection
    status: int = 0
    _text: str = ""

    async def begin(self) -> None:
        while not self.status:
            event = await self._next()
            assert event is not None
            self.status = getattr(event, "status_code", 0)

    async def first(self, field: str, text: str = "") -> str:
        """Return the value of the next stream field with this name and text, or an empty string at the end."""
        while True:
            while "\n" in self._text:
                line, _, self._text = self._text.partition("\n")
                name, _, value = line.rstrip("\r").partition(":")
                if name == field and text in value:
                    return value.strip()
            if (event := await self._next()) is None:
                return ""
            if isinstance(event, h11.Data):
                self._text += bytes(event.data).decode()

    async def _next(self) -> Any:
        while (event := self.connection.next_event()) is h11.NEED_DATA:
            self.connection.receive_data(await self.stream.receive_some(65536))
        return None if isinstance(event, h11.EndOfMessage | h11.ConnectionClosed) else event


def modern(method: str, /, *, id: Any = 1, meta: Mapping[str, Any] | None = None, **params: Any) -> dict[str, Any]:
    """Return the arguments of :meth:`Guarded.send` for a 2026-07-28 request whose headers match its body."""
    envelope = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {"elicitation": {"form": {}}},
        **(meta or {}),
    }
    headers = {"mcp-protocol-version": "2026-07-28", "mcp-method": method}
    if named := params.get("name", params.get("uri")):
        headers["mcp-name"] = named
    message = {"jsonrpc": "2.0", "id": id, "method": method, "params": {**params, "_meta": envelope}}
    return {"message": message, "headers": headers}


def last_message(response: httpx2.Response) -> dict[str, Any]:
    """Return the last message of a response, which is JSON or a stream."""
    text = response.text
    if response.headers.get("content-type", "").startswith("text/event-stream"):
        data = [line.removeprefix("data: ") for line in text.splitlines() if line.startswith("data: ")]
        text = data[-1]
    report: dict[str, Any] = json.loads(text)
    return report


@asynccontextmanager
async def guarded(
    make: Callable[[str], Guard],
    plugins: Callable[[], list[Any]] = lambda: [Notes()],
    *,
    options: Mapping[str, Any] | None = None,
    **server: Any,
) -> AsyncIterator[Guarded]:
    """Start a server on a free port.

    Args:
        make: Returns the guard for the URL of the endpoint.
        plugins: Returns the plugins to serve, by default :class:`Notes`; called after ``make``.
        options: Additional options of :class:`mcptrio.serving.HTTPOptions`.
        server: Additional options of :class:`mcptrio.Server`.
    """
    with socket.create_server(("127.0.0.1", 0)) as listener:
        url = f"http://127.0.0.1:{listener.getsockname()[1]}/mcp"
        guard = make(url)
        served = Server(plugins=plugins(), **server_options(server))
        with trio.fail_after(3 * WAIT_TIMEOUT):
            async with trio.open_nursery() as nursery:
                await nursery.start(_serve, served, listener.fileno(), HTTPOptions(auth=guard, **(options or {})))
                yield Guarded(url=url, guard=guard, server=served)
                nursery.cancel_scope.cancel()


async def _serve(server: Server, descriptor: int, options: HTTPOptions, task_status: trio.TaskStatus[Any]) -> None:
    sockets = HTTPSockets(bind=[f"fd://{descriptor}"])
    await serve_http(server, sockets=sockets, options=options, task_status=task_status)


def plain_http() -> httpx2.AsyncClient:
    """Return a client of another library, which follows no redirects."""
    return httpx2.AsyncClient(timeout=WAIT_TIMEOUT, verify=_NO_TLS, trust_env=False)


def loopback_fetch() -> Fetcher:
    """Return the ``Fetch`` of an operator whose authorization server is on the same machine."""
    return Fetcher(AddressPolicy(loopback=True), trust_env=False)
