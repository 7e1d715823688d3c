"""A server with another server mounted, and a client of it that answers every request."""

from __future__ import annotations

import sys
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack, asynccontextmanager
from pathlib import Path
from typing import Any, Protocol

import trio
from attrs import define, evolve, field

from mcptrio import Client, Command, Mount, Server, connect
from mcptrio.client import ClientTimeouts, Form, Handlers, OpenURL
from mcptrio.serving import MountOptions, ServerLimits, ServerSettings
from mcptrio.types import CreateMessageParams, CreateMessageResult, LoggingMessageParams, TextContent
from tests.mounting import mounted_plugin

__all__ = ["MOUNTED_PLUGIN", "TIMEOUTS", "WAITING", "WAIT_TIMEOUT", "User", "command", "eventually", "mounted", "text"]

MOUNTED_PLUGIN = Path(__file__).with_name("mounted_plugin.py")
WAIT_TIMEOUT = 120.0
"""Seconds; only a failing test waits this long."""
TIMEOUTS = ClientTimeouts(connect=WAIT_TIMEOUT / 2, probe=WAIT_TIMEOUT / 2)
# A mount normally waits for a late server in the background; these tests need it at once, on any machine.
WAITING = MountOptions(
    start_timeout=WAIT_TIMEOUT / 2,
    ready_timeout=WAIT_TIMEOUT / 2,
    timeouts=TIMEOUTS,
)


def command(file: Path = MOUNTED_PLUGIN) -> Command:
    return Command(args=[sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", str(file)])


class Asked(Protocol):
    def handlers(self) -> Handlers: ...


@define(eq=False)
class User:
    """Answers every request of the server, and records the requests."""

    colour: str = "blue"
    asked: list[Any] = field(factory=list)
    logs: list[Any] = field(factory=list)

    def handlers(self) -> Handlers:
        return Handlers(
            elicit=self._fill_in,
            open_url=self._open,
            sample=self._sample,
            sample_tools=True,
            roots=["file:///srv/data"],
            log=self._log,
        )

    async def _fill_in(self, form: Form) -> Any:
        self.asked.append(form.message)
        return {"value": 3 if form.schema["properties"]["value"]["type"] == "integer" else self.colour}

    async def _open(self, page: OpenURL) -> bool:
        self.asked.append(page.url)
        return True

    async def _sample(self, params: CreateMessageParams) -> CreateMessageResult:
        tools = [tool.name for tool in params.tools or ()]
        self.asked.append((params.max_tokens, params.system_prompt, tools))
        return CreateMessageResult(role="assistant", content=(TextContent(text="hi"),), model="a-model")

    def _log(self, message: LoggingMessageParams) -> None:
        self.logs.append((message.level, message.logger, message.data))


@asynccontextmanager
async def mounted(
    target: Any = None,
    *,
    upstream: str | None = None,
    revision: str | None = None,
    user: Asked | None = None,
    options: MountOptions | None = None,
    parked: int = 1000,
) -> AsyncIterator[tuple[Client, Mount, Server]]:
    """Run a server with a mounted server, and yield a client of it.

    Args:
        target: The mounted server; by default a process. A server in this process is used if the client speaks another
            revision than the mounted server, because a process speaks the same revision on both sides.
        upstream: The revision between the mounting server and the mounted one.
        revision: The revision between the client and the mounting server.
    """
    options = evolve(options or WAITING, revision=upstream)
    with trio.fail_after(WAIT_TIMEOUT):
        async with AsyncExitStack() as stack:
            if target is None and revision is not None and revision != upstream:
                target = await stack.enter_async_context(Server(plugins=[mounted_plugin]).open())
            mount = Mount(target or command(), name="up", options=options)
            server = Server(plugins=[mount], settings=ServerSettings(limits=ServerLimits(parked=parked)))
            await stack.enter_async_context(server.open())
            handlers = (user or User()).handlers()
            connecting = connect(server, revision=revision, handlers=handlers, log_level="info")
            yield await stack.enter_async_context(connecting), mount, server


async def text(client: Client, name: str, **arguments: Any) -> str:
    """Return the text of a tool's result."""
    result = await client.call_tool(name, arguments)
    [block] = result.content
    assert isinstance(block, TextContent)
    return block.text


async def eventually(is_so: Callable[[], bool] | Callable[[], Awaitable[bool]]) -> None:
    """Wait for a condition; the caller's deadline bounds it."""
    while True:
        found = is_so()
        if found if isinstance(found, bool) else await found:
            return
        await trio.sleep(0.02)
