"""What a command has written to one stream: the beginning and the end, and how much was between them.

Filled by the process, read by the tools. The one rule: it never holds more than its bound (and as much again for a
moment); what falls out is the middle, and is counted.
"""

from __future__ import annotations

from attrs import define, field, frozen

__all__ = ["Piece", "Tape"]


@frozen(kw_only=True)
class Piece:
    """A part of what was written."""

    data: bytes
    start: int
    """Where it begins, counted in bytes from the beginning of the stream."""
    skipped_bytes: int = 0
    """How much was asked for and is not kept, before this piece."""

    @property
    def end(self) -> int:
        return self.start + len(self.data)


@define
class Tape:
    """The output of one stream."""

    limit: int
    """Bytes kept: half of them from the beginning, half to the end."""
    total: int = 0
    """Bytes written."""
    lines: int = 0
    """Line ends written."""
    _head: bytearray = field(init=False, factory=bytearray)
    _tail: bytearray = field(init=False, factory=bytearray)

    def write(self, data: bytes) -> None:
        """Append."""
        self.total += len(data)
        self.lines += data.count(b"\n")
        room = self.limit // 2 - len(self._head)
        if room > 0:
            self._head += data[:room]
            data = data[room:]
        self._tail += data
        half = self.limit // 2
        # Twice as much is let in before it is cut, so that each byte is moved once and not with every write.
        if len(self._tail) > 2 * half:
            del self._tail[:-half]

    @property
    def kept_from(self) -> int:
        """Where the kept end begins; before it, from the end of the kept beginning on, nothing is kept."""
        return self.total - len(self._tail)

    def read(self, start: int, limit: int) -> Piece:
        """At most ``limit`` bytes from ``start`` on; from where something is kept again, if there nothing is."""
        start = max(0, min(start, self.total))
        if start < len(self._head):
            return Piece(data=bytes(self._head[start : start + limit]), start=start)
        begin = max(start, self.kept_from)
        at = begin - self.kept_from
        return Piece(data=bytes(self._tail[at : at + limit]), start=begin, skipped_bytes=begin - start)

    def ends(self, limit: int) -> tuple[Piece, Piece]:
        """The beginning and the end, together at most ``limit`` bytes; all of it where that is enough."""
        if self.total <= limit and self.kept_from == len(self._head):
            return Piece(data=bytes(self._head + self._tail), start=0), Piece(data=b"", start=self.total)
        half = limit // 2
        first = Piece(data=bytes(self._head[:half]), start=0)
        begin = max(self.total - half, self.kept_from, first.end)
        return first, self.read(begin, half)

    def last_line(self, limit: int) -> str:
        """The last line with something in it, for people; at most ``limit`` characters."""
        end = bytes((self._tail or self._head)[-4 * limit :]).decode("utf-8", "replace")
        line = next((line for line in reversed(end.splitlines()) if line.strip()), "")
        shown = "".join(character if character.isprintable() else "·" for character in line.strip())
        return shown if len(shown) <= limit else f"{shown[: limit - 1]}…"
