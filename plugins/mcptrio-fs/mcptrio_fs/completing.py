"""Completes paths.

Called for ``file:///{+path}``, in a worker thread. Only paths that may be opened are suggested.

Source: MCP 2026-07-28, server/utilities/completion; mcptrio ranks the suggestions and cuts them to 100.
"""

from __future__ import annotations

import os

from .errors import AccessDenied, NotThere, printable
from .listing import scan_start
from .reading import Checkpoint
from .sandbox import Sandbox

__all__ = ["MAX_PROPOSALS", "complete_path"]

MAX_PROPOSALS = 1000
"""More than this is not ranked: a person types another letter."""


def complete_path(sandbox: Sandbox, typed: str, *, checkpoint: Checkpoint) -> list[str]:
    """Return the paths that start with ``typed``, sorted.

    Args:
        typed: a path, with or without its first slash; the results have the same form. Directories end in a slash.
    """
    absolute = "/" + typed.lstrip("/")
    dropped = 0 if typed.startswith("/") else 1
    above, start = os.path.split(absolute)
    proposals = {folder.path + "/" for folder in sandbox.folders if folder.path.startswith(absolute)}
    try:
        entries, _ = scan_start(sandbox, above, checkpoint=checkpoint)
    except (AccessDenied, NotThere):
        entries = []
    for entry in entries:
        if entry.name.startswith(start) and printable(entry.name) == entry.name:
            proposals.add(os.path.join(above, entry.name) + ("/" if entry.is_directory else ""))
    return [path[dropped:] for path in sorted(proposals)[:MAX_PROPOSALS]]
