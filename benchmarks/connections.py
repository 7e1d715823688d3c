"""Connections to an HTTP endpoint: plain sockets. Responses are counted by their length and not decoded.

Every load generator for HTTP uses it. An error in a response ends the measurement.
"""

from __future__ import annotations

import socket
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager

from calls import HANDSHAKE, Call, Peer

__all__ = ["WAIT_TIMEOUT", "Connection", "connected", "open_session", "unexpected"]

WAIT_TIMEOUT = 60.0
"""Seconds for any one response."""

_CHUNK = 1 << 18
_APART = 100_000
"""Calls of one connection before it may come to a number at which another has begun."""


class Connection:
    """One connection with one request in flight.

    Args:
        calls: Are sent in turn.
        number: The number of the first call. If connections share a session, no two calls may have the same number.
        source: The client's address.
    """

    def __init__(self, port: int, calls: Sequence[Call] = (), number: int = 0, source: str = "127.0.0.1") -> None:
        self.socket = socket.create_connection(("127.0.0.1", port), timeout=WAIT_TIMEOUT, source_address=(source, 0))
        self.socket.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
        self.calls = calls
        self.sent_at = 0.0
        self._sent = number
        self._received = b""

    def close(self) -> None:
        """Reset the connection: after a normal close, thousands of them would keep their ports for a minute."""
        self.socket.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\1\0\0\0\0\0\0\0")
        self.socket.close()

    def send(self) -> None:
        """Send the next call."""
        data = self.calls[self._sent % len(self.calls)].numbered(self._sent)
        self._sent += 1
        self.sent_at = time.perf_counter()
        self.socket.sendall(data)

    def receive(self) -> bytes | None:
        """Return the response if it is complete, otherwise ``None``.

        Raises:
            RuntimeError: The response is an error.
        """
        self._received += self._read()
        head, found, body = self._received.partition(b"\r\n\r\n")
        if not found:
            return None
        lower = head.lower()
        at = lower.find(b"content-length:")
        if at >= 0:
            complete = len(body) >= int(lower[at + 15 :].split(b"\r\n", 1)[0])
        elif b" 204" in lower[:14]:
            complete = True
        else:
            complete = body.endswith(b"0\r\n\r\n")
        if not complete:
            return None
        answer, self._received = self._received, b""
        if not answer.startswith(b"HTTP/1.1 20") or b'"error":' in answer or b'"isError":true' in answer:
            raise unexpected("an answer", answer)
        return answer

    def ask(self, data: bytes) -> bytes:
        """Send a request, and return its response."""
        self.socket.sendall(data)
        while (answer := self.receive()) is None:
            pass
        return answer

    def read_until(self, mark: bytes) -> bytes:
        """Read an unfinished response up to a mark, and return that part."""
        data = b""
        while mark not in data:
            data += self._read()
            if not data.startswith(b"HTTP/1.1 200"[: len(data)]) or b'"error":' in data:
                raise unexpected(mark.decode(), data)
        return data

    def _read(self) -> bytes:
        chunk = self.socket.recv(_CHUNK)
        if not chunk:
            raise unexpected("a response", self._received + b"(the connection was closed)")
        return chunk


@contextmanager
def connected(port: int, era: str, count: int, calls: Sequence[Call] = ()) -> Iterator[list[Connection]]:
    """Open clients, in handshake revisions with a session each. They call the echo tool, or send the given calls."""
    with ExitStack() as stack:
        connections = []
        for position in range(count):
            connection = Connection(port, number=position * _APART)
            stack.callback(connection.close)
            connections.append(connection)
            if calls:
                connection.calls = calls
                continue
            peer = open_session(connection, port) if era == HANDSHAKE else Peer(port, era)
            connection.calls = (peer.call("echo", {"text": "hello"}),)
            answer = connection.ask(connection.calls[0].numbered(0))
            if b"hello" not in answer:
                raise unexpected("an echo", answer)
        yield connections


def open_session(connection: Connection, port: int) -> Peer:
    """Perform the handshake, and return the client."""
    answer = connection.ask(Peer(port, HANDSHAKE).initialize())
    names = [line.partition(b":") for line in answer.partition(b"\r\n\r\n")[0].split(b"\r\n")]
    session = next(value.strip().decode() for name, _, value in names if name.lower() == b"mcp-session-id")
    peer = Peer(port, HANDSHAKE, session)
    connection.ask(peer.initialized())
    return peer


def unexpected(wanted: str, got: bytes) -> RuntimeError:
    return RuntimeError(f"expected {wanted}, got {got[:500]!r}")
