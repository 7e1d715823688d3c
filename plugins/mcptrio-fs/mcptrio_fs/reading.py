"""Reads files: whole, from one end, or in parts.

The reading tools and the resources call it in a worker thread. No call reads more than its ``limit`` bytes into memory;
a cut result has the offset to continue from.

A final line end does not begin another line.
"""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

from msgspec import Struct

from mcptrio.errors import ToolError

from .errors import printable
from .media import SNIFFED, binary_type, media_type
from .sandbox import AllowedPath, Sandbox

__all__ = ["Bytes", "Checkpoint", "Text", "read_at", "read_bytes", "read_lines", "read_tail", "read_text"]

Checkpoint = Callable[[], None]
"""Called at least every few milliseconds of work; raises after a cancellation."""

_SLICE = 256 * 1024
_TAIL = 16 * 1024
"""Bytes that are read first from the end of a file: enough for the usual few lines."""
_EXAMINED = 8 * 1024
"""Bytes at the beginning of a file that show whether it is a text."""


class Text(Struct, kw_only=True, frozen=True):
    """A piece of a text file."""

    text: str
    size: int
    """The whole file, in bytes."""

    start: int
    """Start of the part, in bytes."""

    end: int
    """End of the part; smaller than ``size`` when something was cut off after it."""

    cut: bool
    """The result does not contain everything that was requested."""

    replaced: bool
    """Some bytes are not UTF-8; U+FFFD stands for them."""


class Bytes(Struct, kw_only=True, frozen=True):
    """A whole file."""

    data: bytes
    mime_type: str
    status: os.stat_result
    """As it was before the file was read."""

    place: AllowedPath


def read_text(sandbox: Sandbox, path: str, *, offset: int, limit: int, checkpoint: Checkpoint) -> Text:
    """A text file from ``offset``, at most ``limit`` bytes of it, never ending inside a character. A part that is cut
    ends at a line end if one is near.

    Raises:
        ToolError: no regular file that may be read is there, or it is no text.
    """
    with _open_text(sandbox, path) as (descriptor, status):
        data = read_at(descriptor, offset, limit + 1, checkpoint)
        size = max(status.st_size, offset + len(data))  # /proc and files that grow say less than there is
    cut = len(data) > limit
    data = _whole_lines(data[:limit]) if cut else data
    return _text(data, size=size, start=offset, cut=cut)


def read_lines(sandbox: Sandbox, path: str, *, first: int, count: int, limit: int, checkpoint: Checkpoint) -> Text:
    """Return ``count`` lines from the line ``first``, without the line end of the last one.

    Args:
        first: the number of a line, from 1.

    Raises:
        ToolError: as ``read_text``; or the file has fewer lines.
    """
    with _open_text(sandbox, path) as (descriptor, status):
        offset = _start_of_line(descriptor, first, path, checkpoint)
        data = bytearray()
        found = 0
        stop = -1
        while stop < 0 and len(data) <= limit:
            checkpoint()
            piece = os.pread(descriptor, min(_SLICE, limit + 1 - len(data)), offset + len(data))
            if not piece:
                break
            stop = _nth_newline(piece, count - found)
            if stop >= 0:
                stop += len(data)
            found += piece.count(b"\n")
            data += piece
        size = max(status.st_size, offset + len(data))
    if 0 <= stop <= limit:
        return _text(bytes(data[:stop]), size=size, start=offset, cut=False)
    cut = len(data) > limit
    kept = _whole_lines(bytes(data[:limit])) if cut else bytes(data)
    return _text(kept, size=size, start=offset, cut=cut)


def read_tail(sandbox: Sandbox, path: str, *, lines: int, limit: int, checkpoint: Checkpoint) -> Text:
    """The last lines, without the line end of the last one.

    Raises:
        ToolError: as ``read_text``.
    """
    with _open_text(sandbox, path) as (descriptor, status):
        size = status.st_size
        position = size
        pieces: list[bytes] = []
        held = newlines = 0
        # One newline more than lines: the one before the first wanted line. Another closes the last line.
        while position > 0 and newlines < lines + 1 and held <= limit:
            step = min(_TAIL if not held else _SLICE, position)
            piece = read_at(descriptor, position - step, step, checkpoint)
            if len(piece) < step:
                raise ToolError(f"{printable(path)} was truncated by another program during the read; try again")
            position -= step
            held += step
            newlines += piece.count(b"\n")
            pieces.append(piece)
    data = b"".join(reversed(pieces))
    closed = data.endswith(b"\n")
    body = data[:-1] if closed else data
    start = len(body)
    for _ in range(min(lines, newlines + 1)):
        start = body.rfind(b"\n", 0, start)
        if start < 0:
            break
    body = body[start + 1 :]
    cut = len(body) > limit or (start < 0 < position)
    if cut:
        body = body[-limit:].lstrip(bytes(range(0x80, 0xC0)))  # not from inside a character
    end = size - 1 if closed else size
    return _text(body, size=size, start=end - len(body), cut=cut)


