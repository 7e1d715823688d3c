"""The limits of one message, and of the bytes that are queued for one peer.

Separate from the codec, because configuration imports these values and should not load it.
"""

from __future__ import annotations

from typing import Final

from attrs import field, frozen

from mcptrio.ground.expected import PROGRAM_ONLY, integer

__all__ = ["CLIENT_DEFAULT", "DEFAULT", "MAX_QUEUED_BYTES", "MessageLimits"]

MAX_QUEUED_BYTES: Final = 16 * 1024 * 1024
"""Bytes of JSON that may be queued for one peer. A single larger message is still sent."""


@frozen(kw_only=True)
class MessageLimits:
    """The limits of one received message."""

    bytes: int = field(default=4 * 1024 * 1024, validator=integer(1))
    """Bytes of one message, or of one batch."""
    containers: int = field(default=50_000, validator=integer(1), metadata=PROGRAM_ONLY)
    """Arrays and objects in one message, counted before it is parsed. Parsing one takes about 1 µs and 200 bytes."""
    values: int = field(default=250_000, validator=integer(1), metadata=PROGRAM_ONLY)
    """Items of arrays and members of objects in one message, counted before it is parsed."""
    meta_bytes: int = field(default=64 * 1024, validator=integer(1), metadata=PROGRAM_ONLY)
    """Bytes of ``params._meta`` of one message, which the server keeps as long as the request runs."""
    depth: int = field(default=64, validator=integer(1))
    """Levels of nested arrays and objects, including the message itself."""
    batch: int = field(default=100, validator=integer(1))
    """Messages in one batch."""


DEFAULT = MessageLimits()
"""The default limits for the messages of a client."""

CLIENT_DEFAULT = MessageLimits(
    bytes=64 * 1024 * 1024, containers=500_000, values=2_500_000, meta_bytes=1024 * 1024, depth=128
)
"""The default limits for the messages of a server. They are higher, because the user has chosen the server: an image of
48 MB is one string of Base64, and takes no more memory than its text. They are deeper, because a schema has about two
levels for each level of a value."""
