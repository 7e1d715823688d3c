"""Tells the tracer over which connection messages arrive. ``HTTPApp`` uses it if there is a tracer.

Source: OpenTelemetry semantic conventions for MCP, "Recording MCP transport".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from functools import lru_cache

from mcptrio.abc import Principal
from mcptrio.abc.tracing import TRACING, Network
from mcptrio.http.server.asgi import Scope
from mcptrio.http.server.exchange import Exchange

__all__ = ["serve_traced"]


async def serve_traced(
    serve: Callable[..., Awaitable[object]], exchange: Exchange, scope: Scope, body: bytes, principal: Principal | None
) -> None:
    """Answer a request in a context that links the spans of its messages to the HTTP request."""
    # A Unix socket has a path instead of an address.
    client = scope.get("client")
    network = _network_of(client[0] if client and client[1] is not None else None, scope["type"])
    assert TRACING.tracer is not None
    with TRACING.tracer.receiving(exchange.headers, network):
        await serve(exchange, scope, body, principal)


# The tracer caches the attributes of each network. It finds the same object without comparing or hashing.
@lru_cache(256)
def _network_of(address: str | None, kind: str) -> Network:
    return Network("tcp" if address is not None else "unix", kind, address)
