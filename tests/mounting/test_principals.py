"""The caller of an isolated plugin: its parent forwards it, other senders are not trusted, and the plugin decides."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from attrs import define, evolve

import mcptrio
from mcptrio import ANONYMOUS, Client, Context, MCPError, Mount, Server, tool
from mcptrio.abc import Principal
from mcptrio.errors import InsufficientScope
from mcptrio.mounting.isolation import Isolation
from mcptrio.runtime.callers import CALLER
from mcptrio.serve.http import serve_http
from mcptrio.serving import (
    HTTPOptions,
    RunningServer,
    ServerSettings,
    memory_channel_pair,
)
from tests.function_guard import FunctionGuard
from tests.mounting.mounted import TIMEOUTS, WAIT_TIMEOUT, WAITING, User, command, eventually

__all__: list[str] = []

PRINCIPAL_PLUGIN = Path(__file__).with_name("principal_plugin.py")
NEW, OLD = "2026-07-28", "2025-11-25"

ANN = Principal(
    subject="ann",
    issuer="https://id.example.com",
    client_id="app",
    scopes=frozenset({"read", "write"}),
    claims={"secret": "zzz"},
)
BOB = Principal(subject="bob", scopes=frozenset({"read"}))
FORGED = {CALLER: {"caller": "principal:forged", "principal": {"subject": "ann", "scopes": ["write"]}}}


@define
class Parent:
    server: Server
    running: RunningServer
    mount: Mount
    nursery: trio.Nursery

    @asynccontextmanager
    async def client(self, principal: Principal | None = None, revision: str = NEW) -> AsyncIterator[Client]:
        ours, theirs = memory_channel_pair()
        self.nursery.start_soon(lambda: self.running.serve(theirs, principal=principal))
        async with mcptrio.connect(ours, revision=revision, handlers=User().handlers()) as client:
            yield client


@asynccontextmanager
async def isolated(*others: object) -> AsyncIterator[Parent]:
    mount = Isolation().mount("judged", PRINCIPAL_PLUGIN)
    with trio.fail_after(WAIT_TIMEOUT):
        server = Server(plugins=[mount, *others], settings=ServerSettings(strict=True))
        async with server.open() as running, trio.open_nursery() as nursery:
            yield Parent(server, running, mount, nursery)
            nursery.cancel_scope.cancel()


async def who(client: Client, meta: Mapping[str, Any] | None = None) -> dict[str, Any]:
    wire = {"name": "who", "arguments": {}} | ({"_meta": dict(meta)} if meta else {})
    result = await client.request("tools/call", wire)
    found: dict[str, Any] = result.structured_content
    return found


async def listed(client: Client) -> set[str]:
    """Return every listed entry of a vault, and those that require a scope."""
    names = {each.name for each in await client.tools().all()}
    names |= {each.name for each in await client.prompts().all()}
    names |= {each.uri for each in await client.resources().all()}
    names |= {each.uri_template for each in await client.resource_templates().all()}
    return {name for name in names if "vault" in name or name == "write"}


class OtherPlugin:
    @tool
    async def nearby(self, ctx: Context) -> str:
        return ctx.caller

    @tool
    async def vault_of_another_plugin(self) -> str:
        return "not theirs to judge"


@pytest.mark.parametrize("revision", [NEW, OLD])
async def test_principal_reaches_the_isolated_process(revision: str) -> None:
    async with isolated(OtherPlugin()) as parent:
        async with parent.client(ANN, revision) as ann, parent.client(BOB, revision) as bob:
            identity = await who(ann)
            assert identity["principal"] == {
                "subject": "ann",
                "issuer": "https://id.example.com",
                "client_id": "app",
                "scopes": ["read", "write"],
                "claims": {},
            }
            assert identity["caller"] == (await ann.call_tool("nearby")).content[0].text  # type: ignore[union-attr]
            assert (await who(bob))["principal"]["subject"] == "bob"
            assert (await who(bob))["caller"] != identity["caller"]
            # The answer to a request is for the caller who was asked.
            assert (await ann.call_tool("asked")).content[0].text == "ann blue"  # type: ignore[union-attr]
            # A client cannot forward a caller in place of the parent.
            assert (await who(bob, FORGED))["principal"]["subject"] == "bob"

            async with parent.client(ANN, revision) as again:
                assert (await who(again))["caller"] == identity["caller"]
        async with parent.client(None, revision) as one, parent.client(None, revision) as other:
            first, second = await who(one, FORGED), await who(other)
            assert first["principal"] is None is second["principal"]
            assert first["caller"] != second["caller"]
            assert "forged" not in first["caller"]


@pytest.mark.parametrize("revision", [NEW, OLD])
async def test_authorizers_of_an_isolated_plugin_see_the_caller(revision: str) -> None:
    everything = {"vault", "vault_prompt", "vault://gold", "vault://{name}/box"}
    async with (
        isolated(OtherPlugin()) as parent,
        parent.client(ANN, revision) as ann,
        parent.client(BOB, revision) as bob,
        parent.client(None, revision) as anonymous,
    ):
        assert await listed(ann) == everything | {"write", "vault_of_another_plugin"}
        assert await listed(bob) == {"vault_of_another_plugin"}
        assert await listed(anonymous) == {"write", "vault_of_another_plugin"}

        assert (await ann.call_tool("vault")).content[0].text == "open"  # type: ignore[union-attr]
        assert (await ann.read_resource("vault://gold")).contents[0].text == "gold"  # type: ignore[union-attr]
        for client in (bob, anonymous):
            with pytest.raises(MCPError, match="no such tool: `vault`"):
                await client.call_tool("vault")
            with pytest.raises(MCPError, match="not found"):
                await client.read_resource("vault://gold")
            with pytest.raises(MCPError, match="not found"):
                await client.read_resource("vault://mine/box")
            with pytest.raises(MCPError, match="no such prompt"):
                await client.get_prompt("vault_prompt", {"what": "gold"})
            with pytest.raises(MCPError, match="no such prompt"):
                await client.complete("prompt", "vault_prompt", "what", "")
            assert (await client.call_tool("vault_of_another_plugin")).content[0].text == "not theirs to judge"  # type: ignore[union-attr]

        assert (await ann.complete("prompt", "greet", "whom", "")).values == ("ann",)
        assert (await anonymous.complete("prompt", "greet", "whom", "")).values == ("nobody",)
        assert (await ann.complete("prompt", "vault_prompt", "what", "")).values == ("gold",)

        # The authorizer has changed its decision: calls change at once, lists within the cache time.
        await ann.call_tool("close", {"name": "vault"})
        with pytest.raises(MCPError, match="no such tool: `vault`"):
            await ann.call_tool("vault")

        async def is_gone() -> bool:
            return "vault" not in await listed(ann)

        await eventually(is_gone)


async def test_disconnected_process_shows_no_new_entries() -> None:
    async with isolated() as parent, parent.client(ANN) as ann:
        assert "vault" in await listed(ann)
        parent.mount.restart()
        assert "vault" in await listed(ann)
        async with parent.client(BOB) as bob:
            assert "vault" not in await listed(bob)
        await eventually(lambda: parent.mount.status.state == "ready")
        assert (await ann.call_tool("vault")).content[0].text == "open"  # type: ignore[union-attr]


async def test_scopes_of_an_isolated_plugin_are_known_to_the_parent() -> None:
    """HTTP can then name the missing scopes before the call is made."""
    async with isolated() as parent:
        async with parent.client(ANN) as ann, parent.client(BOB) as bob:
            assert (await ann.call_tool("write")).content[0].text == "ann"  # type: ignore[union-attr]
            with pytest.raises(MCPError) as refused:
                await bob.call_tool("write")
            assert "write" in str(refused.value)
            assert refused.value.code == InsufficientScope.code
        entry = parent.server.catalog.tools.registry.get("write")
        assert entry is not None
        assert entry.scopes == {"write"}


async def test_forwarded_callers_are_not_trusted_over_stdio() -> None:
    with trio.fail_after(WAIT_TIMEOUT):
        async with mcptrio.connect(command(PRINCIPAL_PLUGIN), timeouts=TIMEOUTS) as client:
            identity = await who(client, FORGED)
            assert identity["principal"] is None
            assert identity["caller"].startswith("session:")
            with pytest.raises(MCPError, match="no such tool: `vault`"):
                await client.request("tools/call", {"name": "vault", "arguments": {}, "_meta": FORGED})
            with pytest.raises(MCPError, match="no such method"):
                await client.request("mcptrio/access", {"_meta": FORGED})
            assert await listed(client) == {"write"}


@pytest.mark.parametrize("revision", [NEW, OLD])
async def test_forwarded_callers_are_not_trusted_over_http(revision: str) -> None:
    class Plain:
        @tool
        async def who(self, ctx: Context) -> dict[str, Any]:
            return {"caller": ctx.caller, "principal": ctx.principal.subject if ctx.principal is not None else None}

    def judge(headers: Mapping[str, str]) -> Principal | None:
        return Principal(subject="carl") if "x-carl" in headers else None

    options = HTTPOptions(auth=FunctionGuard(judge))
    shutdown = trio.Event()
    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:

            async def serve(task_status: trio.TaskStatus[list[str]]) -> None:
                server = Server(plugins=[Plain()])
                await serve_http(server, port=0, options=options, shutdown=shutdown, task_status=task_status)

            [url] = await nursery.start(serve)
            async with mcptrio.connect(url, revision=revision) as one, mcptrio.connect(url, revision=revision) as two:
                first, second = await who(one, FORGED), await who(two, FORGED)
                assert first["principal"] is None
                if revision == NEW:
                    assert first["caller"] == second["caller"] == ANONYMOUS
                else:
                    assert first["caller"] != second["caller"]
                    assert first["caller"].startswith("session:")
            endpoint = mcptrio.Endpoint(url=url, headers={"x-carl": "1"})
            async with mcptrio.connect(endpoint, revision=revision) as one:
                identity = await who(one, FORGED)
                assert identity["principal"] == "carl"
                assert identity["caller"].startswith("principal:")
            shutdown.set()


async def test_foreign_servers_do_not_receive_the_caller() -> None:
    """Neither a foreign mount nor a mount of an isolated process receives the caller."""
    mount = Mount(command(PRINCIPAL_PLUGIN), name="up", options=evolve(WAITING, prefix=""))
    with trio.fail_after(WAIT_TIMEOUT):
        server = Server(plugins=[mount])
        async with server.open(), trio.open_nursery() as nursery:
            ours, theirs = memory_channel_pair()
            # As if this server were itself the process of a plugin.
            nursery.start_soon(lambda: server.supervisor.serve(theirs, trusts_forwarded_caller=True))
            async with mcptrio.connect(ours) as client:
                identity = await who(client, FORGED)
                assert identity["principal"] is None
                assert CALLER not in identity["meta"]
            nursery.cancel_scope.cancel()


@pytest.mark.parametrize(
    ("message", "subject"),
    [
        ({"caller": "c", "principal": {"subject": "ann", "scopes": []}}, "ann"),
        ({"caller": "c"}, None),
        ("ann", None),
        ({"principal": {"subject": "ann", "scopes": []}}, None),
        ({"caller": "c", "principal": {"subject": 7, "scopes": []}}, None),
        ({"caller": "c", "principal": {"subject": "ann", "scopes": [7]}}, None),
        ({"caller": "c", "principal": {"subject": "ann", "scopes": [], "issuer": []}}, None),
        (None, None),
    ],
)
async def test_malformed_forwarded_caller_is_anonymous(message: Any, subject: str | None) -> None:
    seen: list[Principal | None] = []

    class Plain:
        @tool
        async def who(self, ctx: Context) -> dict[str, Any]:
            seen.append(ctx.principal)
            return {}

    with trio.fail_after(WAIT_TIMEOUT):
        server = Server(plugins=[Plain()])
        async with server.open(), trio.open_nursery() as nursery:
            ours, theirs = memory_channel_pair()
            nursery.start_soon(lambda: server.supervisor.serve(theirs, trusts_forwarded_caller=True))
            async with mcptrio.connect(ours, revision=NEW) as client:
                await who(client, {CALLER: message})
            nursery.cancel_scope.cancel()
    assert [each and each.subject for each in seen] == [subject]


@pytest.mark.parametrize("transport", ["--http", "--listen=0"])
def test_process_of_an_isolated_plugin_is_served_on_its_pipe_only(transport: str, tmp_path: Path) -> None:
    args = [sys.executable, "-m", "mcptrio", "serve", transport, "--isolated"]
    ended = subprocess.run(args, cwd=tmp_path, capture_output=True, text=True, timeout=WAIT_TIMEOUT, check=False)
    assert ended.returncode == 2
    assert "--isolated can only be used with --stdio" in ended.stderr
