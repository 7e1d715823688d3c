"""Parses ``git status``.

The status tool and resource use it. In porcelain version 2 with ``-z``, paths are not quoted. Unknown kinds of lines
are skipped, as the format requires.

Source: git-status(1), "Porcelain Format Version 2".
"""

from __future__ import annotations

import os
from typing import Literal

from attrs import frozen
from msgspec import Struct

from .text import name_text

__all__ = ["STATUS", "Operation", "ParsedStatus", "Status", "StatusEntry", "operation_of", "parse_status"]

STATUS = ("status", "--porcelain=v2", "-z", "--branch", "--show-stash", "--ignore-submodules=dirty", "--no-column")
"""The arguments of ``git status`` that precede the option for untracked files."""

State = Literal["unmodified", "modified", "type_changed", "added", "deleted", "renamed", "copied", "unmerged"]
Kind = Literal["tracked", "unmerged", "untracked", "ignored"]
Operation = Literal["none", "merge", "rebase", "cherry-pick", "revert", "bisect"]

_OPERATIONS: tuple[tuple[str, Operation], ...] = (
    ("rebase-merge", "rebase"),
    ("rebase-apply", "rebase"),
    ("MERGE_HEAD", "merge"),
    ("CHERRY_PICK_HEAD", "cherry-pick"),
    ("REVERT_HEAD", "revert"),
    ("BISECT_LOG", "bisect"),
)

_STATES: dict[str, State] = {
    ".": "unmodified",
    "M": "modified",
    "T": "type_changed",
    "A": "added",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "U": "unmerged",
}


class StatusEntry(Struct, frozen=True, kw_only=True):
    """A path that differs from the last commit.

    Attributes:
        staged: The change in the index against the last commit.
        unstaged: The change in the work tree against the index.
        original_path: The earlier path, if it was renamed or copied.
    """

    path: str
    kind: Kind
    staged: State
    unstaged: State
    original_path: str | None = None


class Status(Struct, frozen=True, kw_only=True):
    """The state of a work tree.

    Attributes:
        branch: The checked-out branch; null for a detached HEAD.
        commit: The last commit; null before the first.
        upstream: The branch that it follows, such as origin/main.
        ahead: Commits that the upstream does not have.
        behind: Commits that only the upstream has.
        stashes: The number of stashes.
        operation: An operation in progress, to be finished or aborted.
        clean: Nothing is changed and nothing is untracked.
        truncated: There are more items.
        next_cursor: The cursor of the next page.
    """

    branch: str | None
    commit: str | None
    upstream: str | None
    ahead: int | None
    behind: int | None
    stashes: int
    operation: Operation
    clean: bool
    items: tuple[StatusEntry, ...]
    truncated: bool
    next_cursor: str | None


@frozen(kw_only=True, eq=False, repr=False)
class ParsedStatus:
    """The parsed output of ``STATUS``, before it is split into pages."""

    headers: dict[str, str]
    entries: list[StatusEntry]


def parse_status(output: bytes) -> ParsedStatus:
    """Parse an output of ``STATUS``. An incomplete entry at its end is dropped."""
    fields = output.split(b"\0")[:-1]
    headers: dict[str, str] = {}
    entries: list[StatusEntry] = []
    index = 0
    while index < len(fields):
        field = name_text(fields[index])
        index += 1
        kind, _, rest = field.partition(" ")
        if kind == "#":
            name, _, value = rest.partition(" ")
            headers[name] = value
        elif kind == "1":
            states, *_, path = rest.split(" ", 7)
            entries.append(_tracked_entry(path, states))
        elif kind == "2":
            if index == len(fields):
                break
            states, *_, path = rest.split(" ", 8)
            entries.append(_tracked_entry(path, states, name_text(fields[index])))
            index += 1
        elif kind == "u":
            states, *_, path = rest.split(" ", 9)
            entries.append(_tracked_entry(path, states, kind="unmerged"))
        elif kind in ("?", "!"):
            entries.append(
                StatusEntry(
                    path=rest,
                    kind="untracked" if kind == "?" else "ignored",
                    staged="unmodified",
                    unstaged="unmodified",
                )
            )
    return ParsedStatus(headers=headers, entries=entries)


def _tracked_entry(path: str, states: str, original: str | None = None, kind: Kind = "tracked") -> StatusEntry:
    return StatusEntry(
        path=path,
        kind=kind,
        staged=_STATES.get(states[:1], "modified"),
        unstaged=_STATES.get(states[1:2], "modified"),
        original_path=original,
    )


def operation_of(git_dir: str) -> Operation:
    """Return the operation in progress. Blocks on the file system."""
    for file, name in _OPERATIONS:
        if os.path.exists(os.path.join(git_dir, file)):
            return name
    return "none"
