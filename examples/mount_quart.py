"""The MCP endpoint and the routes of a Quart-Trio application on one port.

Run it: python examples/mount_quart.py
It needs the extra: pip install ".[quart]"

The tool and the web page share one guest book.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import trio
from quart import request
from quart_trio import QuartTrio

from mcptrio import Server
from mcptrio.serving import asgi_app, serve_asgi

__all__ = ["main", "make_app"]


def make_app(guests: list[str]) -> QuartTrio:
    app = QuartTrio(__name__)

    @app.get("/guests")
    async def show() -> dict[str, list[str]]:
        return {"guests": guests}

    @app.post("/guests")
    async def sign() -> tuple[str, int]:
        guests.append((await request.form)["name"])
        return "", 204

    return app


async def main(port: int = 8000, *, task_status: trio.TaskStatus[str] = trio.TASK_STATUS_IGNORED) -> None:
    guests: list[str] = []
    app = make_app(guests)
    server = Server("guest book", version="1.0")

    async def sign(name: str) -> str:
        """Sign the guest book."""
        guests.append(name)
        return f"{name} is guest number {len(guests)}"

    server.add_tool(sign, read_only=False)
    endpoint = asgi_app(server)

    async def route(scope: Any, receive: Any, send: Any) -> None:
        """Pass requests for /mcp to the endpoint, and everything else, with the lifespan, to the application."""
        if scope["type"] == "http" and scope["path"] == "/mcp":
            await endpoint(scope, receive, send)
        else:
            await app(scope, receive, send)

    async with endpoint.running(), trio.open_nursery() as nursery:
        urls = await nursery.start(partial(serve_asgi, route, bind=f"127.0.0.1:{port}"))
        print(f"serving {urls[0]}/mcp and {urls[0]}/guests", flush=True)
        task_status.started(urls[0])


if __name__ == "__main__":
    trio.run(main)
