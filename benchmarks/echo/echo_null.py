"""No server at all: whatever is asked gets the same answer at once. ``python echo_null.py stdio``, or ``http PORT``.

What the load generator reaches against it is the load generator's own ceiling.
"""

from __future__ import annotations

import os
import selectors
import socket
import sys

__all__: list[str] = []

_JSON = b'{"jsonrpc":"2.0","id":1,"result":{"content":[{"type":"text","text":"hello"}]}}'
_HTTP = b"HTTP/1.1 200 OK\r\nmcp-session-id: none\r\ncontent-type: application/json\r\ncontent-length: %d\r\n\r\n%s" % (
    len(_JSON),
    _JSON,
)


def serve_stdio() -> None:
    while chunk := os.read(0, 1 << 16):
        answer = (_JSON + b"\n") * (chunk.count(b"\n") - chunk.count(b'"notifications/'))
        while answer:
            answer = answer[os.write(1, answer) :]


def serve_http(port: int) -> None:
    with socket.create_server(("127.0.0.1", port)) as listener, selectors.DefaultSelector() as selector:
        selector.register(listener, selectors.EVENT_READ)
        while True:
            for key, _ in selector.select():
                sock = key.fileobj
                assert isinstance(sock, socket.socket)
                if sock is listener:
                    accepted, _ = listener.accept()
                    accepted.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
                    selector.register(accepted, selectors.EVENT_READ)
                elif sock.recv(1 << 16):
                    # The generator has one request in flight on a connection, and sends it in one piece.
                    sock.sendall(_HTTP)
                else:
                    selector.unregister(sock)
                    sock.close()


if sys.argv[1] == "stdio":
    serve_stdio()
else:
    serve_http(int(sys.argv[2]))
