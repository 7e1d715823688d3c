"""Diffs: the text in pages, and the changed files.

The tools that show or make changes use it. No program of the repository runs: no external diff, no text conversion, and
nothing in submodules.

Source: git-diff(1); gitattributes(5), "Performing text diffs of binary files".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from .access import RepositoryWork
from .text import named, page_of

__all__ = ["PLAIN", "Diff", "FileChange", "FileStat", "list_staged", "read_diff"]

PLAIN = ("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short")
"""For every command that prints differences."""

_MAX_FILES = 500
_ROOM = 128 * 1024
"""Bytes of the list of files that are read together with a diff; a longer list is read by a separate command."""
_HEAD = r"(?:diff --git .*\n)?index [0-9a-f]+\.\.[0-9a-f]+(?: [0-7]{6})?\n(?=--- )"
"""What git prints above ``---`` and ``+++``, which name the file again. In a diff no other line begins like this."""
_COUNTED = rb"(?:\d+|-)\t(?:\d+|-)\t"

Kind = Literal["added", "modified", "deleted", "renamed", "copied", "type_changed", "unmerged", "unknown"]
_KINDS: dict[str, Kind] = {
    "A": "added",
    "M": "modified",
    "D": "deleted",
    "R": "renamed",
    "C": "copied",
    "T": "type_changed",
    "U": "unmerged",
}


class FileStat(Struct, frozen=True, kw_only=True):
    """The changes of one file.

    Attributes:
        additions: lines; null for a binary file.
        deletions: lines; null for a binary file.
        original_path: the previous path, if it was renamed or copied.
    """

    path: str
    additions: int | None
    deletions: int | None
    original_path: str | None = None


class Diff(Struct, frozen=True, kw_only=True):
    """A diff, or a part of it.

    Attributes:
        diff: the unified diff, without git's lines above ``---``; empty if there is no difference.
        files: the changed files; only with the first part, and at most 500.
        files_truncated: there are more files.
        truncated: there is more of the diff.
        next_offset: the byte at which the next part begins.
    """

    diff: str
    files: tuple[FileStat, ...]
    files_truncated: bool
    truncated: bool
    next_offset: int | None


class FileChange(Struct, frozen=True, kw_only=True):
    """A file that is not as it was."""

    path: str
    change: Kind


async def read_diff(
    work: RepositoryWork, command: Sequence[str], paths: Sequence[str], *, start: int, limit: int
) -> Diff:
    """A piece of a diff.

    Args:
        command: such as ``("diff", "--cached")``, with ids in the place of revisions.
        start: the byte at which it begins.
        limit: The maximum size of the text in bytes.
    """
    name, *options = command
    if start == 0:
        both = await work.git(name, "--numstat", "--patch", "-z", *PLAIN, *options, "--", *paths, limit=limit + _ROOM)
        counted, patch = _divided(both.stdout)
        if counted is not None and (len(patch) >= limit or not both.cut):
            return _diff(patch[:limit], counted, start=0, cut=both.cut or len(patch) > limit)
    output = await work.git(name, "--patch", *PLAIN, *options, "--", *paths, skip=start, limit=limit)
    stats = b""
    if start == 0 and output.stdout:
        counting = (option for option in options if not option.startswith("--unified="))  # which asks for a diff
        stats = (await work.git(name, "--numstat", "-z", *PLAIN, *counting, "--", *paths)).stdout
    return _diff(output.stdout, stats, start=start, cut=output.cut)


async def list_staged(work: RepositoryWork) -> list[FileChange]:
    """Return the changes that a commit would contain."""
    output = await work.git(
        "diff", "--cached", "--name-status", "-z", "--no-renames", "--ignore-submodules=dirty", *PLAIN
    )
    fields = output.stdout.split(b"\0")[:-1]
    return [
        FileChange(path=named(path), change=_KINDS.get(named(letter)[:1], "unknown"))
        for letter, path in zip(fields[::2], fields[1::2], strict=False)
    ]


def _divided(output: bytes) -> tuple[bytes | None, bytes]:
    """An output of ``--numstat --patch -z``: the list of files, which ends in an empty field, and the diff. The list
    is None if it is incomplete, and with conflicts, because git then prints the diff without it."""
    if not output:
        return b"", b""
    position = 0
    while found := re.compile(_COUNTED).match(output, position):
        fields = 1
        if output[found.end() : found.end() + 1] == b"\0":  # renamed: the two paths follow
            fields = 3
        for _ in range(fields):
            position = output.find(b"\0", position) + 1
            if not position:
                return None, b""
        if output[position : position + 1] == b"\0":
            return output[:position], output[position + 1 :]
    return None, b""


def _diff(patch: bytes, stats: bytes, *, start: int, cut: bool) -> Diff:
    page = page_of(patch, start=start, cut=cut)
    files = _parse_numstat(stats)
    return Diff(
        diff=_without_heads(page.text, start),
        files=tuple(files[:_MAX_FILES]),
        files_truncated=len(files) > _MAX_FILES,
        truncated=cut,
        next_offset=page.next_offset,
    )


def _without_heads(patch: str, start: int) -> str:
    """Leave out the lines that only repeat the names of a file and of its two versions."""
    # A later part may begin within a line, whose end is content.
    return re.sub(("^" if start == 0 else r"(?<=\n)") + _HEAD, "", patch, flags=re.MULTILINE)


def _parse_numstat(output: bytes) -> list[FileStat]:
    fields = output.split(b"\0")[:-1]
    files: list[FileStat] = []
    index = 0
    while index < len(fields):
        added, _, rest = fields[index].partition(b"\t")
        deleted, _, path = rest.partition(b"\t")
        index += 1
        original = None
        if not path:  # renamed: the two paths follow
            if index + 2 > len(fields):
                break
            original, path = fields[index], fields[index + 1]
            index += 2
        files.append(
            FileStat(
                path=named(path),
                additions=None if added == b"-" else int(added),
                deletions=None if deleted == b"-" else int(deleted),
                original_path=None if original is None else named(original),
            )
        )
    return files
