"""The configuration of the hardened Hypercorn, made from our limits.

Made by :mod:`mcptrio.http.hypercorn.serving`, read by Hypercorn's protocols and by our connection.
The one rule: nothing is logged to stdout, which may be somebody's transport.

Source: hypercorn 0.18 ``config.py``.
"""

from __future__ import annotations

from time import time
from wsgiref.handlers import format_date_time

from hypercorn.config import Config

from mcptrio.http.engine.limits import LOG, ConnectionLimits

__all__ = ["ServerConfig"]


class ServerConfig(Config):
    """Hypercorn's configuration from our limits; logs through :mod:`logging`, never to stdout."""

    def __init__(self, limits: ConnectionLimits) -> None:
        super().__init__()
        self.errorlog = LOG
        self.accesslog = None
        self.h11_max_incomplete_size = limits.header_bytes
        self.keep_alive_timeout = limits.keepalive_timeout
        self.websocket_max_message_size = limits.message_bytes
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
