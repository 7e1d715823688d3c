"""Requests that a guard admits or refuses, public documents, and routes of plugins.

Source: RFC 6750 section 3; RFC 9728 section 3; MCP 2026-07-28, basic/authorization, "Scope Challenge Handling".
"""

from __future__ import annotations

import json
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import pytest
import trio
from attrs import field, frozen

import mcptrio
from mcptrio import Context, PluginSetup, Server, tool
from mcptrio.abc import Principal
from mcptrio.capabilities.owner import Owner
from mcptrio.errors import AuthorizationError, InsufficientScope, Overloaded, RateLimited, RequestFailed
from mcptrio.serve.http import serve_http
from mcptrio.serving import (
    HTTPOptions,
    memory_channel_pair,
)
from tests.error_codes import INVALID_REQUEST
from tests.function_guard import FunctionGuard
from tests.server_options import server_options

__all__: list[str] = []

DOCUMENT = b'{"resource":"https://mcp.example.com/mcp"}'
WELL_KNOWN = "/.well-known/oauth-protected-resource/mcp"
VERSIONS = ("2026-07-28", "2025-11-25", "2025-03-26")


def judge(headers: Mapping[str, str]) -> Principal | None:
    """Authenticate ``Bearer NAME SCOPE...``."""
    scheme, _, token = headers.get("authorization", "").partition(" ")
    if scheme != "Bearer":
        raise AuthorizationError("expected a token", challenge="Bearer", headers={"X-Hint": "none"})
    if token == "hasty":
        raise RateLimited("too often", retry_after=7)
    if token == "unlucky":
        raise Overloaded("nobody knows now", retry_after=3)
    if token == "odd":
        raise AuthorizationError("malformed", status=400)
    subject, *scopes = token.split("_")
    return Principal(subject=subject, scopes=frozenset(scopes))


class Notes:
    """A plugin with its own ASGI application."""

    @tool
    async def open_to_all(self, ctx: Context) -> str:
        return ctx.principal.subject if ctx.principal is not None else "nobody"

    @tool(scopes=["write", "files:read"])
    def write(self) -> str:
        return "written"

    @mcptrio.resource("notes://secret", scopes=["read"])
    def secret(self) -> str:
        return "hidden"

    @mcptrio.prompt(scopes=["read"])
    def ask(self) -> str:
        return "?"

    @mcptrio.hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.add_route("/describe", describe)


async def describe(scope: Any, receive: Any, send: Any) -> None:
    """Respond with the request that was received."""
    body = b""
    while (event := await receive()).get("more_body"):
        body += event["body"]
    body += event["body"]
    text = f"{scope['method']} {scope['path']} {body.decode()}".encode()
    await send({"type": "http.response.start", "status": 200, "headers": [(b"content-type", b"text/plain")]})
    await send({"type": "http.response.body", "body": text})


@frozen
class Reply:
    status: int
    headers: Mapping[str, str]
    body: bytes = field(repr=False)

    def json(self) -> Any:
        return json.loads(self.body)


@frozen
class Site:
    port: int
    guard: FunctionGuard
    server: Server

    async def ask(self, method: str, path: str, body: bytes = b"", **headers: str) -> Reply:
        """Send one request on its own connection."""
        named = {"host": "localhost", "connection": "close", "content-length": str(len(body)), **headers}
        lines = [f"{method} {path} HTTP/1.1", *(f"{name.replace('_', '-')}: {value}" for name, value in named.items())]
        with trio.fail_after(30):
            stream = await trio.open_tcp_stream("127.0.0.1", self.port)
            async with stream:
                await stream.send_all("\r\n".join([*lines, "", ""]).encode() + body)
                data = b""
                async for part in stream:
                    data += part
        head, _, rest = data.partition(b"\r\n\r\n")
        first, *fields = head.decode().split("\r\n")
        pairs = (line.partition(": ") for line in fields)
        return Reply(int(first.split()[1]), {name.lower(): value for name, _, value in pairs}, rest)

    async def post(self, message: Any, **headers: str) -> Reply:
        accept = "application/json, text/event-stream"
        return await self.ask(
            "POST", "/mcp", json.dumps(message).encode(), accept=accept, content_type="application/json", **headers
        )

    @asynccontextmanager
    async def client(self, version: str, token: str) -> AsyncIterator[mcptrio.Client]:
        target = mcptrio.Endpoint(url=f"http://127.0.0.1:{self.port}/mcp", headers={"authorization": f"Bearer {token}"})
        async with mcptrio.connect(target, revision=version) as client:
            yield client


