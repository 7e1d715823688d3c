"""Load on a server's HTTP endpoint: plain sockets, requests encoded beforehand, responses measured off.

A response is told apart by its content-length or its chunks, and not decoded; an error in it is noticed. Every
connection is a client of its own, in the handshake era with a session of its own, and has one call in flight.
"""

from __future__ import annotations

import json
import selectors
import socket
import time
from collections.abc import Sequence
from contextlib import ExitStack
from pathlib import Path
from typing import Any

from processes import memory_of, started
from servers import Server

__all__ = ["ERAS", "measure_http"]

ERAS = ("2025-11-25", "2026-07-28")
CONNECTIONS = (1, 16)
PATIENCE = 30.0
"""Seconds to come up, and for any one response."""

_COUNT = 1 << 12
"""Calls made beforehand for a connection, with an id each; then from the beginning."""
_CLIENT = {"name": "benchmark", "version": "1"}


def measure_http(server: Server, python: Path, seconds: float) -> dict[str, float]:
    """Calls a second in both eras, over one connection and over several, and memory after that."""
    with socket.create_server(("127.0.0.1", 0)) as taken:
        port: int = taken.getsockname()[1]
    rates: dict[str, float] = {}
    with started(python, server.http(port), pipes=False) as process:
        _Client(port).close()  # it is up
        for era in ERAS:
            for count in CONNECTIONS:
                with ExitStack() as stack:
                    clients = [_Client(port) for _ in range(count)]
                    for client in clients:
                        stack.callback(client.close)
                        client.prepare(era)
                    _call(clients, seconds / 4)
                    rates[f"HTTP {era}, {count} connection{'s' * (count > 1)}, calls/s"] = _call(clients, seconds)
        return {**rates, "memory after HTTP load, MiB": memory_of(process)}


class _Client:
    """One connection. A server that is still starting is waited for."""

    def __init__(self, port: int) -> None:
        deadline = time.perf_counter() + PATIENCE
        while True:
            try:
                self.socket = socket.create_connection(("127.0.0.1", port), timeout=PATIENCE)
                break
            except ConnectionRefusedError:
                if time.perf_counter() > deadline:
                    raise
                time.sleep(0.02)
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self._host = f"127.0.0.1:{port}"
        self._received = b""
        self._calls: Sequence[bytes] = ()
        self._sent = 0

    def close(self) -> None:
        self.socket.close()

    def prepare(self, era: str) -> None:
        """Shake hands, where the era does, and encode the calls."""
        if era == ERAS[0]:
            session = self._open_session(era)
            headers = f"mcp-session-id: {session}\r\nmcp-protocol-version: {era}\r\n"
            meta: dict[str, Any] = {}
        else:
            headers = f"mcp-protocol-version: {era}\r\nmcp-method: tools/call\r\nmcp-name: echo\r\n"
            envelope = {
                "io.modelcontextprotocol/protocolVersion": era,
                "io.modelcontextprotocol/clientCapabilities": {},
                "io.modelcontextprotocol/clientInfo": _CLIENT,
            }
            meta = {"_meta": envelope}
        params = {"name": "echo", "arguments": {"text": "hello"}, **meta}
        self._calls = [self._post(headers, _request(id, "tools/call", params)) for id in range(1, _COUNT + 1)]
        self.send()
        while (answer := self.receive()) is None:
            pass
        if b"hello" not in answer:
            raise RuntimeError(f"expected an echo, got {answer[:500]!r}")

    def send(self) -> None:
        """The next call."""
        self.socket.sendall(self._calls[self._sent % _COUNT])
        self._sent += 1

    def receive(self) -> bytes | None:
        """The response, if it is complete now."""
        chunk = self.socket.recv(1 << 16)
        if not chunk:
            raise RuntimeError(f"the server has closed the connection, after {self._received[:500]!r}")
        self._received += chunk
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return None
        lower = head.lower()
        at = lower.find(b"content-length:")
        if at >= 0:
            complete = len(body) >= int(lower[at + 15 :].split(b"\r\n", 1)[0])
        else:
            complete = body.endswith(b"0\r\n\r\n")
        if not complete:
            return None
        answer, self._received = self._received, b""
        if not answer.startswith(b"HTTP/1.1 20") or b'"error":' in answer or b'"isError":true' in answer:
            raise RuntimeError(f"expected an echo, got {answer[:500]!r}")
        return answer

    def _open_session(self, era: str) -> str:
        params = {"protocolVersion": era, "capabilities": {}, "clientInfo": _CLIENT}
        answer = self._ask(self._post("", _request(0, "initialize", params)))
        names = [line.partition(b":") for line in answer.partition(b"\r\n\r\n")[0].split(b"\r\n")]
        session = next(value.strip().decode() for name, _, value in names if name.lower() == b"mcp-session-id")
        headers = f"mcp-session-id: {session}\r\nmcp-protocol-version: {era}\r\n"
        self._ask(self._post(headers, '{"jsonrpc":"2.0","method":"notifications/initialized"}'))
        return session

    def _ask(self, data: bytes) -> bytes:
        self.socket.sendall(data)
        while (answer := self.receive()) is None:
            pass
        return answer

    def _post(self, headers: str, body: str) -> bytes:
        return (
            f"POST /mcp HTTP/1.1\r\nhost: {self._host}\r\ncontent-type: application/json\r\n"
            f"accept: application/json, text/event-stream\r\ncontent-length: {len(body)}\r\n{headers}\r\n{body}"
        ).encode()


def _request(id: int, method: str, params: dict[str, Any]) -> str:
    return json.dumps({"jsonrpc": "2.0", "id": id, "method": method, "params": params}, separators=(",", ":"))


def _call(clients: Sequence[_Client], seconds: float) -> float:
    """Responses a second, each connection sending its next call when it has the answer. Nothing is open afterwards."""
    began = time.perf_counter()
    deadline = began + seconds
    answered = 0
    if len(clients) == 1:
        client = clients[0]
        while time.perf_counter() < deadline:
            client.send()
            while client.receive() is None:
                pass
            answered += 1
        return answered / (time.perf_counter() - began)
    with selectors.DefaultSelector() as selector:
        for client in clients:
            selector.register(client.socket, selectors.EVENT_READ, client)
            client.send()
        busy = len(clients)
        while busy:
            ready = selector.select(PATIENCE)
            if not ready:
                raise RuntimeError(f"{busy} calls have had no answer for {PATIENCE:g} s")
            more = time.perf_counter() < deadline
            for key, _ in ready:
                if key.data.receive() is None:
                    continue
                answered += 1
                if more:
                    key.data.send()
                else:
                    busy -= 1
    return answered / (time.perf_counter() - began)
