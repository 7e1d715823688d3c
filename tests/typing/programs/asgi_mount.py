"""The endpoint in an ASGI application with other paths."""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import trio

from mcptrio import Server
from mcptrio.abc import ASGIApp
from mcptrio.serving import HTTPOptions, asgi_app

__all__ = ["main", "mount"]

Scope: TypeAlias = "dict[str, Any]"
Receive: TypeAlias = "Callable[[], Awaitable[Any]]"
Send: TypeAlias = "Callable[[Any], Awaitable[None]]"


def mount(server: Server, app: ASGIApp) -> ASGIApp:
    endpoint = asgi_app(server, HTTPOptions(path="/mcp"))

    async def both(scope: Scope, receive: Receive, send: Send) -> None:
        await (endpoint if scope["path"] == "/mcp" else app)(scope, receive, send)

    return both


async def main() -> None:
    seen: list[str] = []

    async def app(scope: Scope, receive: Receive, send: Send) -> None:
        seen.append(scope["path"])

    async def send(message: Any) -> None:
        raise AssertionError(f"expected no message, got {message}")

    server = Server()
    async with asgi_app(server).running():
        await mount(server, app)({"type": "http", "path": "/guests"}, trio.sleep_forever, send)
    assert seen == ["/guests"]