def read_bytes(sandbox: Sandbox, path: str, *, limit: int, checkpoint: Checkpoint) -> Bytes:
    """A whole file.

    Raises:
        ToolError: as ``read_text``; or the file has more than ``limit`` bytes.
    """
    with sandbox.open_file(path) as (descriptor, status, place):
        if status.st_size <= limit:
            data = read_at(descriptor, 0, limit + 1, checkpoint)
            if len(data) <= limit:
                kind = media_type(os.path.basename(place.real), data[:SNIFFED])
                return Bytes(data=data, mime_type=kind, status=status, place=place)
    raise ToolError(
        f"expected a file of at most {limit} bytes, got {status.st_size}: {printable(path)}; "
        "{tool:read_text_file} reads a part of a text"
    )


def read_at(descriptor: int, offset: int, count: int, checkpoint: Checkpoint) -> bytes:
    """Return at most ``count`` bytes of an opened file from ``offset``."""
    data = bytearray()
    while len(data) < count:
        checkpoint()
        piece = os.pread(descriptor, min(_SLICE, count - len(data)), offset + len(data))
        if not piece:
            break
        data += piece
    return bytes(data)


@contextmanager
def _open_text(sandbox: Sandbox, path: str) -> Iterator[tuple[int, os.stat_result]]:
    with sandbox.open_file(path) as (descriptor, status, place):
        kind = binary_type(os.path.basename(place.real), os.pread(descriptor, _EXAMINED, 0))
        if kind is not None:
            raise ToolError(
                f"expected a text file, got {kind} of {status.st_size} bytes: {printable(path)}; "
                "{tool:read_media_file} returns it as base64"
            )
        yield descriptor, status


def _start_of_line(descriptor: int, number: int, path: str, checkpoint: Checkpoint) -> int:
    """The byte at which the line with this number, from 1, starts."""
    position, newlines = 0, 0
    while newlines < number - 1:
        checkpoint()
        piece = os.pread(descriptor, _SLICE, position)
        if not piece:
            raise ToolError(f"expected a line of {printable(path)}, got {number}; the file has {newlines} line ends")
        at = _nth_newline(piece, number - 1 - newlines)
        if at >= 0:
            return position + at + 1
        newlines += piece.count(b"\n")
        position += len(piece)
    return 0


def _nth_newline(data: bytes, wanted: int) -> int:
    """Return the position of the ``wanted``-th newline, or -1."""
    if data.count(b"\n") < wanted:
        return -1
    at = -1
    for _ in range(wanted):
        at = data.index(b"\n", at + 1)
    return at


def _whole_characters(data: bytes) -> bytes:
    """Drop the beginning of a UTF-8 character whose end was cut off."""
    for back in range(1, min(4, len(data)) + 1):
        byte = data[-back]
        if byte < 0x80:
            return data
        if byte >= 0xC0:
            length = 2 if byte < 0xE0 else 3 if byte < 0xF0 else 4
            return data[:-back] if length > back and len(data) > back else data
    return data


def _whole_lines(data: bytes) -> bytes:
    """Drop a line that was cut off, if that costs less than a fifth; otherwise only a cut character."""
    end = data.rfind(b"\n", len(data) * 4 // 5) + 1
    return data[:end] if end else _whole_characters(data)


def _text(data: bytes, *, size: int, start: int, cut: bool) -> Text:
    try:
        text, replaced = data.decode("utf-8"), False
    except UnicodeDecodeError:
        text, replaced = data.decode("utf-8", "replace"), True
    return Text(text=text, size=size, start=start, end=start + len(data), cut=cut, replaced=replaced)
