"""The folder for data that the commands keep: the shell's history and the list of detached tasks.

Source: XDG Base Directory Specification, "XDG_STATE_HOME".
"""

from __future__ import annotations

import os
from pathlib import Path

__all__ = ["state_folder"]


def state_folder() -> Path:
    """Return ``mcptrio`` in the user's state folder.

    Raises:
        RuntimeError: There is no home folder.
    """
    state = os.environ.get("XDG_STATE_HOME", "")
    # The specification declares relative paths invalid, and tells applications to ignore them.
    folder = Path(state) if os.path.isabs(state) else Path.home() / ".local" / "state"
    return folder / "mcptrio"
