"""A CSV file that grows up to a size.

Filled in a child. The one rule: values are whole, or the row is not in the file.

Source: RFC 4180. The standard library's writer cannot tell NULL from an empty text before Python 3.12, so fields are
written here: NULL is an empty field, an empty text is ``""``, a blob is SQL's ``X'…'``.
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
    """Without the header."""
    size: int
    """Bytes."""
    has_more: bool


class CsvFile:
    """Lines of a file."""

    def __init__(self, *, delimiter: str, most: int) -> None:
        self._delimiter = delimiter
        self._most = most
        self.lines: list[str] = []
        self.size = 0

    def add(self, row: tuple[Any, ...]) -> bool:
        """Add a line; returns whether there was room for it."""
        line = self._delimiter.join(self._field(value) for value in row) + "\r\n"
        size = len(line.encode())
        if self.size + size > self._most:
            return False
        self.size += size
        self.lines.append(line)
        return True

    def _field(self, value: Any) -> str:
        if value is None:
            return ""
        if isinstance(value, bytes):
            return f"X'{value.hex().upper()}'"
        if not isinstance(value, str):
            return repr(value)  # the shortest text that is this number again
        if not value or any(sign in value for sign in (self._delimiter, '"', "\r", "\n")) or value.strip() != value:
            escaped = value.replace('"', '""')
            return f'"{escaped}"'
        return value
