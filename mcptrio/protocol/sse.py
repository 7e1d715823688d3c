"""Encodes and decodes server-sent events.

The HTTP transports of both sides use this. The data of an event stays bytes, which :mod:`mcptrio.protocol.jsonrpc`
decodes. Time and memory are linear in the input and limited by one event, however it is cut into chunks.

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
    data: bytes
    """The contents of the data lines, joined by line feeds; not checked to be UTF-8."""
    event: str = "message"
    id: str = ""
    """The last event id at this event, which an earlier event may have set; empty where none has."""


def encode(data: bytes, *, event: str | None = None, id: str | None = None, retry: int | None = None) -> bytes:
    """One event, with the empty line that dispatches it. Every line of ``data`` gets a data field of its own.

    Args:
        retry: milliseconds the client waits before it connects again.

    Raises:
        LocalProtocolError: ``event`` or ``id`` holds a line end, ``id`` a NUL, or ``retry`` is negative.
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
    if b"\n" not in data and b"\r" not in data:  # as in all that we encode
        return b"%bdata: %b\n\n" % (fields, data)
    return fields + b"".join([b"data: %b\n" % line for line in _LINE_END.split(data)]) + b"\n"


def comment(text: str = "") -> bytes:
    """A comment, which the client ignores; it keeps idle connections open. Line ends make several comments."""
    lines = text.encode("utf-8", "replace").splitlines() or [b""]
    return b"".join([b": %b\n" % line for line in lines]) + b"\n"


class SSEDecoder:
    """An event stream as it arrives. An event that is not complete at the end of the stream does not count.

    Args:
        max_event_bytes: bound for one line, and for the data of one event.
    """

    def __init__(self, max_event_bytes: int = 4 * 1024 * 1024) -> None:
        self._max = max_event_bytes
        self._line = bytearray()
        """The line whose end has not arrived."""
        self._size = 0
        """Bytes in ``_data``, line feeds included."""
        self._data: list[bytes] = []
        self._event = ""
        self._id = ""
        self._at_start = True
        self._after_cr = False
        """Whether a line feed that comes next belongs to the carriage return before it."""
        self._last_event_id = ""
        self._retry: int | None = None

    @property
    def last_event_id(self) -> str:
        """What to send as Last-Event-ID when connecting again; empty where the server has set none."""
        return self._last_event_id

    @property
    def retry(self) -> int | None:
        """Milliseconds to wait before connecting again; ``None`` where the server has not said."""
        return self._retry

    def feed(self, chunk: bytes) -> list[Event]:
        """The events that ``chunk`` completes.

        Raises:
            RemoteProtocolError: an event is larger than the limit; the stream is of no more use.
        """
        if not chunk:
            return []
        if self._after_cr and chunk[0] == 0x0A:
            chunk = chunk[1:]
        self._after_cr = chunk.endswith(b"\r")
        lines = chunk.splitlines()  # of bytes: at \n, \r and \r\n only
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
        if value.startswith(b" "):
            value = value[1:]
        if name == b"data":
            self._data.append(value)
            self._size += len(value) + 1
            self._check(0)
        elif name == b"event":
            self._event = value.decode(errors="replace")
        elif name == b"id":
            if b"\0" not in value:
                self._id = value.decode(errors="replace")
        elif name == b"retry" and value.isdigit() and len(value) <= 18:
            # 18 digits are 31 million years; without a bound int() takes quadratic time.
            self._retry = int(value)

    def _dispatch(self, events: list[Event]) -> None:
        self._last_event_id = self._id
        if self._data:
            events.append(Event(data=b"\n".join(self._data), event=self._event or "message", id=self._id))
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
