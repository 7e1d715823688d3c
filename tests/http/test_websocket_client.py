"""The client over WebSocket: with our server, and with servers that violate the protocol."""

from __future__ import annotations

import re
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing
from attrs import define, field

from mcptrio import Client, ConfigError, Endpoint, Server, connect, tool
from mcptrio.connecting.connect import openers
from mcptrio.connecting.mcp_json import read_entry
from mcptrio.errors import AuthorizationError, RequestFailed
from mcptrio.http.client.dialer import Dialing
from mcptrio.http.client.websocket import open_websocket_channel
from mcptrio.protocol.messages import Request, Response
from mcptrio.protocol.revisions.registry import REVISIONS
from mcptrio.serve.http import serve_http
from tests.commands.processes import run
from tests.http.raw_websocket import (
    Accepted,
    Socket,
    accepting,
)
from tests.http.test_dialing import HOST, certificate, environment, proxied, server_tls
from tests.http.websocket_channels import WAIT_TIMEOUT, Handle, failure, opened, patient
from tests.server_options import server_options

__all__ = ["certificate", "environment", "patient", "server_tls"]

PING_REQUEST = Request(1, "ping")


@asynccontextmanager
async def serving(*plugins: object, **options: Any) -> AsyncIterator[str]:
    """Yield the WebSocket URL of our own server."""
    shutdown = trio.Event()
    async with trio.open_nursery() as nursery:
        server = Server("tested", plugins=plugins, **server_options(options))
        urls = await nursery.start(partial(serve_http, server, port=0, shutdown=shutdown))
        yield urls[0].replace("http://", "ws://").replace("/mcp", "/ws")
        shutdown.set()


# With our own server


class Tools:
    @tool
    async def shout(self, text: str) -> str:
        """In capitals."""
        return text.upper()


@pytest.mark.parametrize("revision", REVISIONS)
async def test_every_revision_works_with_our_server(revision: str) -> None:
    async with serving(Tools()) as url, connect(url, revision=revision) as client:
        assert client.revision == revision
        assert [each.name async for each in client.tools()] == ["shout"]
        async with trio.open_nursery() as nursery:
            for number in range(20):
                nursery.start_soon(shouted, client, f"größer {number}")


async def shouted(client: Client, text: str) -> None:
    result = await client.call_tool("shout", {"text": text})
    assert result.content[0].text == text.upper()


async def test_shutdown_of_the_server_ends_the_client_at_once() -> None:
    async with serving(Tools()) as url:
        async with connect(url) as client:
            await shouted(client, "a")
            async with connect(url) as other:
                await shouted(other, "b")
            await shouted(client, "c")


async def test_lost_connection_is_reopened() -> None:
    connections: list[Socket] = []

    async def serve(accepted: Accepted) -> None:
        socket = await accepted.open()
        connections.append(socket)
        while isinstance(message := await socket.receive(), dict):
            if message["method"] == "initialize":
                info = {"name": "raw", "version": "1"}
                result: Any = {"protocolVersion": "2025-11-25", "capabilities": {}, "serverInfo": info}
            elif message["method"] == "ping":
                result = {}
            else:
                continue
            await socket.message({"jsonrpc": "2.0", "id": message["id"], "result": result})

    async with accepting(serve) as port:
        async with connect(f"ws://127.0.0.1:{port}/ws", revision="2025-11-25", restart=True) as client:
            await client.ping()
            await connections[0].close(1012, "restarting")
            with trio.fail_after(WAIT_TIMEOUT):
                while len(connections) < 2:  # noqa: ASYNC110 - no event reports it
                    await trio.sleep(0.01)
                await client.ping()


async def test_command_line_accepts_a_websocket_url(tmp_path: Path) -> None:
    async with serving(Tools()) as url:
        result = await trio.to_thread.run_sync(partial(run, "list", url, "tools", cwd=tmp_path))

    assert (result.returncode, result.stdout) == (0, b"shout\tIn capitals.\n"), result.stderr


# The channel


async def test_upgrade_request_has_the_required_headers() -> None:
    heads: list[Accepted] = []

    async def note(accepted: Accepted) -> None:
        heads.append(accepted)
        await (await accepted.open()).wait_closed()

    async with opened(note, headers={"X-Mine": "yes"}) as channel:
        assert re.fullmatch(r"ws://127\.0\.0\.1:\d+/ws", channel.name)

    assert heads[0].head.startswith("GET /ws?x=1 HTTP/1.1\r\n")
    assert {name: heads[0].headers[name] for name in ("x-mine", "sec-websocket-protocol", "user-agent")} == {
        "x-mine": "yes",
        "sec-websocket-protocol": "mcp",
        "user-agent": "mcptrio",
    }
    assert "sec-websocket-extensions" not in heads[0].headers


