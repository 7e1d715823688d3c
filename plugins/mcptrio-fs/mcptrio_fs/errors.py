"""The errors for paths, with texts for a model.

The plugin converts each OSError of the file system with :func:`explain`. A message is one line, and a name from the
disk cannot begin a new line in it.
"""

from __future__ import annotations

import errno
import re

from mcptrio.errors import ToolError

__all__ = ["AccessDenied", "PathNotFound", "explain", "printable"]

_UNPRINTABLE = re.compile(r"[\x00-\x1f\x7f\x80-\x9f\u2028\u2029\ud800-\udfff]")


class AccessDenied(ToolError):
    """The path is outside the allowed folders, or denied inside them."""


class PathNotFound(ToolError):
    """No file or directory exists at this path."""

    def __init__(self, path: str, advice: str = "") -> None:
        super().__init__(f"not found: {printable(path)}{advice}")
        self.path = path


def explain(error: OSError, path: str) -> ToolError:
    """Convert an error of the operating system to one that a model can act on."""
    name = printable(path)
    match error.errno:
        case errno.ENOENT:
            return PathNotFound(path)
        case errno.ENOTDIR:
            return ToolError(f"expected a directory, got something else on the way to {name}")
        case errno.EISDIR:
            return ToolError(f"expected a file, got a directory: {name}")
        case errno.EACCES | errno.EPERM | errno.EROFS:
            return ToolError(f"permission denied by the operating system: {name}")
        case errno.ENOSPC | errno.EDQUOT:
            return ToolError(f"no space left for {name}")
        case errno.ENAMETOOLONG:
            return ToolError(f"the path is too long: {name}")
        case errno.ELOOP:
            return AccessDenied(f"access denied: too many symbolic links on the way to {name}")
        case _:
            return ToolError(f"{error.strerror or type(error).__name__}: {name}")


def printable(text: str, limit: int = 1000) -> str:
    """Return a path or name on one line, with escapes for control characters and for bytes that are not UTF-8."""
    if len(text) > limit:
        text = text[:limit] + "…"
    return _UNPRINTABLE.sub(_escape, text) if _UNPRINTABLE.search(text) else text


def _escape(match: re.Match[str]) -> str:
    code = ord(match[0])
    if 0xDC80 <= code <= 0xDCFF:  # os.fsdecode represents a byte that is not UTF-8 like this
        code -= 0xDC00
    return f"\\x{code:02x}" if code < 0x100 else f"\\u{code:04x}"
