"""The limits of an HTTP server's connections, and the server's logger."""

from __future__ import annotations

import logging

from attrs import frozen

__all__ = ["LOG", "ConnectionLimits"]

LOG = logging.getLogger("mcptrio.http.server")


@frozen(kw_only=True)
class ConnectionLimits:
    """The limits of connections.

    Args:
        connections: Connections open at the same time, if the process has as many file descriptors. A further one
            closes the connection that is idle longest; if none is idle, the new one gets 503.
        address_share: The part of the connections, 0 to 1, that one address or one /64 network of IPv6 may have.
            Trusted proxies are exempt.
        header_bytes: Bytes of one request's head. In HTTP/2, a larger head ends the connection.
        header_timeout: Seconds from the first byte of a head to its end. HTTP/2 applies ``keepalive_timeout`` instead.
        body_timeout: Seconds without a byte of an unfinished body, while the server reads. Then the client is regarded
            as disconnected, and a request without a response gets 408.
        keepalive_timeout: Seconds that a connection may wait for its next request.
        write_timeout: Seconds that one write may take. Then the connection is cut.
        tls_timeout: Seconds for the TLS handshake.
        message_bytes: Bytes of one WebSocket message.
        ping_interval: Seconds without data after which a WebSocket is pinged, and seconds for the response.
    """

    connections: int = 10_000
    address_share: float = 0.5
    header_bytes: int = 32 * 1024
    header_timeout: float = 10.0
    body_timeout: float = 30.0
    keepalive_timeout: float = 75.0
    write_timeout: float = 30.0
    tls_timeout: float = 10.0
    message_bytes: int = 4 * 1024 * 1024
    ping_interval: float = 20.0