async def test_credentials_in_the_url_are_sent_and_not_shown() -> None:
    heads: list[Accepted] = []

    async def note(accepted: Accepted) -> None:
        heads.append(accepted)
        await (await accepted.open()).wait_closed()

    async with accepting(note) as port:
        async with open_websocket_channel(f"ws://me:p%40ss@127.0.0.1:{port}/ws?key=secret") as channel:
            assert channel.name == f"ws://127.0.0.1:{port}/ws"

    assert heads[0].headers["authorization"] == "Basic " + b64encode(b"me:p@ss").decode()


@pytest.mark.parametrize(
    ("target", "problem"),
    [
        ("ws://", "url: expected ws://host/path or wss://host/path, got 'ws://'"),
        ("wss://a:0/", "url: expected ws://host/path or wss://host/path, got 'wss://a:0/'"),
        (Endpoint(url="ws://a/ws", transport="sse"), "transport: expected auto for a ws URL, got sse"),
        (Endpoint(url="ws://a/ws", headers={"Sec-WebSocket-Protocol": "x"}), "Sec-WebSocket-Protocol is set by"),
        (Endpoint(url="ws://u:p@a/ws", headers={"Authorization": "x"}), "got several"),
        ({"type": "ws", "url": "http://a/ws"}, "expected a ws or wss URL with the type ws"),
        ({"type": "sse", "url": "ws://a/ws"}, "expected an http or https URL with the type sse"),
    ],
)
def test_invalid_target_is_refused(target: Any, problem: str) -> None:
    with pytest.raises(ConfigError, match=re.escape(problem)):
        openers(target)


def test_configuration_entry_with_a_websocket_url_is_accepted() -> None:
    for entry in (
        {"url": "wss://a/ws"},
        {"type": "websocket", "url": "wss://a/ws"},
        {"type": "ws", "url": "wss://a/ws"},
    ):
        assert read_entry(entry) == Endpoint(url="wss://a/ws")
        assert openers(entry)[1] == "wss://a/ws"


@define
class Auth:
    """Credentials with a second token, available once the first has been refused."""

    tokens: list[str]
    challenges: list[tuple[str, int, Mapping[str, str]]] = field(factory=list)

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        assert method == "GET"
        return {"Authorization": f"Bearer {self.tokens[0]}"}

    async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        self.challenges.append((url, status, headers))
        if len(self.tokens) == 1:
            return False
        del self.tokens[0]
        if not self.tokens[0]:
            raise AuthorizationError("the person said no")
        return True


async def guarded(accepted: Accepted) -> None:
    if accepted.headers["authorization"] != "Bearer good":
        await accepted.send("HTTP/1.1 401 No", "WWW-Authenticate: Bearer", "Content-Length: 0")
    else:
        await (await accepted.open()).wait_closed()


async def test_refused_credentials_are_renewed_a_few_times() -> None:
    auth = Auth(["old", "good"])
    async with opened(guarded, auth=auth):
        pass
    (challenge,) = auth.challenges
    assert re.fullmatch(r"http://127\.0\.0\.1:\d+/ws\?x=1", challenge[0])
    assert (challenge[1], challenge[2]["www-authenticate"]) == (401, "Bearer")

    assert (await failure(guarded, auth=Auth(["old"]))).status == 401
    async with opened(guarded, auth=Auth(["old", "older", "good"])):
        pass
    assert (await failure(guarded, auth=Auth(["old", "a", "b", "c", "d", "good"]))).status == 401
    assert str(await failure(guarded, AuthorizationError, auth=Auth(["old", ""]))) == "the person said no"


async def test_websocket_over_tls_is_opened(certificate: Path, server_tls: ssl.SSLContext) -> None:
    async def serve(accepted: Accepted) -> None:
        socket = await accepted.open()
        request = await socket.receive()
        await socket.message({"jsonrpc": "2.0", "id": request["id"], "result": {}})
        assert await socket.receive() == 1000

    tls = ssl.create_default_context(cafile=certificate)
    async with accepting(serve, tls=server_tls) as port:
        async with open_websocket_channel(f"wss://127.0.0.1:{port}/ws", dialing=Dialing(tls=tls)) as channel:
            await channel.send([PING_REQUEST])
            assert await channel.receive() == [Response(1, {})]


async def test_websocket_through_a_proxy_uses_a_tunnel(environment: pytest.MonkeyPatch) -> None:
    async def serve(accepted: Accepted) -> None:
        assert accepted.headers["host"] == HOST
        assert "proxy-authorization" not in accepted.headers
        await (await accepted.open()).wait_closed()

    async with accepting(serve) as port, proxied(port) as proxy:
        environment.setenv("http_proxy", proxy.url)
        async with open_websocket_channel(f"ws://{HOST}/ws"):
            pass
        assert proxy.heads[0].startswith(b"CONNECT mcp.test:80 HTTP/1.1\r\n")


