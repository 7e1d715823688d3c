"""Reads diffs in pages, with the list of changed files.

The tools that show or make changes use it. No programs of the repository run: external diff programs, text conversion
and submodules are switched off.

Source: git-diff(1); gitattributes(5), "Performing text diffs of binary files".
"""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Literal

from msgspec import Struct

from .access import RepositoryWork
from .text import name_text, page_of

__all__ = ["DIFF_OPTIONS", "Diff", "FileChange", "FileStat", "list_staged", "read_diff"]

DIFF_OPTIONS = ("--no-ext-diff", "--no-textconv", "--no-color", "--submodule=short")
"""Options of every command that prints differences."""

_MAX_FILES = 500
_FILE_LIST_BYTES = 128 * 1024
"""Maximum size of the list of files that is read together with a diff; a separate command reads a longer list."""
_FILE_HEADER = r"(?:diff --git .*\n)?index [0-9a-f]+\.\.[0-9a-f]+(?: [0-7]{6})?\n(?=--- )"
"""The lines that git prints above ``---`` and ``+++``, which repeat the file's name. No other line begins like this."""
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
        additions: Lines; null for a binary file.
        deletions: Lines; null for a binary file.
        original_path: The previous path, if it was renamed or copied.
    """

    path: str
    additions: int | None
    deletions: int | None
    original_path: str | None = None


class Diff(Struct, frozen=True, kw_only=True):
    """A diff, or a part of it.

    Attributes:
        diff: The unified diff, without git's lines above ``---``; empty if there is no difference.
        files: The changed files; only with the first part, and at most 500.
        files_truncated: There are more files.
        truncated: There is more of the diff.
        next_offset: The byte at which the next part begins.
    """

    diff: str
    files: tuple[FileStat, ...]
    files_truncated: bool
    truncated: bool
    next_offset: int | None


class FileChange(Struct, frozen=True, kw_only=True):
    """A changed file."""

    path: str
    change: Kind


async def read_diff(
    work: RepositoryWork, command: Sequence[str], paths: Sequence[str], *, start: int, limit: int
) -> Diff:
    """Return a part of a diff.

    Args:
        command: Such as ``("diff", "--cached")``, with ids instead of revisions.
        start: The offset of the part in bytes.
        limit: Maximum size of the text in bytes.
    """
    name, *options = command
    if start == 0:
        both = await work.git(
            name, "--numstat", "--patch", "-z", *DIFF_OPTIONS, *options, "--", *paths, limit=limit + _FILE_LIST_BYTES
        )
        counted, patch = _split_numstat(both.stdout)
        if counted is not None and (len(patch) >= limit or not both.cut):
            return _diff(patch[:limit], counted, start=0, cut=both.cut or len(patch) > limit)
    output = await work.git(name, "--patch", *DIFF_OPTIONS, *options, "--", *paths, skip=start, limit=limit)
    stats = b""
    if start == 0 and output.stdout:
        # --unified would print the diff again.
        counting = (option for option in options if not option.startswith("--unified="))
        stats = (await work.git(name, "--numstat", "-z", *DIFF_OPTIONS, *counting, "--", *paths)).stdout
    return _diff(output.stdout, stats, start=start, cut=output.cut)


async def list_staged(work: RepositoryWork) -> list[FileChange]:
    """Return the changes that a commit would contain."""
    output = await work.git(
        "diff", "--cached", "--name-status", "-z", "--no-renames", "--ignore-submodules=dirty", *DIFF_OPTIONS
    )
    fields = output.stdout.split(b"\0")[:-1]
    return [
        FileChange(path=name_text(path), change=_KINDS.get(name_text(letter)[:1], "unknown"))
        for letter, path in zip(fields[::2], fields[1::2], strict=False)
    ]


def _split_numstat(output: bytes) -> tuple[bytes | None, bytes]:
    """Split an output of ``--numstat --patch -z`` into the list of files, which ends with an empty field, and the diff.

    The list is None if it is incomplete, or if there are conflicts, for which git prints no list.
    """
    if not output:
        return b"", b""
    position = 0
    while match := re.compile(_COUNTED).match(output, position):
        fields = 1
        if output[match.end() : match.end() + 1] == b"\0":  # renamed: the two paths follow
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
        diff=_without_file_headers(page.text, start),
        files=tuple(files[:_MAX_FILES]),
        files_truncated=len(files) > _MAX_FILES,
        truncated=cut,
        next_offset=page.next_offset,
    )


def _without_file_headers(patch: str, start: int) -> str:
    """Remove the lines that only repeat the name of a file and the ids of its two versions."""
    # A later part may begin within a line, whose rest could look like a header.
    return re.sub(("^" if start == 0 else r"(?<=\n)") + _FILE_HEADER, "", patch, flags=re.MULTILINE)


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
                path=name_text(path),
                additions=None if added == b"-" else int(added),
                deletions=None if deleted == b"-" else int(deleted),
                original_path=None if original is None else name_text(original),
            )
        )
    return files
