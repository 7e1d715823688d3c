"""The command that runs a module of mcptrio in a new process.

The command line and isolated plugins start such processes.
"""

from __future__ import annotations

import os
import sys

__all__ = ["mcptrio_command"]


def mcptrio_command(*words: str, module: str = "mcptrio") -> list[str]:
    """Return the command that runs a module of mcptrio in a new interpreter.

    Args:
        words: The arguments of the module.
    """
    imports_from_cwd = {"", os.getcwd()} & set(sys.path[:1])
    # Without -P, `-m` would import from the working directory, which may contain any files.
    return [sys.executable, *([] if imports_from_cwd else ["-P"]), "-m", module, *words]
