"""The MCP endpoint as an ASGI application: Streamable HTTP, WebSocket and the SSE transport of 2024-11-05."""
