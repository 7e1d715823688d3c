"""A CSV file of limited size.

Jobs fill it in a child process, with complete rows only.

Source: RFC 4180.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

__all__ = ["CsvFile", "Exported"]


@frozen(kw_only=True)
class Exported:
    """A file, and whether there are more rows."""

    columns: tuple[str, ...]
    text: str
    rows: int
    """Rows without the header."""
    size: int
    """Size in bytes."""
    has_more: bool


class CsvFile:
    """Collects the lines of a file."""

    def __init__(self, *, delimiter: str, most: int) -> None:
        self._delimiter = delimiter
        self._most = most
        self.lines: list[str] = []
        self.size = 0

    def add(self, row: tuple[Any, ...]) -> bool:
        """Add a line; return False if it does not fit."""
        line = self._delimiter.join(self._field(value) for value in row) + "\r\n"
        size = len(line.encode())
        if self.size + size > self._most:
            return False
        self.size += size
        self.lines.append(line)
        return True

    # The csv module cannot distinguish NULL from an empty text before Python 3.12: NULL is an empty field, an empty
    # text is "", a blob is SQL's X'…'.
    def _field(self, value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, bytes):
            return f"X'{value.hex().upper()}'"
        if not isinstance(value, str):
            return repr(value)  # the shortest text that reads back as the same number
        # Quoted also for white space at the ends, which some readers strip.
        if not value or any(sign in value for sign in (self._delimiter, '"', "\r", "\n")) or value.strip() != value:
            escaped = value.replace('"', '""')
            return f'"{escaped}"'
        return value
