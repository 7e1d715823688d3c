"""Fixtures for the tests of every first-party plugin."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterator
from typing import Any, TypeAlias

import orjson
import pytest
import trio
from hypothesis import HealthCheck, settings

from mcptrio import Client
from mcptrio.types import CallToolResult, TextContent
from tests.leaks import adopt_orphans, nothing_left

__all__ = ["CheckTokens", "nothing_left"]

Call: TypeAlias = Callable[..., Awaitable[Any]]
CheckTokens: TypeAlias = Callable[[Client, int], Awaitable[None]]

adopt_orphans()

# An example that a busy machine takes long for is no failure.
settings.register_profile("patient", settings(), deadline=None, suppress_health_check=[HealthCheck.too_slow])
settings.load_profile("patient")


@pytest.fixture
def heard() -> Iterator[trio.MemoryReceiveChannel[str]]:
    """The warnings that plugins log, as they come."""
    send, receive = trio.open_memory_channel[str](100)

    class Forward(logging.Handler):
        def emit(self, record: logging.LogRecord) -> None:
            if record.name.startswith("mcptrio_"):
                send.send_nowait(record.getMessage())

    handler = Forward(logging.WARNING)
    logging.getLogger().addHandler(handler)
    yield receive
    logging.getLogger().removeHandler(handler)


@pytest.fixture
def check_tokens() -> CheckTokens:
    """Compare the tokens of a plugin's tools with what they are known to take: a tenth more is refused.

    The tokens of names, descriptions and input schemas are their bytes divided by four.
    """

    async def check(client: Client, known: int) -> None:
        size = 0
        async for tool in client.tools():
            size += len(f"{tool.name}{tool.description or ''}".encode()) + len(orjson.dumps(tool.input_schema))
        assert known * 0.9 <= size / 4 <= known * 1.1, f"the tools take {size // 4} tokens; {known} are known"

    return check


@pytest.fixture
def call() -> Call:
    """Call a tool, and return its structured result."""

    async def call_tool(client: Client, tool: str, /, **arguments: Any) -> Any:
        result = await client.call_tool(tool, arguments)
        assert not result.is_error, result.content
        return result.structured_content

    return call_tool


@pytest.fixture
def text() -> Call:
    """Call a tool, and return the text that a model reads."""

    async def call_tool(client: Client, tool: str, /, **arguments: Any) -> str:
        result: CallToolResult = await client.call_tool(tool, arguments)
        [block] = result.content
        assert isinstance(block, TextContent)
        assert not result.is_error, block.text
        return block.text

    return call_tool


@pytest.fixture
def refusal() -> Call:
    """Call a tool that fails, and return its error for the model."""

    async def call_tool(client: Client, tool: str, /, **arguments: Any) -> str:
        result: CallToolResult = await client.call_tool(tool, arguments)
        assert result.is_error, result.content
        [block] = result.content
        assert isinstance(block, TextContent)
        return block.text

    return call_tool
