"""Encodes and decodes server-sent events.

The HTTP transports of both sides use it. The data of an event is bytes, which :mod:`mcptrio.protocol.jsonrpc` decodes.
However the input is split into chunks, time is linear in the input, and memory is limited to one event.

Source: WHATWG HTML, 9.2.5 "Parsing an event stream" and 9.2.6 "Interpreting an event stream".
"""

from __future__ import annotations

import re

from attrs import frozen

from mcptrio.errors import LocalProtocolError, RemoteProtocolError

__all__ = ["Event", "SSEDecoder", "comment", "encode"]

_BOM = b"\xef\xbb\xbf"
_LINE_END = re.compile(rb"\r\n|\r|\n")


@frozen(kw_only=True)
class Event:
    """A received event."""

    data: bytes
    """The contents of the data lines, joined by line feeds. It may be invalid UTF-8."""
    event: str = "message"
    """The type of the event."""
    id: str = ""
    """The last event id when this event arrived, which an earlier event may have set; empty if there is none."""


def encode(data: bytes, *, event: str | None = None, id: str | None = None, retry: int | None = None) -> bytes:
    """Return one encoded event, including the empty line at its end. Every line of ``data`` becomes a data field.

    Args:
        retry: Milliseconds for which the client should wait before it reconnects.

    Raises:
        LocalProtocolError: ``event`` or ``id`` contains a line end, ``id`` a NUL, or ``retry`` is negative.
    """
    fields = b""
    if event is not None:
        fields = b"event: %b\n" % _field_value("event", event)
    if id is not None:
        fields += b"id: %b\n" % _field_value("id", id)
    if retry is not None:
        if retry < 0:
            raise LocalProtocolError(f"retry: expected milliseconds, at least 0, got {retry}")
        fields += b"retry: %d\n" % retry
    if b"\n" not in data and b"\r" not in data:  # the JSON of our messages has no line ends
        return b"%bdata: %b\n\n" % (fields, data)
    return fields + b"".join([b"data: %b\n" % line for line in _LINE_END.split(data)]) + b"\n"


def comment(text: str = "") -> bytes:
    """Return an encoded comment. The client ignores it; it keeps an idle connection open."""
    # Each line becomes a comment, because a line without the colon would be a field.
    lines = text.encode("utf-8", "replace").splitlines() or [b""]
    return b"".join([b": %b\n" % line for line in lines]) + b"\n"


class SSEDecoder:
    """Decodes an event stream as it arrives. An incomplete event at the end of the stream is dropped.

    Args:
        max_event_bytes: Maximum bytes of one line, and of the data of one event.
    """

    def __init__(self, max_event_bytes: int = 4 * 1024 * 1024) -> None:
        self._max = max_event_bytes
        self._line = bytearray()
        """The received part of an incomplete line."""
        self._size = 0
        """Bytes in ``_data``, including line feeds."""
        self._data: list[bytes] = []
        self._event = ""
        self._id = ""
        self._at_start = True
        self._after_cr = False
        """True if the last chunk ended with a carriage return. A line feed that follows belongs to the same line
        end."""
        self._last_event_id = ""
        self._retry: int | None = None

    @property
    def last_event_id(self) -> str:
        """The value of Last-Event-ID for reconnecting; empty if the server has set none."""
        return self._last_event_id

    @property
    def retry(self) -> int | None:
        """Milliseconds to wait before reconnecting; ``None`` if the server has not set it."""
        return self._retry

    def feed(self, chunk: bytes) -> list[Event]:
        """Return the events that ``chunk`` completes.

        Raises:
            RemoteProtocolError: An event is larger than the limit; the stream cannot be used any more.
        """
        if not chunk:
            return []
        if self._after_cr and chunk[0] == 0x0A:
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        lines = chunk.splitlines()  # bytes are split at \n, \r and \r\n only
        unfinished = lines.pop() if lines and not chunk.endswith((b"\n", b"\r")) else b""
        events: list[Event] = []
        if lines and self._line:
            self._line += lines[0]
            lines[0] = bytes(self._line)
            self._line.clear()
        for line in lines:
            self._check(len(line))
            if self._at_start:
                self._at_start = False
                line = line.removeprefix(_BOM)
            if line:
                self._take_field(line)
            else:
                self._dispatch(events)
        self._line += unfinished
        self._check(len(self._line))
        return events

    def _take_field(self, line: bytes) -> None:
        name, _, value = line.partition(b":")
        # WHATWG HTML 9.2.6: one space after the colon is not part of the value.
        if value.startswith(b" "):
            value = value[1:]
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            # Many short data lines can exceed the limit together.
            self._check(0)
        elif name == b"event":
            self._event = value.decode(errors="replace")
        elif name == b"id":
            # WHATWG HTML 9.2.6: an id with a NUL is ignored.
            if b"\0" not in value:
                self._id = value.decode(errors="replace")
        elif name == b"retry" and value.isdigit() and len(value) <= 18:
            # 18 digits are 31 million years. Without a bound, int() takes quadratic time.
            self._retry = int(value)

    def _dispatch(self, events: list[Event]) -> None:
        # An event without data sets the id too (a priming event).
        self._last_event_id = self._id
        if self._data:
            events.append(Event(data=b"\n".join(self._data), event=self._event or "message", id=self._id))
            # The id is kept until the server sends another one.
            self._data.clear()
            self._size = 0
        self._event = ""

    def _check(self, more: int) -> None:
        if more > self._max or self._size > self._max:
            raise RemoteProtocolError(
                f"server-sent event of more than {self._max} bytes: got {self._size} of data and a line of {more}"
            )


def _field_value(name: str, value: str) -> bytes:
    if "\n" in value or "\r" in value or (name == "id" and "\0" in value):
        unwanted = "no line end and no NUL" if name == "id" else "no line end"
        raise LocalProtocolError(f"{name}: expected {unwanted} in it, got {value!r}")
    return value.encode("utf-8", "replace")
