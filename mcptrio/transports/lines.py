"""Messages as lines of a byte stream.

Used by every transport whose peer ends messages with a line feed: stdio, TCP, Unix sockets. No I/O here.
The one rule: time is linear and memory bounded whatever comes. A line over the limit is reported once, when its size
passes the limit, and the rest of it is skipped without being kept; the next line is served as if nothing had been.

Source: MCP 2026-07-28, basic/transports/stdio.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcptrio.errors import Code
from mcptrio.protocol.jsonrpc import DEFAULT, Limits, decode, encode
from mcptrio.protocol.messages import ErrorResponse, Incoming, Malformed, Message

__all__ = ["LineFramer", "to_lines"]


def to_lines(messages: Iterable[Message | Sequence[Message]]) -> bytes:
    """One line a message; an inner sequence is one batch."""
    return b"".join([encode(message) + b"\n" for message in messages])


class LineFramer:
    """Bytes in, messages out. Lines end with LF or CRLF (the CR counts towards the limit); blank ones mean nothing."""

    def __init__(self, limits: Limits = DEFAULT) -> None:
        self._limits = limits
        self._line = bytearray()
        """The beginning of a line whose end has not arrived; never more than ``limits.message_bytes``."""
        self._skipping = False
        """Whether we are inside a line that is too long."""

    def feed(self, chunk: bytes) -> list[Incoming]:
        """What the lines that end in ``chunk`` say, in order. Never raises."""
        lines = chunk.split(b"\n")
        unfinished = lines.pop()
        received: list[Incoming] = []
        if lines:
            if self._line or self._skipping:
                self._extend(lines.pop(0), received)
                received.extend(self.finish())
            received.extend([decode(line, self._limits) for line in lines if line and not line.isspace()])
        if unfinished:
            self._extend(unfinished, received)
        return received

    def finish(self) -> list[Incoming]:
        """What the last line says, where the stream ends without a line feed; afterwards a line can begin."""
        line = bytes(self._line)
        self._line.clear()
        self._skipping = False
        return [decode(line, self._limits)] if line and not line.isspace() else []

    def _extend(self, part: bytes, received: list[Incoming]) -> None:
        if self._skipping:
            return
        limit = self._limits.message_bytes
        if len(self._line) + len(part) <= limit:
            self._line += part
            return
        self._line.clear()
        self._skipping = True
        text = f"message of more than {limit} bytes: the limit is {limit} bytes; the rest of the line is skipped"
        received.append(Malformed(ErrorResponse(None, int(Code.INVALID_REQUEST), text)))
