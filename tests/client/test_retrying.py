"""Requests that are repeated after an overload response, and how long the client waits."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from typing import Any

import pytest
import trio

from mcptrio import MCPTrioError, connect
from mcptrio.errors import Overloaded, RequestFailed
from tests.error_codes import INTERNAL_ERROR
from tests.http.web import ReceivedRequest, Wire, answer, serving

__all__: list[str] = []

ERROR = {"jsonrpc": "2.0", "id": None, "error": {"code": INTERNAL_ERROR, "message": "too many requests"}}


class Busy:
    """A server that refuses the first attempts of every request, except those of the handshake."""

    def __init__(self, status: int, times: int = 1, body: Any = None, **headers: str) -> None:
        self.left = times
        self.times: list[float] = []
        self._status = status
        self._body = body
        self._headers = headers

    async def __call__(self, seen: ReceivedRequest, wire: Wire) -> None:
        message = seen.message if seen.method == "POST" else {}
        if message.get("method") == "initialize":
            can = {"prompts": {}, "tools": {}}
            info = {"name": "busy", "version": "1"}
            await wire.reply(answer(seen, protocolVersion="2025-11-25", capabilities=can, serverInfo=info))
        elif seen.method == "GET":
            await wire.reply(status=405)
        elif "id" not in message:
            await wire.reply(status=202)
        else:
            self.times.append(trio.current_time())
            self.left -= 1
            if self.left >= 0:
                await wire.reply(self._body, self._status, **self._headers)
            else:
                await wire.reply(answer(seen, prompts=[]))

    @property
    def waited(self) -> float:
        return self.times[1] - self.times[0]


async def ask(busy: Busy, method: str = "prompts/list") -> MCPTrioError | None:
    """Send a request, and return its error."""
    with trio.fail_after(60):
        async with serving(busy) as web, connect(web.url, revision="2025-11-25", ping_interval=0) as client:
            try:
                await (client.prompts().all() if method == "prompts/list" else client.call_tool("work"))
            except MCPTrioError as error:
                return error
    return None


@pytest.mark.parametrize("status", [429, 503])
@pytest.mark.parametrize("body", [None, ERROR], ids=["empty", "error"])
async def test_overloaded_request_is_repeated_after_retry_after(status: int, body: Any) -> None:
    busy = Busy(status, body=body, retry_after="1")
    assert await ask(busy) is None
    assert 1 <= busy.waited < 30


async def test_retry_after_date_is_parsed() -> None:
    busy = Busy(503, retry_after=format_datetime(datetime.now(UTC) + timedelta(seconds=2), usegmt=True))
    assert await ask(busy) is None
    assert 0.5 <= busy.waited < 30


@pytest.mark.parametrize("value", ["", "soon", "-1", "1.5"])
async def test_malformed_retry_after_is_ignored(value: str) -> None:
    busy = Busy(503, retry_after=value)
    assert await ask(busy) is None
    assert busy.waited < 30


async def test_retry_after_over_the_limit_fails_at_once() -> None:
    busy = Busy(503, retry_after="31")
    failed = await ask(busy)
    assert isinstance(failed, RequestFailed)
    assert failed.retry_after == 31
    assert len(busy.times) == 1


async def test_overload_error_contains_retry_after() -> None:
    busy = Busy(429, body=ERROR, retry_after="99")
    failed = await ask(busy)
    assert isinstance(failed, Overloaded)
    assert (failed.message, failed.retry_after) == ("too many requests", 99)


async def test_tool_call_is_not_repeated() -> None:
    busy = Busy(429, body=ERROR, retry_after="1")
    assert isinstance(await ask(busy, "tools/call"), Overloaded)
    assert len(busy.times) == 1
