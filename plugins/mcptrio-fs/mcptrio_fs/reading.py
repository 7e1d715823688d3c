"""Reads files as a whole, in parts, or from the end.

The reading tools and the resources call it in a worker thread. No call keeps more than its ``limit`` bytes in memory; a
cut result has the offset at which the next call continues.

A line end at the end of a file does not begin another line.
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
"""A function that the work calls every few milliseconds. It raises if the call was cancelled."""

_CHUNK_BYTES = 256 * 1024
_FIRST_TAIL_BYTES = 16 * 1024
"""Bytes that are read first from the end of a file; they usually contain the requested lines."""
_EXAMINED_BYTES = 8 * 1024
"""Bytes at the beginning of a file that decide whether it is text."""


class Text(Struct, kw_only=True, frozen=True):
    """A part of a text file."""

    text: str
    size: int
    """Size of the whole file in bytes."""

    start: int
    """Offset of the part in bytes."""

    end: int
    """Offset of the end of the part in bytes."""

    cut: bool
    """True if the part does not contain everything that was requested."""

    replaced: bool
    """True if the part contains bytes that are not UTF-8, which are replaced by U+FFFD."""


class Bytes(Struct, kw_only=True, frozen=True):
    """A whole file."""

    data: bytes
    mime_type: str
    status: os.stat_result
    """The status of the file before it was read."""

    location: AllowedPath


def read_text(sandbox: Sandbox, path: str, *, offset: int, limit: int, checkpoint: Checkpoint) -> Text:
    """Return at most ``limit`` bytes of a text file from ``offset``.

    A part that is cut ends after a line end if one is near, else after a whole character.

    Raises:
        ToolError: The path is not a regular file that may be read, or the file is binary.
    """
    with _open_text(sandbox, path) as (descriptor, status):
        data = read_at(descriptor, offset, limit + 1, checkpoint)
        # Files of /proc, and files that grow meanwhile, have more bytes than their status reports.
        size = max(status.st_size, offset + len(data))
    cut = len(data) > limit
    data = _whole_lines(data[:limit]) if cut else data
    return _text(data, size=size, start=offset, cut=cut)


def read_lines(sandbox: Sandbox, path: str, *, first: int, count: int, limit: int, checkpoint: Checkpoint) -> Text:
    """Return ``count`` lines from the line ``first``, without the line end of the last one.

    Args:
        first: The number of a line, from 1.

    Raises:
        ToolError: As ``read_text``; or the file has fewer lines.
    """
    with _open_text(sandbox, path) as (descriptor, status):
        offset = _start_of_line(descriptor, first, path, checkpoint)
        data = bytearray()
        newline_count = 0
        stop = -1
        while stop < 0 and len(data) <= limit:
            checkpoint()
            piece = os.pread(descriptor, min(_CHUNK_BYTES, limit + 1 - len(data)), offset + len(data))
            if not piece:
                break
            stop = _nth_newline(piece, count - newline_count)
            if stop >= 0:
                stop += len(data)
            newline_count += piece.count(b"\n")
            data += piece
        size = max(status.st_size, offset + len(data))
    if 0 <= stop <= limit:
        return _text(bytes(data[:stop]), size=size, start=offset, cut=False)
    cut = len(data) > limit
    content = _whole_lines(bytes(data[:limit])) if cut else bytes(data)
    return _text(content, size=size, start=offset, cut=cut)


def read_tail(sandbox: Sandbox, path: str, *, lines: int, limit: int, checkpoint: Checkpoint) -> Text:
    """Return the last lines, without the line end of the last one.

    Raises:
        ToolError: As ``read_text``.
    """
    with _open_text(sandbox, path) as (descriptor, status):
        size = status.st_size
        position = size
        pieces: list[bytes] = []
        held = newlines = 0
        # The newline before the first requested line must be found too, and a newline may end the last line.
        while position > 0 and newlines < lines + 1 and held <= limit:
            step = min(_FIRST_TAIL_BYTES if not held else _CHUNK_BYTES, position)
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
        body = body[-limit:].lstrip(bytes(range(0x80, 0xC0)))  # drop the rest of a cut UTF-8 character
    end = size - 1 if closed else size
    return _text(body, size=size, start=end - len(body), cut=cut)


def read_bytes(sandbox: Sandbox, path: str, *, limit: int, checkpoint: Checkpoint) -> Bytes:
    """Return a whole file.

    Raises:
        ToolError: The path is not a regular file that may be read, or the file has more than ``limit`` bytes.
    """
    with sandbox.open_file(path) as (descriptor, status, location):
        if status.st_size <= limit:
            data = read_at(descriptor, 0, limit + 1, checkpoint)
            if len(data) <= limit:
                kind = media_type(os.path.basename(location.real), data[:SNIFFED])
                return Bytes(data=data, mime_type=kind, status=status, location=location)
    raise ToolError(
        f"expected a file of at most {limit} bytes, got {status.st_size}: {printable(path)}; "
        "{tool:read_text_file} reads a part of a text"
    )


def read_at(descriptor: int, offset: int, count: int, checkpoint: Checkpoint) -> bytes:
    """Return at most ``count`` bytes of an opened file from ``offset``."""
    data = bytearray()
    while len(data) < count:
        checkpoint()
        piece = os.pread(descriptor, min(_CHUNK_BYTES, count - len(data)), offset + len(data))
        if not piece:
            break
        data += piece
    return bytes(data)


@contextmanager
def _open_text(sandbox: Sandbox, path: str) -> Iterator[tuple[int, os.stat_result]]:
    with sandbox.open_file(path) as (descriptor, status, location):
        kind = binary_type(os.path.basename(location.real), os.pread(descriptor, _EXAMINED_BYTES, 0))
        if kind is not None:
            raise ToolError(
                f"expected a text file, got {kind} of {status.st_size} bytes: {printable(path)}; "
                "{tool:read_media_file} returns it as base64"
            )
        yield descriptor, status


def _start_of_line(descriptor: int, number: int, path: str, checkpoint: Checkpoint) -> int:
    """Return the offset in bytes of the line with this number, counted from 1."""
    position, newlines = 0, 0
    while newlines < number - 1:
        checkpoint()
        piece = os.pread(descriptor, _CHUNK_BYTES, position)
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
    """Drop the incomplete last line if it is less than a fifth of the data, else only an incomplete character."""
    end = data.rfind(b"\n", len(data) * 4 // 5) + 1
    return data[:end] if end else _whole_characters(data)


def _text(data: bytes, *, size: int, start: int, cut: bool) -> Text:
    try:
        text, replaced = data.decode("utf-8"), False
    except UnicodeDecodeError:
        text, replaced = data.decode("utf-8", "replace"), True
    return Text(text=text, size=size, start=start, end=start + len(data), cut=cut, replaced=replaced)
