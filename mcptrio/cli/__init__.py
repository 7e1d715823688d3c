"""The command line. Each command has one module, named like the command and imported when it runs."""

from __future__ import annotations

__all__ = ["main"]


def main() -> None:
    """The entry point of ``mcptrio``, and of a distribution whose program has its own name."""
    from mcptrio.cli import group

    group.main()
