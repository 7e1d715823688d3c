"""The combinations of SDK, transport and revision for tests of our client, and the user who answers the servers.

python_sdk_server.py and typescript_sdk_server.mjs have the same features, so a difference between them is a difference
of their SDKs, and the tests state it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import trio
from attrs import Factory, define, frozen

from mcptrio import Client
from mcptrio.client import ClientTimeouts, Form, Handlers, OpenURL
from mcptrio.protocol.model.logging import LoggingMessageParams
from mcptrio.protocol.model.sampling import CreateMessageParams
from mcptrio.types import CallToolResult, CreateMessageResult, Root, TextContent

__all__ = ["HANDSHAKE", "MODERN", "TIMEOUTS", "WAIT_TIMEOUT", "User", "Way", "text", "text_of", "until", "ways"]

HANDSHAKE = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25")
MODERN = "2026-07-28"

WAIT_TIMEOUT = 60.0
"""Seconds; only a failing test waits this long."""

TIMEOUTS = ClientTimeouts(
    connect=WAIT_TIMEOUT, probe=WAIT_TIMEOUT, idle=WAIT_TIMEOUT, request=WAIT_TIMEOUT, input=WAIT_TIMEOUT
)


@frozen
class Way:
    """One server, over one transport, in one revision."""

    sdk: str
    transport: str
    """``stdio``; over HTTP ``http`` (with sessions), ``json``, ``stateless``, or ``sse`` for HTTP with SSE."""
    revision: str

    def __str__(self) -> str:
        return f"{self.sdk}-{self.transport}-{self.revision}"

    def since(self, revision: str) -> bool:
        return self.revision >= revision

    @property
    def is_modern(self) -> bool:
        return self.revision == MODERN

    @property
    def has_stream(self) -> bool:
        """Return whether other messages than the response can arrive while a call runs."""
        # The SDK for TypeScript answers with JSON in 2026-07-28 only.
        return self.transport != "json" or (self.sdk == "typescript" and not self.is_modern)


def ways(*transports: str, revisions: tuple[str, ...] = (HANDSHAKE[-1], MODERN)) -> list[Way]:
    """Return each server with each of its transports and revisions."""
    return [
        Way(sdk, transport, revision)
        for sdk in ("python", "typescript")
        for transport in transports
        for revision in revisions
        if transport != "sse" or (sdk == "python" and revision != MODERN)
    ]


@define(eq=False)
class User:
    """Answers every request, and records it."""

    asked: list[Any] = Factory(list)
    logs: list[tuple[str, Any, str | None]] = Factory(list)

    def handlers(self) -> Handlers:
        return Handlers(
            elicit=self._fill_in,
            open_url=self._open,
            sample=self._think,
            roots=[Root(uri="file:///srv/data", name="data")],
            log=self._read,
        )

    async def _fill_in(self, form: Form) -> Any:
        self.asked.append((form.message, [field.name for field in form.fields]))
        if form.message == "decline":
            return form.decline()
        if form.message == "cancel":
            return form.cancel()
        return {"sure": True} if form.message.startswith("Really") else {"size": "large"}

    async def _open(self, page: OpenURL) -> bool:
        self.asked.append(page.url)
        return True

    async def _think(self, params: CreateMessageParams) -> CreateMessageResult:
        (content,) = params.messages[0].content
        assert isinstance(content, TextContent)
        self.asked.append((content.text, params.max_tokens, params.system_prompt))
        return CreateMessageResult(
            role="assistant", content=(TextContent(text=f"{content.text}!"),), model="a-model", stop_reason="endTurn"
        )

    def _read(self, message: LoggingMessageParams) -> None:
        self.logs.append((message.level, message.data, message.logger))


def text_of(result: CallToolResult) -> str:
    """Return the text of a tool's result, marked if it is an error."""
    content = result.content[0]
    assert isinstance(content, TextContent), content
    return f"error: {content.text}" if result.is_error else content.text


async def text(client: Client, tool: str, **arguments: Any) -> str:
    return text_of(await client.call_tool(tool, arguments))


async def until(claim: Callable[[], object]) -> None:
    """Wait for a condition that another process fulfils."""
    with trio.fail_after(WAIT_TIMEOUT):
        while not claim():  # noqa: ASYNC110 (nothing of ours can tell)
            await trio.sleep(0.01)
