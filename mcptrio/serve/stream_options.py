"""The options of serving connections of lines, and the table ``[stream]``. Values that are cheap to import."""

from __future__ import annotations

from attrs import field, frozen

from mcptrio.ground.expected import PROGRAM_ONLY, instance, integer, number
from mcptrio.protocol.limits import DEFAULT, MessageLimits

__all__ = ["StreamOptions", "StreamTable"]


@frozen(kw_only=True)
class StreamOptions:
    """Bounds of :func:`over_streams`.

    Args:
        limits: of one message.
        connections: how many at the same time, at least 1; one more is refused in words. Each may hold as much memory
            as one message may have bytes.
        write_timeout: seconds without any progress after which a peer that does not read counts as gone.
        first_message_timeout: seconds in which a peer has to send its first message.
        unix_mode: permissions of a Unix socket; a process that may write to it may connect.
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
        listen: the addresses to serve at, if none are given otherwise.
    """

    listen: tuple[str, ...] = ()
