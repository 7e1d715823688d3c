"""The echo tool on nothing but sockets and pipes: ``python echo_bare.py stdio``, or ``http PORT``.

The server of the clients' benchmark: it does what they ask for and no more, so that it is never what they wait for.
"""

from __future__ import annotations

import asyncio
import json
import sys
from typing import Any

__all__: list[str] = []

_TOOLS = [{"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}]
_CAPABILITIES = {"tools": {}}
_INFO = {"name": "bare", "version": "1"}
_CACHE = {"ttlMs": 0, "cacheScope": "private"}


def answer(message: dict[str, Any]) -> bytes:
    """The response to a request; nothing to a notification."""
    method, params = message.get("method"), message.get("params") or {}
    result: dict[str, Any]
    if "id" not in message:
        return b""
    if method == "tools/call":
        result = {"content": [{"type": "text", "text": params["arguments"]["text"]}]}
    elif method == "tools/list":
        result = {"tools": _TOOLS, **_CACHE}
    elif method == "initialize":
        result = {"protocolVersion": "2025-11-25", "capabilities": _CAPABILITIES, "serverInfo": _INFO}
    elif method == "server/discover":
        result = {"supportedVersions": ["2026-07-28"], "capabilities": _CAPABILITIES, **_CACHE}
    else:
        result = {}
    if "io.modelcontextprotocol/protocolVersion" in params.get("_meta", {}):
        result["resultType"] = "complete"
        result["_meta"] = {"io.modelcontextprotocol/serverInfo": _INFO}
    return json.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result}, separators=(",", ":")).encode()


class Endpoint(asyncio.Protocol):
    """One connection; requests are answered in the order in which they come."""

    def connection_made(self, transport: Any) -> None:
        self._transport = transport
        self._received = b""

    def data_received(self, data: bytes) -> None:
        self._received += data
        while True:
            head, found, rest = self._received.partition(b"\r\n\r\n")
            if not found:
                return
            lower = head.lower()
            at = lower.find(b"content-length:")
            length = int(lower[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
            if len(rest) < length:
                return
            body, self._received = rest[:length], rest[length:]
            self._transport.write(_respond(head, body))


def _respond(head: bytes, body: bytes) -> bytes:
    if not head.startswith(b"POST"):
        return b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n"
    answered = answer(json.loads(body))
    if not answered:
        return b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"
    return b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%b" % (
        len(answered),
        answered,
    )


async def _serve(port: int) -> None:
    server = await asyncio.get_running_loop().create_server(Endpoint, "127.0.0.1", port)
    await server.serve_forever()


if sys.argv[1] == "http":
    asyncio.run(_serve(int(sys.argv[2])))
else:
    for line in sys.stdin.buffer:
        reply = answer(json.loads(line))
        if reply:
            sys.stdout.buffer.write(reply + b"\n")
            sys.stdout.buffer.flush()
