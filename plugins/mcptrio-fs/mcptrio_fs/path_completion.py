"""Completes the path of ``file:///{+path}``.

The resources call it in a worker thread. Only paths in the allowed folders are suggested.

Source: MCP 2026-07-28, server/utilities/completion; mcptrio ranks the suggestions and cuts them to 100.
"""

from __future__ import annotations

import os

from .errors import AccessDenied, PathNotFound, printable
from .listing import scan_start
from .reading import Checkpoint
from .sandbox import Sandbox

__all__ = ["MAX_COMPLETIONS", "complete_path"]

MAX_COMPLETIONS = 1000
"""Maximum number of paths that mcptrio ranks. A person who sees none of them types another letter."""


def complete_path(sandbox: Sandbox, typed: str, *, checkpoint: Checkpoint) -> list[str]:
    """Return the paths that start with ``typed``, sorted.

    Args:
        typed: The beginning of a path, with or without its first slash. The results have the same form; directories
            end in a slash.
    """
    absolute = "/" + typed.lstrip("/")
    dropped = 0 if typed.startswith("/") else 1
    parent, start = os.path.split(absolute)
    proposals = {folder.path + "/" for folder in sandbox.folders if folder.path.startswith(absolute)}
    try:
        entries, _ = scan_start(sandbox, parent, checkpoint=checkpoint)
    except (AccessDenied, PathNotFound):
        entries = []
    for entry in entries:
        if entry.name.startswith(start) and printable(entry.name) == entry.name:
            proposals.add(os.path.join(parent, entry.name) + ("/" if entry.is_directory else ""))
    return [path[dropped:] for path in sorted(proposals)[:MAX_COMPLETIONS]]
