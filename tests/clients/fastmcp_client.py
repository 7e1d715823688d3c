"""Drives a server with FastMCP's client, and reports what it sees.

A test runs it as a process with the packages of tests/coming_from/fastmcp.txt. FastMCP has its own client over the
official SDK's session, with other methods; an adapter gives them the SDK's names, so the behaviours are those of
python_sdk.py. It uses only FastMCP's public API.

Source: fastmcp 4.1.4, fastmcp/client.
"""

from __future__ import annotations

import json
import sys
import warnings
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import anyio
import httpx2
import mcp_types as types
from attrs import frozen
from fastmcp import Client
from fastmcp.client.transports import ClientTransport, SSETransport, StreamableHttpTransport
from mcp.shared.exceptions import MCPDeprecationWarning
from mcp_types.version import MODERN_PROTOCOL_VERSIONS

from tests.clients.python_sdk import carry_out
from tests.clients.python_sdk_peer import WAIT_TIMEOUT, HTTPHooks, Peer, ReceivedMessages, Target

__all__: list[str] = []


@frozen
class SDKNames:
    """FastMCP's client with the methods of the SDK's that the behaviours call."""

    client: Client[Any]

    def __getattr__(self, name: str) -> Any:
        return getattr(self.client, name)

    async def list_tools(self, *, cursor: str | None = None) -> types.ListToolsResult:
        return await self.client.list_tools_mcp(cursor=cursor)

    async def list_resources(self, *, cursor: str | None = None) -> types.ListResourcesResult:
        return await self.client.list_resources_mcp(cursor=cursor)

    async def list_resource_templates(self, *, cursor: str | None = None) -> types.ListResourceTemplatesResult:
        return await self.client.list_resource_templates_mcp(cursor=cursor)

    async def list_prompts(self, *, cursor: str | None = None) -> types.ListPromptsResult:
        return await self.client.list_prompts_mcp(cursor=cursor)

    async def call_tool(
        self, name: str, arguments: Mapping[str, Any] | None = None, *, progress_callback: Any = None, meta: Any = None
    ) -> types.CallToolResult:
        return await self.client.call_tool_mcp(name, dict(arguments or {}), progress_callback, meta=meta)

    async def read_resource(self, uri: str) -> types.ReadResourceResult:
        return await self.client.read_resource_mcp(uri)

    async def get_prompt(self, name: str, arguments: dict[str, Any] | None = None) -> types.GetPromptResult:
        return await self.client.get_prompt_mcp(name, arguments)

    async def complete(
        self, ref: Any, argument: dict[str, str], context: dict[str, str] | None = None
    ) -> types.CompleteResult:
        return await self.client.complete_mcp(ref, argument, context)

    async def send_ping(self) -> types.EmptyResult:
        assert await self.client.ping()
        return types.EmptyResult()

    async def subscribe_resource(self, uri: str) -> None:
        await self.client.session.subscribe_resource(uri)

    async def unsubscribe_resource(self, uri: str) -> None:
        await self.client.session.unsubscribe_resource(uri)


def transport(target: Target, hooks: HTTPHooks | None) -> ClientTransport:
    if target.sse is not None:
        return SSETransport(target.sse)
    assert target.url is not None
    if hooks is None:
        return StreamableHttpTransport(target.url)
    return StreamableHttpTransport(target.url, httpx_client_factory=partial(httpx2.AsyncClient, event_hooks=hooks))


@asynccontextmanager
async def connect(
    target: Target, revision: str, *, pinned: bool = False, hooks: HTTPHooks | None = None
) -> AsyncIterator[Peer]:
    """Connect FastMCP's client; see :class:`tests.clients.python_sdk_peer.Connect`."""
    received_messages = ReceivedMessages()
    modern = revision in MODERN_PROTOCOL_VERSIONS

    async def elicit(message: str, kind: Any, params: types.ElicitRequestParams, context: Any) -> Any:
        return await received_messages.on_elicit(context, params)

    async def sample(messages: Any, params: types.CreateMessageRequestParams, context: Any) -> Any:
        return await received_messages.on_sample(context, params)

    async def roots(context: Any) -> list[types.Root]:
        return (await received_messages.on_roots(context)).roots

    client = Client(
        transport(target, hooks),
        mode="legacy" if not modern else revision if pinned else "auto",
        elicitation_handler=elicit,
        sampling_handler=sample,
        roots=roots,
        log_handler=received_messages.on_log,
        message_handler=received_messages.on_message,
        timeout=WAIT_TIMEOUT,
    )
    async with client:
        yield Peer(client=SDKNames(client), heard=received_messages, target=target, revision=revision, connect=connect)


def main() -> None:
    # The SDK warns of features that are deprecated since 2026-07-28.
    warnings.simplefilter("ignore", MCPDeprecationWarning)
    print(json.dumps(anyio.run(carry_out, json.loads(sys.argv[1]), connect)))


if __name__ == "__main__":
    main()
