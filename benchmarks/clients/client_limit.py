"""The limit of a client in Python: ``python client_limit.py SECONDS IN_FLIGHT REVISION URL|COMMAND...``.

Blocking pipes and sockets; it only encodes a call and decodes the response. Over HTTP each call in flight has its own
connection.
"""

from __future__ import annotations

import os
import socket
import subprocess
import sys
import time
from select import EPOLLIN, epoll
from typing import Any
from urllib.parse import urlsplit

import orjson

__all__ = ["measure_http", "measure_stdio"]

_ENVELOPE = {
    "io.modelcontextprotocol/protocolVersion": "2026-07-28",
    "io.modelcontextprotocol/clientCapabilities": {},
    "io.modelcontextprotocol/clientInfo": {"name": "limit", "version": "1"},
}


def encode(number: int, era: str) -> bytes:
    params: dict[str, Any] = {"name": "echo", "arguments": {"text": "hello"}}
    if era == "2026-07-28":
        params["_meta"] = _ENVELOPE
    return orjson.dumps({"jsonrpc": "2.0", "id": number, "method": "tools/call", "params": params})


def check(answer: bytes) -> None:
    assert orjson.loads(answer)["result"]["content"][0]["text"] == "hello"


def measure_stdio(seconds: float, in_flight: int, era: str, command: list[str]) -> float:
    """Return the calls a second."""
    process = subprocess.Popen(command, bufsize=0, stdin=subprocess.PIPE, stdout=subprocess.PIPE)
    assert process.stdin is not None
    assert process.stdout is not None
    write, read = process.stdin.fileno(), process.stdout.fileno()
    kept = b""

    def send(first: int, count: int) -> None:
        os.write(write, b"".join([encode(first + number, era) + b"\n" for number in range(count)]))

    def receive() -> int:
        nonlocal kept
        *lines, kept = (kept + os.read(read, 1 << 16)).split(b"\n")
        for line in lines:
            check(line)
        return len(lines)

    def load(seconds: float) -> float:
        began = time.perf_counter()
        sent, answered = in_flight, 0
        send(0, in_flight)
        while answered < sent:
            fresh = receive()
            answered += fresh
            if fresh and time.perf_counter() < began + seconds:
                send(sent, fresh)
                sent += fresh
        return answered / (time.perf_counter() - began)

    load(seconds / 4)
    rate = load(seconds)
    process.stdin.close()
    process.wait()
    process.stdout.close()
    return rate


def measure_http(seconds: float, in_flight: int, era: str, url: str) -> float:
    """Return the calls a second."""
    address = ("127.0.0.1", urlsplit(url).port or 80)
    sockets = {}
    for _ in range(in_flight):
        connection = socket.create_connection(address)
        connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        sockets[connection.fileno()] = connection
    method = "mcp-method: tools/call\r\nmcp-name: echo\r\n" if era == "2026-07-28" else ""
    head = (
        f"POST /mcp HTTP/1.1\r\nhost: 127.0.0.1\r\ncontent-type: application/json\r\n"
        f"accept: application/json, text/event-stream\r\nmcp-protocol-version: {era}\r\n{method}content-length: "
    ).encode()

    def send(connection: socket.socket, number: int) -> None:
        body = encode(number, era)
        connection.sendall(b"%b%d\r\n\r\n%b" % (head, len(body), body))

    def load(seconds: float) -> float:
        # The server responds in one piece, and a connection has one call in flight.
        began = time.perf_counter()
        answered, busy = 0, len(sockets)
        for connection in sockets.values():
            send(connection, 0)
        while busy:
            for fd, _ in waiting.poll() if in_flight > 1 else [(next(iter(sockets)), EPOLLIN)]:
                check(sockets[fd].recv(1 << 16).partition(b"\r\n\r\n")[2])
                answered += 1
                if time.perf_counter() < began + seconds:
                    send(sockets[fd], answered)
                else:
                    busy -= 1
        return answered / (time.perf_counter() - began)

    with epoll() as waiting:
        for fd in sockets:
            waiting.register(fd, EPOLLIN)
        load(seconds / 4)
        rate = load(seconds)
    for connection in sockets.values():
        connection.close()
    return rate


arguments = (float(sys.argv[1]), int(sys.argv[2]), sys.argv[3])
if sys.argv[4].startswith("http"):
    print(measure_http(*arguments, sys.argv[4]))
else:
    print(measure_stdio(*arguments, sys.argv[4:]))