# Failed handshakes


def answers(*lines: str, body: bytes = b"") -> Handle:
    async def handle(accepted: Accepted) -> None:
        await accepted.send(*lines, body=body)

    return handle


async def test_refused_connection_fails_the_handshake() -> None:
    async with accepting(answers()) as port:
        pass

    with pytest.raises(RequestFailed, match=f"cannot connect to 127.0.0.1:{port}") as caught:
        async with open_websocket_channel(f"ws://127.0.0.1:{port}/ws"):
            pass
    assert not caught.value.delivered


@pytest.mark.parametrize(
    ("handle", "status", "message"),
    [
        (answers("HTTP/1.1 404 No", "Content-Length: 0"), 404, "HTTP 404"),
        (answers("HTTP/1.1 503 No", "Content-Length: 4", body=b"busy"), 503, "HTTP 503: busy"),
        (answers("HTTP/1.1 401 No", body=b"until the end"), 401, "HTTP 401: until the end"),
        (answers("HTTP/1.1 401 No", "Content-Length: 100", body=b"cut"), 401, "HTTP 401: cut"),
        (
            answers(
                "HTTP/1.1 400 No",
                "Content-Length: 72",
                body=b'{"jsonrpc":"2.0","error":{"code":-32600,"message":"expected something"}}',
            ),
            400,
            "HTTP 400: expected something",
        ),
        (
            answers("HTTP/1.1 302 No", "Location: https://u:p@b/ws?key=1", "Content-Length: 0"),
            302,
            "HTTP 302: the server redirects to 'https://b/ws'; use that URL",
        ),
        (
            answers("HTTP/1.1 200 Fine", "Content-Length: 2", body=b"hi"),
            200,
            "HTTP 200: expected a WebSocket, got a page",
        ),
        (answers("SSH-2.0-OpenSSH_9.9"), None, "expected a WebSocket, got data that is not HTTP"),
        (answers(body=b"\0" * 1000), None, "expected a WebSocket, got data that is not HTTP"),
        (answers("HTTP/1.1 101 Fine", "Upgrade: websocket"), None, "HTTP 101: the WebSocket handshake is wrong"),
        (
            answers("HTTP/1.1 101 Fine", "Upgrade: websocket", "Connection: upgrade", "Sec-WebSocket-Accept: x"),
            None,
            "HTTP 101: the WebSocket handshake is wrong",
        ),
        (
            answers("HTTP/1.1 101 Fine", "Upgrade: websocket", "Connection: \xfc", "Sec-WebSocket-Accept: x"),
            None,
            "HTTP 101: the WebSocket handshake is wrong",
        ),
        (
            answers("HTTP/1.1 101 Fine", "X: " + "y" * 100_000),
            None,
            "expected a WebSocket, got an incomplete or too large answer",
        ),
        (
            answers("HTTP/1.1 404 No", "Transfer-Encoding: chunked", body=b"fffff\r\n" + b"x" * 200_000),
            404,
            "HTTP 404: xxx",
        ),
    ],
    ids=lambda value: None,
)
async def test_failed_handshake_reports_status_and_reason(handle: Handle, status: int | None, message: str) -> None:
    refused = await failure(handle)

    assert (refused.status, str(refused)[: len(message)]) == (status, message)


async def test_connection_closed_without_a_response_fails_the_handshake() -> None:
    async def leave(accepted: Accepted) -> None:
        pass

    assert str(await failure(leave)) == "the server closed the connection without an answer"


@pytest.mark.parametrize("protocol", [None, "mqtt"])
async def test_websocket_without_the_subprotocol_fails_the_handshake(protocol: str | None) -> None:
    async def serve(accepted: Accepted) -> None:
        await (await accepted.open(protocol)).receive()

    assert "mcp" in str(await failure(serve)) or "handshake is wrong" in str(await failure(serve))


async def test_handshake_times_out() -> None:
    refused = await failure(never, dialing=Dialing(connect_timeout=0.1))

    assert (str(refused), refused.delivered) == ("no WebSocket within 0.1 seconds", False)


async def never(accepted: Accepted) -> None:
    await trio.sleep_forever()


async def test_connecting_can_be_cancelled() -> None:
    async with accepting(never) as port:
        with trio.move_on_after(0.05) as scope:
            async with open_websocket_channel(f"ws://127.0.0.1:{port}/ws"):
                pass
        assert scope.cancelled_caught
