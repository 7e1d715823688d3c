"""Suggests existing names for a path that does not exist.

``FileAccess`` adds the suggestion to the error, so that a model can correct a path without listing the directory.
"""

from __future__ import annotations

import os
from difflib import get_close_matches

from mcptrio.errors import ToolError

from .errors import PathNotFound, printable
from .listing import scan_start
from .reading import Checkpoint
from .sandbox import Sandbox

__all__ = ["suggestion"]

_MAX_LEVELS = 20
"""Maximum number of missing directories above a path for which a suggestion is made."""
_MAX_COMPARED = 2000
"""Maximum number of names of a directory that are compared; each takes about 20 microseconds."""
_MAX_SUGGESTED = 3


def suggestion(sandbox: Sandbox, path: str, checkpoint: Checkpoint) -> str:
    """Return the end of the message for a path that does not exist: its first missing directory, and similar names.

    The names are those that a listing shows.
    """
    folder = sandbox.folder_of(path)
    if not os.path.isdir(folder):
        return f"; the allowed directory {printable(folder)} does not exist"
    missing = path.rstrip("/")
    for level in range(_MAX_LEVELS):
        parent, name = os.path.split(missing)
        if not name:
            return ""
        try:
            entries, _ = scan_start(sandbox, parent or ".", checkpoint=checkpoint)
        except PathNotFound:
            missing = parent
            continue
        except ToolError:
            return ""
        names = {entry.name.lower(): entry.name for entry in entries[:_MAX_COMPARED] if entry.is_directory or not level}
        close = [names[each] for each in get_close_matches(name.lower(), names, _MAX_SUGGESTED)]
        parts = [f"the directory {printable(missing)} does not exist"] if level else []
        if close:
            parts.append(f"did you mean {' or '.join(printable(os.path.join(parent, each)) for each in close)}?")
        return "".join(f"; {part}" for part in parts)
    return ""
