"""The framing of LSP: a header with the length, then JSON.

The connection uses it. The module performs no I/O.

Source: LSP 3.17, "Base Protocol".
"""

from __future__ import annotations

from typing import Any, Final

import msgspec

__all__ = ["BrokenFrame", "FrameReader", "frame"]

_MAX_HEADER_BYTES: Final = 4096
"""Headers of servers have about 60 bytes."""
_MAX_DIGITS: Final = 12


class BrokenFrame(Exception):
    """The bytes are not an LSP message, or the message is too large."""


def frame(message: dict[str, Any]) -> bytes:
    """Encode a message with its header."""
    body = msgspec.json.encode(message)
    return b"Content-Length: %d\r\n\r\n%b" % (len(body), body)


class FrameReader:
    """Splits bytes into messages.

    Args:
        max_bytes: Maximum size of the body of a message.
    """

    def __init__(self, max_bytes: int) -> None:
        self._max_bytes = max_bytes
        self._buffer = bytearray()
        # The length of the body that is being read; None while a header is read.
        self._length: int | None = None

    def feed(self, data: bytes) -> list[dict[str, Any]]:
        """Add bytes and return the messages that they complete.

        Raises:
            BrokenFrame: The bytes are not LSP, or a header or body is too large.
        """
        self._buffer += data
        messages: list[dict[str, Any]] = []
        while True:
            if self._length is None:
                end = self._buffer.find(b"\r\n\r\n", 0, _MAX_HEADER_BYTES)
                if end < 0:
                    if len(self._buffer) >= _MAX_HEADER_BYTES:
                        raise BrokenFrame(f"expected a header of at most {_MAX_HEADER_BYTES} bytes")
                    return messages
                self._length = self._read_length(bytes(self._buffer[:end]))
                del self._buffer[: end + 4]
            if len(self._buffer) < self._length:
                return messages
            body = bytes(self._buffer[: self._length])
            del self._buffer[: self._length]
            self._length = None
            messages.append(_decode(body))

    def _read_length(self, header: bytes) -> int:
        lengths: set[int] = set()
        for line in header.split(b"\r\n"):
            name, _, value = line.partition(b":")
            if name.strip().lower() == b"content-length":
                digits = value.strip()
                if not digits.isdigit() or len(digits) > _MAX_DIGITS:
                    raise BrokenFrame(f"expected a number as Content-Length, got {digits[:40]!r}")
                lengths.add(int(digits))
        if len(lengths) != 1:
            raise BrokenFrame(f"expected one Content-Length, got {len(lengths)}")
        [length] = lengths
        if length > self._max_bytes:
            raise BrokenFrame(
                f"expected a message of at most {self._max_bytes} bytes (max_message_bytes), got {length}"
            )
        return length


def _decode(body: bytes) -> dict[str, Any]:
    try:
        message = msgspec.json.decode(body)
    except (msgspec.DecodeError, RecursionError) as error:
        raise BrokenFrame(f"expected JSON after the header: {error}") from None
    if not isinstance(message, dict):
        raise BrokenFrame(f"expected a JSON object, got {type(message).__name__}")
    return message