@asynccontextmanager
async def serving(**options: Any) -> AsyncIterator[Site]:
    server = Server(plugins=[Notes()], **server_options(options))
    guard = FunctionGuard(judge, {WELL_KNOWN: DOCUMENT})
    async with trio.open_nursery() as nursery:
        urls = await nursery.start(_serve, server, HTTPOptions(auth=guard))
        yield Site(int(urls[0].rpartition(":")[2].partition("/")[0]), guard, server)
        nursery.cancel_scope.cancel()


async def _serve(server: Server, options: HTTPOptions, task_status: trio.TaskStatus[Any]) -> None:
    await serve_http(server, port=0, options=options, task_status=task_status)


@pytest.mark.parametrize("version", VERSIONS)
async def test_lists_show_only_what_the_scopes_allow(version: str) -> None:
    async with serving() as here:
        async with here.client(version, "ada") as client:
            assert [each.name async for each in client.tools()] == ["open_to_all"]
            assert [each.name async for each in client.resources()] == []
            assert [each.name async for each in client.prompts()] == []
            assert (await client.call_tool("open_to_all")).content[0].text == "ada"  # type: ignore[union-attr]
        async with here.client(version, "ada_read_write_files:read") as client:
            assert [each.name async for each in client.tools()] == ["open_to_all", "write"]
            assert [each.name async for each in client.resources()] == ["secret"]
            assert [each.name async for each in client.prompts()] == ["ask"]
            assert (await client.call_tool("write")).content[0].text == "written"  # type: ignore[union-attr]


async def test_call_without_its_scopes_on_a_channel_gets_an_error_that_names_them() -> None:
    server = Server(plugins=[Notes()])
    async with server.open() as running, trio.open_nursery() as nursery:
        ours, theirs = memory_channel_pair()
        nursery.start_soon(partial(running.serve, theirs, principal=Principal(subject="ada")))
        async with mcptrio.connect(ours) as client:
            with pytest.raises(mcptrio.MCPError, match="expected a token with the scopes files:read write") as refused:
                await client.call_tool("write")
            with pytest.raises(mcptrio.MCPError, match="no such prompt"):
                await client.complete("prompt", "ask", "argument", "x")
        nursery.cancel_scope.cancel()
    assert InsufficientScope("", scopes=frozenset()).code == refused.value.code
    assert refused.value.data == {"scopes": ["files:read", "write"]}


async def test_without_authentication_scopes_have_no_effect() -> None:
    async with mcptrio.connect(Server(plugins=[Notes()])) as client:
        assert [each.name async for each in client.tools()] == ["open_to_all", "write"]
        assert (await client.read_resource("notes://secret")).contents[0].text == "hidden"  # type: ignore[union-attr]


async def test_lists_contain_everything_if_step_up_is_enabled() -> None:
    async with serving(list_all=True) as here, here.client("2026-07-28", "ada") as client:
        assert [each.name async for each in client.tools()] == ["open_to_all", "write"]


@pytest.mark.parametrize("version", VERSIONS)
async def test_call_without_its_scopes_is_challenged_with_held_and_missing_scopes(version: str) -> None:
    async with serving() as here, here.client(version, "ada_read") as client:
        with pytest.raises(mcptrio.MCPError, match="more scopes are needed") as refused:
            await client.call_tool("write")
        assert isinstance(refused.value.__cause__, RequestFailed)
        assert refused.value.__cause__.status == 403
        # The connection can still be used.
        assert (await client.call_tool("open_to_all")).content[0].text == "ada"  # type: ignore[union-attr]
        assert (await client.read_resource("notes://secret")).contents[0].text == "hidden"  # type: ignore[union-attr]


