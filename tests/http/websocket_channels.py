"""Channels to WebSocket servers written by hand.

Used by the tests of the client over WebSocket.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from mcptrio import ConnectionClosed
from mcptrio.errors import RequestFailed
from mcptrio.http.client import websocket, websocket_stream
from mcptrio.http.client.websocket import WebSocketChannel, open_websocket_channel
from tests.http.raw_websocket import Accepted, Socket, accepting

__all__ = ["WAIT_TIMEOUT", "Handle", "ending", "failure", "opened", "patient"]

WAIT_TIMEOUT = 60.0
"""Seconds; only a failing test waits this long."""

Handle = Callable[[Accepted], Awaitable[object]]


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the timeouts for slow machines."""
    monkeypatch.setattr(websocket, "CLOSE_TIMEOUT", 20.0)
    monkeypatch.setattr(websocket_stream, "_CLOSE_REASON_TIMEOUT", 20.0)


@asynccontextmanager
async def opened(handle: Handle, **options: Any) -> AsyncIterator[WebSocketChannel]:
    """A channel to a server written by hand."""
    async with accepting(handle) as port:
        async with open_websocket_channel(f"ws://127.0.0.1:{port}/ws?x=1", **options) as channel:
            yield channel


async def failure(handle: Handle, kind: type[Exception] = RequestFailed, **options: Any) -> Any:
    """Return the error of a failed handshake, which is raised alone and not in a group."""
    with trio.fail_after(WAIT_TIMEOUT):
        async with accepting(handle) as port:
            with pytest.raises(kind) as caught:
                async with open_websocket_channel(f"ws://127.0.0.1:{port}/ws?x=1", **options):
                    pass
    return caught.value


async def ending(handle: Callable[[Socket], Awaitable[object]], **options: Any) -> str:
    """Return the message with which an open channel ends; empty if the server sends no reason."""

    async def open_and_handle(accepted: Accepted) -> None:
        await handle(await accepted.open())

    with trio.fail_after(WAIT_TIMEOUT):
        async with opened(open_and_handle, **options) as channel:
            try:
                while True:
                    await channel.receive()
            except trio.EndOfChannel:
                return ""
            except ConnectionClosed as error:
                return str(error)
