"""A CSV file of limited size, which contains only complete rows.

The job that exports rows fills it in a child process.

Source: RFC 4180.
"""

from __future__ import annotations

from typing import Any

from attrs import frozen

__all__ = ["CsvFile", "Exported"]


@frozen(kw_only=True)
class Exported:
    """The content of a file. If ``has_more`` is true, further rows need another file."""

    columns: tuple[str, ...]
    text: str
    rows: int
    """Rows without the header."""
    size: int
    """Size in bytes."""
    has_more: bool


class CsvFile:
    """Collects lines up to ``max_bytes``."""

    def __init__(self, *, delimiter: str, max_bytes: int) -> None:
        self._delimiter = delimiter
        self._max_bytes = max_bytes
        self.lines: list[str] = []
        self.size = 0

    def add(self, row: tuple[Any, ...]) -> bool:
        """Add a line; return False if it does not fit."""
        line = self._delimiter.join(self._field(value) for value in row) + "\r\n"
        size = len(line.encode())
        if self.size + size > self._max_bytes:
            return False
        self.size += size
        self.lines.append(line)
        return True

    # Before Python 3.12, the csv module cannot distinguish NULL from an empty text.
    def _field(self, value: Any) -> str:
        """Return a field: NULL is empty, an empty text is ``""``, and a blob is SQL's ``X'…'``."""
        if value is None:
            return ""
        if isinstance(value, bytes):
            return f"X'{value.hex().upper()}'"
        if not isinstance(value, str):
            return repr(value)  # the shortest text that reads back as the same number
        # Some readers strip white space at the ends of a field that is not quoted.
        if not value or any(sign in value for sign in (self._delimiter, '"', "\r", "\n")) or value.strip() != value:
            escaped = value.replace('"', '""')
            return f'"{escaped}"'
        return value
