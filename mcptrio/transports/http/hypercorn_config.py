"""The limits of the hardened Hypercorn, and its configuration made from them.

Made by :mod:`mcptrio.transports.http.hypercorn`, read by Hypercorn's protocols and by our connection.
The one rule: nothing is logged to stdout, which may be somebody's transport.

Source: hypercorn 0.18 ``config.py``.
"""

from __future__ import annotations

import logging
from time import time
from wsgiref.handlers import format_date_time

from attrs import frozen
from hypercorn.config import Config

__all__ = ["LOG", "ConnectionLimits", "ServerConfig"]

LOG = logging.getLogger("mcptrio.http.server")


@frozen(kw_only=True)
class ConnectionLimits:
    """
    Args:
        connections: open at the same time; more are answered with 503.
        header_bytes: of one request's head.
        header_timeout: seconds from the first byte of a head to its end.
        keep_alive: seconds a connection may wait for its next request.
        write_timeout: seconds one write may take; then the connection is cut.
        tls_timeout: seconds for the TLS handshake.
        http2: whether HTTP/2 is spoken without TLS (prior knowledge, ``Upgrade: h2c``).
    """

    connections: int = 10_000
    header_bytes: int = 32 * 1024
    header_timeout: float = 10.0
    keep_alive: float = 75.0
    write_timeout: float = 30.0
    tls_timeout: float = 10.0
    http2: bool = False


class ServerConfig(Config):
    """Hypercorn's configuration from our limits; logs through :mod:`logging`, never to stdout."""

    def __init__(self, limits: ConnectionLimits) -> None:
        super().__init__()
        self.errorlog = LOG
        self.accesslog = None
        self.h11_max_incomplete_size = limits.header_bytes
        self.keep_alive_timeout = limits.keep_alive
        # The stock 1000 closes a busy client's connection for no reason of ours.
        self.keep_alive_max_requests = 1_000_000_000
        self.include_server_header = False
        self._dated: tuple[int, list[tuple[bytes, bytes]]] = (0, [])

    def response_headers(self, protocol: str) -> list[tuple[bytes, bytes]]:
        """The Date header, formatted once a second."""
        now = int(time())
        if now != self._dated[0]:
            self._dated = (now, [(b"date", format_date_time(now).encode("ascii"))])
        return self._dated[1]
