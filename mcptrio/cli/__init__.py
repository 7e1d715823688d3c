"""The command line. Each command has one module, named like the command and imported when it runs."""

from __future__ import annotations

import gc

__all__ = ["main"]


def main() -> None:
    """The entry point of ``mcptrio``, and of a distribution whose program has its own name."""
    # The objects of imports stay in memory. Garbage collection would take a twentieth of a server's start; the group
    # enables it again before the command runs.
    gc.disable()
    from mcptrio.cli import group

    group.main()
