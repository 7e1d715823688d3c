"""The common parts of checkout, merge, revert and cherry-pick, which move HEAD and may fail with conflicts.

The tools that change branches use them.
"""

from __future__ import annotations

import trio
from msgspec import Struct

from .access import RepositoryWork
from .environment import Kind
from .rendering import short
from .text import name_text, printable

__all__ = ["MovedHead", "abort_on_conflicts", "conflicts_text", "moved_head", "moved_text"]

_ABORT_TIMEOUT = 30.0
"""Seconds for aborting an operation, even if the call is cancelled."""
_MAX_CONFLICTS = 50
"""Maximum number of files with conflicts in an error message."""


class MovedHead(Struct, frozen=True, kw_only=True):
    """The place of HEAD after a change.

    Attributes:
        branch: The present branch; null for a detached HEAD.
        commit: Null before the first commit.
        previous_branch: The branch before; null for a detached HEAD.
        previous_commit: The commit before.
        output: Messages of git and the hooks.
    """

    branch: str | None
    commit: str | None
    previous_branch: str | None
    previous_commit: str | None
    output: str


async def moved_head(work: RepositoryWork, before: tuple[str | None, str | None], output: str) -> MovedHead:
    """Return the current place of HEAD.

    Args:
        before: The previous branch and commit.
        output: The messages of git.
    """
    branch, commit = await work.head()
    return MovedHead(branch=branch, commit=commit, previous_branch=before[0], previous_commit=before[1], output=output)


def moved_text(result: MovedHead) -> str:
    """Return the place of HEAD and the messages of git."""
    where = f"on {printable(result.branch)}" if result.branch else "detached HEAD"
    return f"{where} at {short(result.commit)}\n{result.output}".rstrip()


async def abort_on_conflicts(work: RepositoryWork, *undo: str, always: bool = False) -> list[str]:
    """Undo a failed command if it has caused conflicts, and return the files with conflicts.

    Args:
        undo: The git command that undoes it.
        always: Undo it even without conflicts, for example if a hook has refused the commit.
    """
    conflicts: list[str] = []
    # A cancellation must not leave an incomplete change.
    with trio.move_on_after(_ABORT_TIMEOUT, shield=True):
        listed = await work.git("diff", "--name-only", "--diff-filter=U", "-z", kind=Kind.READ)
        conflicts = [printable(name_text(path), 300) for path in listed.stdout.split(b"\0")[:-1]]
        if conflicts or always:
            await work.git(*undo)
    return conflicts


def conflicts_text(command: str, revision: str, conflicts: list[str]) -> str:
    """Return the error message for a command that was aborted."""
    more = f" and {len(conflicts) - _MAX_CONFLICTS} more" if len(conflicts) > _MAX_CONFLICTS else ""
    return (
        f"{printable(revision, 200)} conflicts in {', '.join(conflicts[:_MAX_CONFLICTS])}{more}; "
        f"the {command} was aborted and nothing has changed"
    )
