"""Messages as lines of a byte stream.

Used by every transport whose peer ends messages with a line feed: stdio, TCP, Unix sockets. No I/O here.
The one rule: time is linear and memory bounded whatever comes. A line over the limit is reported once, the rest of it
is skipped without being kept, and the next line is served as if nothing had been.

The report says which request the line was about, where that can be told from its first and last bytes. Most peers write
the id first; others, the TypeScript SDK for one, write it last.

Source: MCP 2026-07-28, basic/transports/stdio; JSON-RPC 2.0 section 5.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence

from mcptrio.errors import Code
from mcptrio.protocol.json_shape import HEAD_BYTES, TAIL_BYTES, read_head, read_id, read_tail
from mcptrio.protocol.jsonrpc import decode, encode
from mcptrio.protocol.limits import DEFAULT, MessageLimits
from mcptrio.protocol.messages import ErrorResponse, Incoming, Malformed, Message

__all__ = ["LineFramer", "to_lines"]


def to_lines(messages: Iterable[Message | Sequence[Message]]) -> bytes:
    """One line a message; an inner sequence is one batch."""
    return b"".join([encode(message) + b"\n" for message in messages])


class LineFramer:
    """Bytes in, messages out. Lines end with LF or CRLF (the CR counts towards the limit); blank ones mean nothing.

    Args:
        answers: what a line over the limit is reported with the id of. By default a request of the peer's, so that the
            reply reaches who waits for it. ``True`` on a client's side: an answer of the peer's, so that the call it
            belongs to can be failed. With the id of the other kind it would be taken for something it is not.
    """

    def __init__(self, limits: MessageLimits = DEFAULT, *, answers: bool = False) -> None:
        self._limits = limits
        self._of_answers = answers
        self._kinds = (b"result", b"error") if answers else (b"method",)
        self._line = bytearray()
        """The beginning of a line whose end has not arrived; never more than ``limits.bytes``."""
        self._skipping = False
        """Whether we are inside a line that is too long."""
        self._tail: bytes | None = None
        """The end of what was skipped, while the report waits for the id that may stand there."""

    def feed(self, chunk: bytes) -> list[Incoming]:
        """What the lines that end in ``chunk`` say, in order. Never raises.

        A line over the limit is reported when its size passes the limit; or at its end, if its id may stand there.
        """
        lines = chunk.split(b"\n")
        unfinished = lines.pop()
        received: list[Incoming] = []
        if lines:
            if self._line or self._skipping:
                self._extend(lines.pop(0), received)
                received.extend(self.finish())
            limit = self._limits.bytes
            for line in lines:
                if len(line) > limit:
                    self._extend(line, received)
                    received.extend(self.finish())
                elif line and not line.isspace():
                    received.append(decode(line, self._limits))
        if unfinished:
            self._extend(unfinished, received)
        return received

    def finish(self) -> list[Incoming]:
        """What the last line says, where the stream ends without a line feed; afterwards a line can begin."""
        line, self._line = self._line, bytearray()
        tail, self._tail = self._tail, None
        self._skipping = False
        if tail is not None:
            return [self._report(read_tail(tail))]
        return [decode(line, self._limits)] if line and not line.isspace() else []

    def _extend(self, part: bytes, received: list[Incoming]) -> None:
        if self._skipping:
            if self._tail is not None:
                self._tail = (self._tail + part[-TAIL_BYTES:])[-TAIL_BYTES:]
            return
        limit = self._limits.bytes
        if len(self._line) + len(part) <= limit:
            self._line += part
            return
        self._skipping = True
        start = (bytes(self._line[:HEAD_BYTES]) + part[:HEAD_BYTES])[: min(HEAD_BYTES, limit)]
        kind, id = read_head(start) or (None, None)
        if kind not in self._kinds:
            received.append(self._report(None))
        elif id is not None:
            received.append(self._report(id))
        else:
            self._tail = (bytes(self._line[-TAIL_BYTES:]) + part[-TAIL_BYTES:])[-TAIL_BYTES:]
        self._line.clear()

    def _report(self, id: bytes | None) -> Malformed:
        limit = self._limits.bytes
        text = f"message of more than {limit} bytes: the limit is {limit} bytes; the rest of the line is skipped"
        known = read_id(id)
        reply = ErrorResponse(None if self._of_answers else known, int(Code.INVALID_REQUEST), text)
        return Malformed(reply, known if self._of_answers else None)
