"""The limit of an HTTP server on Trio: ``python echo_limit.py PORT``.

httptools reads each request on a Trio socket, and the answer is always the same bytes, whatever the request.
"""

from __future__ import annotations

import socket
import sys

import httptools
import trio

__all__: list[str] = []

_JSON = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}'
_HTTP = b"HTTP/1.1 200 OK\r\nmcp-session-id: none\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
    len(_JSON),
    _JSON,
)


class Requests:
    """The callbacks of httptools; counts the complete requests."""

    def __init__(self) -> None:
        self.headers: list[tuple[bytes, bytes]] = []
        self.body = b""
        self.complete = 0

    def on_message_begin(self) -> None:
        self.headers, self.body = [], b""

    def on_header(self, name: bytes, value: bytes) -> None:
        self.headers.append((name.lower(), value))

    def on_body(self, body: bytes) -> None:
        self.body += body

    def on_message_complete(self) -> None:
        self.complete += 1


async def serve_connection(connection: trio.socket.SocketType) -> None:
    connection.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    requests = Requests()
    parser = httptools.HttpRequestParser(requests)
    with connection:
        try:
            while chunk := await connection.recv(1 << 16):
                parser.feed_data(chunk)
                answers, requests.complete = _HTTP * requests.complete, 0
                while answers:
                    answers = answers[await connection.send(answers) :]
        except ConnectionError:
            return


async def serve(port: int) -> None:
    listener = trio.socket.socket()
    listener.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    await listener.bind(("127.0.0.1", port))
    listener.listen(1024)
    async with trio.open_nursery() as nursery:
        while True:
            connection, _ = await listener.accept()
            nursery.start_soon(serve_connection, connection)


trio.run(serve, int(sys.argv[1]))
