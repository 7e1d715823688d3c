"""The limits of an HTTP endpoint: sizes, times and counts. This module imports no HTTP code, so it loads fast."""

from __future__ import annotations

from attrs import field, frozen

from mcptrio.ground.expected import PROGRAM_ONLY, instance, integer, number
from mcptrio.protocol.limits import MessageLimits

__all__ = ["HTTPLimits"]


@frozen(kw_only=True)
class HTTPLimits:
    """The limits of HTTP.

    Args:
        message: Limits of one message, which is the body of one request.
        header_bytes: Bytes of one request's headers.
        body_timeout: Seconds for a body to arrive.
        write_timeout: Seconds that one write may wait for the client.
        streams: Requests open at the same time on the endpoint, and as many on the routes of plugins; further ones get
            503. One client (a principal; without authentication an address, or a /64 network for IPv6) may have as many
            open as are free, so at most half of them.
        connections: Connections open at the same time on the server of :func:`mcptrio.serving.over_http`, if the
            process has as many file descriptors, and half of them from one address. A further one closes the connection
            that is idle longest; if none is idle, the new one gets 503.
        address_rate: Requests a second from one address, on average; further ones get 429 before any other check. All
            IPv6 addresses of a /64 are one. 0: no limit.
        address_burst: Requests that may arrive at once.
        addresses: Remembered addresses. When full, the least recently seen one is evicted.
        session_rate: Handshake sessions that one client (as for ``streams``) may open a second, on average; further
            ones get 429. 0: no limit.
        session_burst: Sessions that may be opened at once.
        parse_share: Share of the server's time, 0 to 1, for parsing the large messages (above 4 KiB) of one client (as
            for ``streams``), on average over 60 seconds. Further ones get 429; over WebSocket they wait. 0: no limit.
        shutdown_delay: Seconds for which a stopping server still accepts connections, while ``/readyz`` returns 503, so
            that load balancers notice.
        keepalive_interval: Idle seconds after which a response becomes a stream, and a stream sends a comment.
        stream_delay: Seconds after which a call of a session becomes a resumable stream, if its revision has priming
            events: long enough for quick responses to stay plain JSON, short enough to survive a broken connection.
        retry_delay: Seconds that a client should wait before it resumes a stream.
        resume_timeout: Seconds for which a session's own stream collects messages while no client reads it.
        idle_timeout: Seconds after which this process releases its part of an unused session; the store keeps it.
        window: Messages that a reader may be behind before the sender waits.
    """

    message: MessageLimits = field(factory=MessageLimits, validator=instance(MessageLimits), metadata=PROGRAM_ONLY)
    header_bytes: int = field(default=32 * 1024, validator=integer(1))
    body_timeout: float = field(default=30.0, validator=number(above=0))
    write_timeout: float = field(default=30.0, validator=number(above=0))
    streams: int = field(default=2000, validator=integer(1))
    connections: int = field(default=10_000, validator=integer(1))
    address_rate: float = field(default=0.0, validator=number(0))
    address_burst: int = field(default=100, validator=integer(1))
    addresses: int = field(default=50_000, validator=integer(1), metadata=PROGRAM_ONLY)
    session_rate: float = field(default=20.0, validator=number(0))
    session_burst: int = field(default=5000, validator=integer(1))
    parse_share: float = field(default=0.005, validator=number(0, 1))
    shutdown_delay: float = field(default=0.0, validator=number(0))
    keepalive_interval: float = field(default=15.0, validator=number(above=0))
    stream_delay: float = field(default=1.0, validator=number(0), metadata=PROGRAM_ONLY)
    retry_delay: float = field(default=1.0, validator=number(0), metadata=PROGRAM_ONLY)
    resume_timeout: float = field(default=60.0, validator=number(0), metadata=PROGRAM_ONLY)
    idle_timeout: float = field(default=300.0, validator=number(0))
    window: int = field(default=768, validator=integer(1), metadata=PROGRAM_ONLY)
