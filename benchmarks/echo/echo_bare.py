"""The echo tool with only pipes and sockets: ``python echo_bare.py stdio``, or ``http PORT``.

The limit of a server in Python: a blocking loop that reads a message, parses it and responds. The clients are measured
with it, so that they never wait for the server.
"""

from __future__ import annotations

import os
import socket
import sys
from select import EPOLLIN, epoll
from typing import Any

import orjson

__all__: list[str] = []

_TOOLS = [{"name": "echo", "inputSchema": {"type": "object", "properties": {"text": {"type": "string"}}}}]
_CAPABILITIES = {"tools": {}}
_INFO = {"name": "bare", "version": "1"}
_CACHE = {"ttlMs": 0, "cacheScope": "private"}
_CHUNK = 1 << 16


def answer(line: bytes) -> bytes:
    """Return the response to a request; empty for a notification."""
    message = orjson.loads(line)
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
    if "_meta" in params and "io.modelcontextprotocol/protocolVersion" in params["_meta"]:
        result["resultType"] = "complete"
        result["_meta"] = {"io.modelcontextprotocol/serverInfo": _INFO}
    return orjson.dumps({"jsonrpc": "2.0", "id": message["id"], "result": result})


def serve_stdio() -> None:
    """Serve until the input ends."""
    kept = b""
    while chunk := os.read(0, _CHUNK):
        *lines, kept = (kept + chunk).split(b"\n")
        answers = b"".join([answered + b"\n" for line in lines if (answered := answer(line))])
        while answers:
            answers = answers[os.write(1, answers) :]


def serve_http(port: int) -> None:
    """Serve until the process is killed."""
    received: dict[int, bytes] = {}
    connections: dict[int, socket.socket] = {}
    with socket.create_server(("127.0.0.1", port), backlog=1024) as listener, epoll() as waiting:
        waiting.register(listener, EPOLLIN)
        while True:
            for fd, _ in waiting.poll():
                if fd == listener.fileno():
                    accepted, _ = listener.accept()
                    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    connections[accepted.fileno()], received[accepted.fileno()] = accepted, b""
                    waiting.register(accepted, EPOLLIN)
                    continue
                try:
                    chunk = connections[fd].recv(_CHUNK)
                except ConnectionError:
                    chunk = b""
                if chunk:
                    answers, received[fd] = _respond(received[fd] + chunk)
                    connections[fd].sendall(answers)
                else:
                    del received[fd]
                    connections.pop(fd).close()


def _respond(data: bytes) -> tuple[bytes, bytes]:
    """Return the responses to complete requests, and the remaining bytes."""
    answers = b""
    while True:
        head, found, rest = data.partition(b"\r\n\r\n")
        if not found:
            return answers, data
        lower = head.lower()
        at = lower.find(b"content-length:")
        length = int(lower[at + 15 :].split(b"\r\n", 1)[0]) if at >= 0 else 0
        if len(rest) < length:
            return answers, data
        body, data = rest[:length], rest[length:]
        if not head.startswith(b"POST"):
            answers += b"HTTP/1.1 405 Method Not Allowed\r\ncontent-length: 0\r\n\r\n"
        elif answered := answer(body):
            answers += b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n" % len(
                answered
            )
            answers += answered
        else:
            answers += b"HTTP/1.1 202 Accepted\r\ncontent-length: 0\r\n\r\n"


if sys.argv[1] == "http":
    serve_http(int(sys.argv[2]))
else:
    serve_stdio()