async def test_step_up_challenge_names_held_and_needed_scopes() -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "test", "version": "0"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    message = {
        "jsonrpc": "2.0",
        "id": 1,
        "method": "tools/call",
        "params": {"name": "write", "arguments": {}, "_meta": meta},
    }
    async with serving() as here:
        refused = await here.post(
            message,
            mcp_protocol_version="2026-07-28",
            mcp_method="tools/call",
            mcp_name="write",
            authorization="Bearer ada_read",
        )

    assert refused.status == 403
    assert refused.headers["www-authenticate"] == 'Bearer error="insufficient_scope", scope="files:read read write"'
    assert refused.json()["error"]["code"] == INVALID_REQUEST


async def test_guard_refusals_set_status_and_headers() -> None:
    async with serving() as here:
        anonymous = await here.post({"jsonrpc": "2.0", "id": 1, "method": "ping"})
        odd = await here.post({}, authorization="Bearer odd")
        hasty = await here.post({}, authorization="Bearer hasty")
        unlucky = await here.post({}, authorization="Bearer unlucky")

    assert (anonymous.status, anonymous.headers["www-authenticate"]) == (401, "Bearer")
    assert anonymous.headers["x-hint"] == "none"
    assert (odd.status, "www-authenticate" in odd.headers) == (400, False)
    assert (hasty.status, hasty.headers["retry-after"]) == (429, "7")
    assert (unlucky.status, unlucky.headers["retry-after"]) == (503, "3")


async def test_guard_receives_the_head_of_the_request() -> None:
    async with serving() as here:
        await here.ask("GET", "/mcp?access_token=x", accept="text/event-stream", authorization="Basic x")
        [seen] = here.guard.seen

    assert (seen.method, seen.url) == ("GET", "http://localhost/mcp")
    assert (seen.address, seen.certificate) == ("127.0.0.1", None)
    assert (seen.headers["authorization"], seen.query) == (("Basic x",), "access_token=x")
    assert "Basic x" not in repr(seen)
    assert "access_token" not in repr(seen)


async def test_public_documents_are_readable_from_every_origin() -> None:
    async with serving() as here:
        read = await here.ask("GET", WELL_KNOWN, origin="https://app.example.com")
        preflight = await here.ask("OPTIONS", WELL_KNOWN, origin="https://app.example.com")
        posted = await here.ask("POST", WELL_KNOWN)
        elsewhere = await here.ask("GET", WELL_KNOWN, host="evil.example.com")
        assert here.guard.seen == []

    assert (read.status, read.body, read.headers["content-type"]) == (200, DOCUMENT, "application/json")
    assert read.headers["access-control-allow-origin"] == preflight.headers["access-control-allow-origin"] == "*"
    assert (preflight.status, posted.status, elsewhere.status) == (204, 405, 421)


async def test_plugin_application_is_served_at_its_path_and_below() -> None:
    async with serving() as here:
        at = await here.ask("POST", "/describe", b"hello")
        below = await here.ask("GET", "/describe/a/b")
        not_below = await here.ask("GET", "/besides")
        elsewhere = await here.ask("GET", "/describe", host="evil.example.com")
        assert here.guard.seen == []
        [name] = [plugin.name for plugin in here.server.status.plugins]
        await here.server.disable_plugin(name)
        disabled = await here.ask("GET", "/describe")

    assert (at.status, at.body) == (200, b"POST /describe hello")
    assert (below.status, below.body) == (200, b"GET /describe/a/b ")
    assert (not_below.status, elsewhere.status, disabled.status) == (404, 421, 404)


@pytest.mark.parametrize("path", ["/", "describe", "/describe/", "/a//b", "/a/../b", "/a b"])
def test_malformed_route_path_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="expected a path like /auth"):
        Server().catalog.routes.add(path, describe, Owner())


def test_route_path_that_is_taken_is_refused() -> None:
    routes = Server().catalog.routes
    routes.add("/a", describe, Owner(name="one"))

    with pytest.raises(ValueError, match="already offered by one"):
        routes.add("/a", describe, Owner(name="two"))
    assert routes.at("/a/b/c") is not None
    assert routes.at("/b") is None


@pytest.mark.parametrize("scopes", [["a b"], [""], ['"'], ["ä"]])
def test_malformed_scope_is_refused(scopes: list[str]) -> None:
    with pytest.raises(ValueError, match="expected printable ASCII"):
        tool(scopes=scopes)


def test_string_instead_of_a_list_of_scopes_is_refused() -> None:
    with pytest.raises(TypeError, match="expected a list of strings"):
        tool(scopes="read")
