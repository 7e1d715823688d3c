"""The options for serving stream sockets, and the table ``[stream]``. Importing it costs little."""

from __future__ import annotations

from attrs import field, frozen

from mcptrio.ground.expected import PROGRAM_ONLY, instance, integer, number
from mcptrio.protocol.limits import DEFAULT, MessageLimits

__all__ = ["StreamOptions", "StreamTable"]


@frozen(kw_only=True)
class StreamOptions:
    """The limits of :func:`over_streams`.

    Args:
        limits: Limits of one message.
        connections: Concurrent connections, at least 1; a further one receives an error. Each may use as much memory as
            one message may have bytes.
        write_timeout: Seconds without progress after which a peer that does not read is disconnected.
        first_message_timeout: Seconds within which a peer has to send its first message.
        unix_mode: The permissions of a Unix socket; processes that may write to it may connect.
    """

    limits: MessageLimits = field(default=DEFAULT, validator=instance(MessageLimits), metadata=PROGRAM_ONLY)
    connections: int = field(default=1000, validator=integer(1))
    write_timeout: float = field(default=30.0, validator=number(above=0))
    first_message_timeout: float = field(default=60.0, validator=number(above=0))
    unix_mode: int = field(default=0o600, validator=integer(0o200, 0o777))


@frozen(kw_only=True)
class StreamTable(StreamOptions):
    """The table ``[stream]``.

    Args:
        listen: The addresses to serve, unless the command line names others.
    """

    listen: tuple[str, ...] = ()
