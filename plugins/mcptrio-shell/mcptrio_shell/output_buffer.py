"""A buffer that keeps the beginning and the end of one stream, and counts the omitted middle.

The process writes to the buffer, and the tools read it. It holds at most one and a half times ``limit`` bytes.
"""

from __future__ import annotations

from attrs import define, field, frozen

__all__ = ["OutputBuffer", "OutputPart"]


@frozen(kw_only=True)
class OutputPart:
    """A part of the output."""

    data: bytes
    start: int
    """Offset in bytes from the beginning of the stream."""
    skipped_bytes: int = 0
    """Requested bytes before this part that were omitted."""

    @property
    def end(self) -> int:
        return self.start + len(self.data)


@define
class OutputBuffer:
    """The output of one stream."""

    limit: int
    """Bytes kept: half from the beginning, half from the end."""
    total: int = 0
    """Bytes written."""
    lines: int = 0
    """Line ends written."""
    _head: bytearray = field(init=False, factory=bytearray)
    _tail: bytearray = field(init=False, factory=bytearray)

    def write(self, data: bytes) -> None:
        """Append output."""
        self.total += len(data)
        self.lines += data.count(b"\n")
        room = self.limit // 2 - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        half = self.limit // 2
        # Cutting only at twice the size moves each byte once; cutting at each write would move the whole end.
        if len(self._tail) > 2 * half:
            del self._tail[:-half]

    @property
    def kept_from(self) -> int:
        """Offset at which the kept end starts. Bytes between the kept beginning and this offset are omitted."""
        return self.total - len(self._tail)

    def read(self, start: int, limit: int) -> OutputPart:
        """Return at most ``limit`` bytes from ``start``, or from the next offset that is kept."""
        start = max(0, min(start, self.total))
        if start < len(self._head):
            return OutputPart(data=bytes(self._head[start : start + limit]), start=start)
        begin = max(start, self.kept_from)
        at = begin - self.kept_from
        return OutputPart(data=bytes(self._tail[at : at + limit]), start=begin, skipped_bytes=begin - start)

    def ends(self, limit: int) -> tuple[OutputPart, OutputPart]:
        """Return the beginning and the end, together at most ``limit`` bytes. Short output is all in the beginning."""
        if self.total <= limit and self.kept_from == len(self._head):
            return OutputPart(data=bytes(self._head + self._tail), start=0), OutputPart(data=b"", start=self.total)
        half = limit // 2
        first = OutputPart(data=bytes(self._head[:half]), start=0)
        begin = max(self.total - half, self.kept_from, first.end)
        return first, self.read(begin, half)

    def last_line(self, limit: int) -> str:
        """Return the last line that is not blank as printable text, at most ``limit`` characters."""
        # A UTF-8 character has at most four bytes, so these bytes hold at least ``limit`` characters.
        end = bytes((self._tail or self._head)[-4 * limit :]).decode("utf-8", "replace")
        line = next((line for line in reversed(end.splitlines()) if line.strip()), "")
        text = "".join(character if character.isprintable() else "·" for character in line.strip())
        return text if len(text) <= limit else f"{text[: limit - 1]}…"
