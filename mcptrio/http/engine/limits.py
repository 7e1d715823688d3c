"""What an HTTP server lets its connections do.

The one rule: nothing is logged to stdout, which may be somebody's transport.
"""

from __future__ import annotations

import logging

from attrs import frozen

__all__ = ["LOG", "ConnectionLimits"]

LOG = logging.getLogger("mcptrio.http.server")


@frozen(kw_only=True)
class ConnectionLimits:
    """
    Args:
        connections: open at the same time, as far as the descriptors of the process allow. One more closes the
            connection that has waited longest for a request; if all have one, it is answered with 503.
        address_share: the part of them that one address, or one /64 network of IPv6, may have. Not for trusted proxies.
        header_bytes: of one request's head. In HTTP/2 a larger one ends the connection.
        header_timeout: seconds from the first byte of a head to its end. Not in HTTP/2, where a connection that sends
            no request has ``keepalive_timeout``.
        body_timeout: seconds without a byte of an unfinished body, while the server reads; then the application is told
            that the client has left, and a request it does not answer is answered with 408.
        keepalive_timeout: seconds a connection may wait for its next request.
        write_timeout: seconds one write may take; then the connection is cut.
        tls_timeout: seconds for the TLS handshake.
        message_bytes: of one WebSocket message.
        ping_interval: seconds without a word from a WebSocket's peer after which it is pinged; and once more these
            seconds for its answer.
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
