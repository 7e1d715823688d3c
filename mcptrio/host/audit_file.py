"""A host's audit records in a file of JSON lines.

An :class:`AuditFile` is passed to the host as ``audit``. A record is written completely when the call returns.

Source: JSON Lines.
"""

from __future__ import annotations

from pathlib import Path
from types import TracebackType
from typing import Self

import attrs
import orjson

from mcptrio.ground.lines_file import LinesFile
from mcptrio.host.audit import AuditRecord

__all__ = ["AuditFile"]

_MAX_LINE_BYTES = 64 * 1024
"""Bytes of a line. The arguments of a longer record are left out."""
_MAX_TEXT_CHARS = 4 * 1024
"""Characters of the name and of the detail of a record that is too long."""


class AuditFile:
    """Writes each record to a file before the call returns. As a context manager, it closes the file.

    Args:
        path: The file. Its mode is set to 0600.
        max_bytes: The maximum size of the file, at least 65536. A file that would become larger is renamed to
            ``<path>.1``, which replaces an older one, and a new file is begun.

    Raises:
        OSError: The file cannot be opened, or is a symbolic link.
    """

    def __init__(self, path: Path | str, *, max_bytes: int = 16 * 1024 * 1024) -> None:
        if max_bytes < _MAX_LINE_BYTES:
            raise ValueError(f"max_bytes: expected at least {_MAX_LINE_BYTES}, got {max_bytes}")
        self._file = LinesFile(path, max_bytes=max_bytes)

    def __call__(self, record: AuditRecord) -> None:
        """Write a record.

        Raises:
            OSError: The record could not be written completely.
            ValueError: The file is closed.
        """
        self._file.write(_line(record))

    def close(self) -> None:
        """Close the file."""
        self._file.close()

    def __enter__(self) -> Self:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, error: BaseException | None, traceback: TracebackType | None
    ) -> None:
        self.close()


def _line(record: AuditRecord) -> bytes:
    # `default=str`, because an argument that JSON cannot represent must not lose the record.
    line = orjson.dumps(_as_json(record), default=str, option=orjson.OPT_NON_STR_KEYS)
    if len(line) <= _MAX_LINE_BYTES:
        return line
    # The record is kept without its arguments. Otherwise large arguments could hide an action.
    detail = record.detail[:_MAX_TEXT_CHARS] if record.detail is not None else None
    record = attrs.evolve(
        record, name=record.name[:_MAX_TEXT_CHARS], detail=detail, arguments=f"[left out: {len(line)} bytes]"
    )
    return orjson.dumps(_as_json(record))


def _as_json(record: AuditRecord) -> dict[str, object]:
    # attrs.asdict would also convert attrs objects inside the arguments.
    return {name: getattr(record, name) for name in attrs.fields_dict(AuditRecord)} | {
        "at": record.at.isoformat(timespec="milliseconds"),
        "seconds": round(record.seconds, 6),
    }
