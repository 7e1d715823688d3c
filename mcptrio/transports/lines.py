"""Splits a byte stream into messages, one per line.

The transports with one message per line use it: stdio, TCP, Unix sockets. It does no I/O. Time is linear in the input,
and memory is bounded: a line over the limit is reported once and skipped without being stored.

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
    """Encode messages, one per line; an inner sequence becomes one batch."""
    return b"".join([encode(message) + b"\n" for message in messages])


class LineFramer:
    """Decodes lines to messages. Lines end with LF or CRLF (the CR counts towards the limit); blank lines are ignored.

    Args:
        limits: Limits of one message.
        answers: Whether a line over the limit is reported as a response of the peer. True on a client, so that the call
            that the response belongs to fails. On a server, the line is reported as a request, so that the error
            response has its id.
    """

    def __init__(self, limits: MessageLimits = DEFAULT, *, answers: bool = False) -> None:
        self._limits = limits
        self._reads_answers = answers
        self._kinds = (b"result", b"error") if answers else (b"method",)
        self._line = bytearray()
        """The beginning of an incomplete line, at most ``limits.bytes``."""
        self._skipping = False
        """True inside a line that is too long."""
        self._tail: bytes | None = None
        """The last bytes that were skipped, if the id of the message may be among them."""

    def feed(self, chunk: bytes) -> list[Incoming]:
        """Return the messages of the lines that end in ``chunk``, in order. Invalid lines become Malformed items."""
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
        """Return the message of a last line without a line feed, and start a new line."""
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
        # The first bytes usually contain the id. Some peers, such as the TypeScript SDK, write it last; the line is
        # then reported when it ends.
        start = (bytes(self._line[:HEAD_BYTES]) + part[:HEAD_BYTES])[: min(HEAD_BYTES, limit)]
        kind, id = read_head(start) or (None, None)
        # If the line is of the other kind, it is reported without its id: a request of the peer may have the same id as
        # one of our requests.
        if kind not in self._kinds:
            received.append(self._report(None))
        elif id is not None:
            received.append(self._report(id))
        else:
            self._tail = (bytes(self._line[-TAIL_BYTES:]) + part[-TAIL_BYTES:])[-TAIL_BYTES:]
        self._line.clear()

    def _report(self, id: bytes | None) -> Malformed:
        limit = self._limits.bytes
        text = f"message too long: the limit is {limit} bytes; the rest of the line is skipped"
        known = read_id(id)
        reply = ErrorResponse(None if self._reads_answers else known, int(Code.INVALID_REQUEST), text)
        return Malformed(reply, known if self._reads_answers else None)
