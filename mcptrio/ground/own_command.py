"""The command that runs a module of mcptrio in a new process.

The command line and isolated plugins start such processes.
"""

from __future__ import annotations

import os
import sys

__all__ = ["own_command"]


def own_command(*words: str, module: str = "mcptrio") -> list[str]:
    """Return the command of a module of ours in a new interpreter.

    With ``-P``, unless this process imports from the current folder as well: ``-m`` alone would import from there.
    """
    from_here = {"", os.getcwd()} & set(sys.path[:1])
    return [sys.executable, *([] if from_here else ["-P"]), "-m", module, *words]
