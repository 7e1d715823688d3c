"""The bounds of an HTTP endpoint: sizes, times and counts. A value that costs nothing to import."""

from __future__ import annotations

from attrs import field, frozen

from mcptrio.ground.expected import PROGRAM_ONLY, instance, integer, number
from mcptrio.protocol.limits import MessageLimits

__all__ = ["HTTPLimits"]


@frozen(kw_only=True)
class HTTPLimits:
    """
    Args:
        message: bounds of one message, which is one request's body.
        header_bytes: of one request's headers.
        body_timeout: seconds for a body to arrive.
        write_timeout: seconds one write may wait for the client to read.
        streams: exchanges open at the same time on the endpoint, and as many on the routes of plugins; more are
            answered with 503. One client (a principal; without authentication an address, or a /64 network for IPv6)
            may have as many open as are free, so at most half of them.
        connections: open at the same time on the server of :func:`mcptrio.serving.over_http`, as far as the
            descriptors of the process allow, and half of them from one address. One more closes the connection that has
            waited longest for a request; if all have one, it is answered with 503.
        address_rate: requests a second from one address, on average, of whoever sends them; more are answered with 429
            before anything else is done. Of IPv6, all of a /64 is one address. 0 for no such limit.
        address_burst: as many may come at once.
        addresses: that are remembered for it. Of more, the one heard of longest ago is forgotten, and begins anew.
        session_rate: handshake sessions that one client (as for ``streams``) may open a second, on average; more are
            answered with 429. 0 for no such limit.
        session_burst: as many may be opened at once.
        parse_share: of the server's time, 0 to 1, that parsing the large messages (above 4 KiB) of one client (as for
            ``streams``) may take, on average over 60 seconds. More are answered with 429; over WebSocket they are read
            later. 0 for no limit.
        shutdown_delay: seconds for which the server goes on accepting after it was told to stop, while ``/readyz`` says
            503, so that load balancers notice.
        keepalive_interval: seconds of silence after which a response becomes a stream, and a stream gets a comment.
        stream_delay: seconds after which a call of a session becomes a stream that can be resumed, where its revision
            primes streams: long enough that quick answers stay plain JSON, short enough to survive a broken line.
        retry_delay: seconds a client is told to wait before it resumes a stream.
        resume_timeout: seconds a session's own stream goes on collecting messages while no client reads it.
        idle_timeout: seconds without use after which this process lets go of its part of a session; the store keeps it.
        window: messages a reader may be behind before the sender waits for it.
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
    window: int = field(default=256, validator=integer(1), metadata=PROGRAM_ONLY)
