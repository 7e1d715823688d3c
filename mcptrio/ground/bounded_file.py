"""A file that is read whole, up to a bound in bytes.

For configuration, secrets and arguments. Each problem becomes an error of the caller's kind, in the same words.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

__all__ = ["read_bytes", "read_text"]


def read_bytes(path: Path, max_bytes: int, error: Callable[[str], Exception]) -> bytes:
    """Return the bytes of a file with at most ``max_bytes`` bytes.

    Args:
        error: Makes the exception from the problem.
    """
    try:
        with path.open("rb") as file:
            # One byte more than allowed shows that there is more, without reading all of it.
            data = file.read(max_bytes + 1)
    except (OSError, ValueError) as failure:
        # Python refuses a path with NUL in it with a ValueError.
        why = failure.strerror if isinstance(failure, OSError) else "no path"
        raise error(f"cannot be read: {why}") from failure
    if len(data) > max_bytes:
        raise error(f"expected at most {max_bytes} bytes, got more")
    return data


def read_text(path: Path, max_bytes: int, error: Callable[[str], Exception]) -> str:
    """As :func:`read_bytes`, decoded from UTF-8 without its byte order mark."""
    try:
        # Editors on Windows begin UTF-8 files with a byte order mark.
        return read_bytes(path, max_bytes, error).decode("utf-8-sig")
    except UnicodeDecodeError as failure:
        # The exception holds the bytes, which may be a secret.
        raise error(f"expected UTF-8, got other bytes at {failure.start}") from None
