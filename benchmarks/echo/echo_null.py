"""Sends the same response to every request: ``python echo_null.py stdio``, or ``http PORT``.

The rate with it is the limit of the load generator. It has the responses that generators need: an answer, a burst of
events, a stream that stays open, and an event for all open streams.
"""

from __future__ import annotations

import os
import socket
import sys
from select import EPOLLIN, epoll

__all__: list[str] = []

_JSON = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}'
_HTTP = b"HTTP/1.1 200 OK\r\nmcp-session-id: none\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
    len(_JSON),
    _JSON,
)
_STREAM = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"


def _chunk(data: bytes) -> bytes:
    return b"%x\r\n%s\r\n" % (len(data), data)


def _event(message: bytes) -> bytes:
    return _chunk(b"event: message\r\ndata: %s\r\n\r\n" % message)


_PROGRESS = _event(b'{"jsonrpc":"2.0","method":"notifications/progress","params":{"progressToken":1,"progress":1}}')
_MANY = 1000
_PROGRESSES = _PROGRESS * _MANY
_END = _event(_JSON) + b"0\r\n\r\n"
_AGREED = b'{"notifications":{"resourceSubscriptions":["memo://today"]}}'
_LISTENING = _STREAM + _event(
    b'{"jsonrpc":"2.0","method":"notifications/subscriptions/acknowledged","params":%s}' % _AGREED
)
_UPDATED = _event(b'{"jsonrpc":"2.0","method":"notifications/resources/updated","params":{"uri":"memo://today"}}')


def serve_stdio() -> None:
    """Serve until the input ends."""
    while chunk := os.read(0, 1 << 16):
        answer = (_JSON + b"\n") * (chunk.count(b"\n") - chunk.count(b'"notifications/'))
        while answer:
            answer = answer[os.write(1, answer) :]


class Crowd:
    """All connections, and those with an open stream. A generator sends one request at a time, in one piece."""

    def __init__(self) -> None:
        self.connections: dict[int, socket.socket] = {}
        self._listening: dict[int, socket.socket] = {}

    def serve(self, fd: int) -> bool:
        """Answer the received requests. Return whether the connection is still open."""
        connection = self.connections[fd]
        try:
            request = connection.recv(1 << 16)
            if not request:
                return False
            if b'"subscriptions/listen"' in request:
                connection.sendall(_LISTENING)
                self._listening[fd] = connection
            elif b'"name":"burst"' in request:
                self._burst(connection, int(request.partition(b'"count":')[2].split(b"}", 1)[0]))
            elif b'"name":"touch"' in request:
                for listener in self._listening.values():
                    listener.send(_UPDATED)
                connection.sendall(_HTTP)
            else:
                connection.sendall(_HTTP)
        except ConnectionError:
            return False
        return True

    def close(self, fd: int) -> None:
        self.connections.pop(fd).close()
        self._listening.pop(fd, None)

    def _burst(self, connection: socket.socket, count: int) -> None:
        connection.sendall(_STREAM)
        for _ in range(count // _MANY):
            connection.sendall(_PROGRESSES)
        connection.sendall(_PROGRESS * (count % _MANY) + _END)


def serve_http(port: int) -> None:
    """Serve until the process is killed."""
    crowd = Crowd()
    with socket.create_server(("127.0.0.1", port), backlog=1024) as listener, epoll() as waiting:
        waiting.register(listener, EPOLLIN)
        while True:
            for fd, _ in waiting.poll():
                if fd == listener.fileno():
                    accepted, _ = listener.accept()
                    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    crowd.connections[accepted.fileno()] = accepted
                    waiting.register(accepted, EPOLLIN)
                elif not crowd.serve(fd):
                    crowd.close(fd)


if sys.argv[1] == "stdio":
    serve_stdio()
else:
    serve_http(int(sys.argv[2]))
