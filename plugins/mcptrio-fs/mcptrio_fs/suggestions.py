"""Names that are close to a path that does not exist.

Every call in a folder uses it for its error, so that a model corrects a path without listing the directory first.
"""

from __future__ import annotations

import os
from difflib import get_close_matches

from mcptrio.errors import ToolError

from .errors import NotThere, printable
from .listing import scan_start
from .reading import Checkpoint
from .sandbox import Sandbox

__all__ = ["suggestion"]

_MAX_LEVELS = 20
"""Missing directories above a path that are looked at."""
_MAX_COMPARED = 2000
"""Names of a directory that are compared, about 20 microseconds each."""
_MAX_SUGGESTED = 3


def suggestion(sandbox: Sandbox, path: str, checkpoint: Checkpoint) -> str:
    """The rest of the message that a path does not exist: its first missing part, and names that are close to it.

    It contains only names that a listing would show.
    """
    missing = path.rstrip("/")
    for level in range(_MAX_LEVELS):
        above, name = os.path.split(missing)
        if not name:
            return ""
        try:
            entries, _ = scan_start(sandbox, above or ".", checkpoint=checkpoint)
        except NotThere:
            missing = above
            continue
        except ToolError:
            return ""
        names = {entry.name.lower(): entry.name for entry in entries[:_MAX_COMPARED] if entry.is_directory or not level}
        close = [names[each] for each in get_close_matches(name.lower(), names, _MAX_SUGGESTED)]
        parts = [f"the directory {printable(missing)} does not exist"] if level else []
        if close:
            parts.append(f"did you mean {' or '.join(printable(os.path.join(above, each)) for each in close)}?")
        return "".join(f"; {part}" for part in parts)
    return ""
