"""HTTP/1.1 and WebSocket on Trio: serves any ASGI application on sockets, without MCP."""

from __future__ import annotations

__all__: list[str] = []
