"""Reads whole files of limited size.

Used for configuration, secrets and arguments. The caller chooses the exception; its text is the same for all callers.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

__all__ = ["read_bytes", "read_text"]


def read_bytes(path: Path, max_bytes: int, error: Callable[[str], Exception]) -> bytes:
    """Return the bytes of a file with at most ``max_bytes`` bytes.

    Args:
        error: Makes the exception to raise from the text of the problem.
    """
    try:
        with path.open("rb") as file:
            # One byte more than allowed shows that there is more, without reading all of it.
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as failure:
        # open() raises ValueError if the path contains NUL.
        why = failure.strerror if isinstance(failure, OSError) else "no path"
        raise error(f"cannot be read: {why}") from failure
    if len(data) > max_bytes:
        raise error(f"expected at most {max_bytes} bytes, got more")
    return data


def read_text(path: Path, max_bytes: int, error: Callable[[str], Exception]) -> str:
    """Return the text of a UTF-8 file, without a byte order mark. See :func:`read_bytes`."""
    try:
        # Editors on Windows begin UTF-8 files with a byte order mark.
        return read_bytes(path, max_bytes, error).decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        # Not chained: the UnicodeDecodeError holds the bytes, which may be a secret.
        raise error(f"expected UTF-8, got other bytes at {failure.start}") from None
