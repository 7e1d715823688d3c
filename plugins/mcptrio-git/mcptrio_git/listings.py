"""Lists and their parsers: search matches, stashes, work trees, remotes, repositories.

The tools that inspect a repository use them.

Source: git-grep(1), git-stash(1), git-worktree(1), git-config(1).
"""

from __future__ import annotations

from msgspec import Struct

from .text import name_text, redact_urls, text_of, truncate

__all__ = [
    "Match",
    "Matches",
    "Remote",
    "Remotes",
    "RepositoryEntry",
    "RepositoryList",
    "Stash",
    "Stashes",
    "Worktree",
    "Worktrees",
    "parse_matches",
    "parse_remotes",
    "parse_stashes",
    "parse_worktrees",
]

_MAX_LINE_CHARS = 300


class Match(Struct, frozen=True, kw_only=True):
    """A line that matches.

    Attributes:
        line: Its number, from 1.
        column: The byte at which the first match begins, from 1.
    """

    path: str
    line: int
    column: int
    text: str


class Matches(Struct, frozen=True, kw_only=True):
    """Matching lines, file by file.

    Attributes:
        truncated: There are more items.
        next_cursor: The cursor of the next page.
    """

    items: tuple[Match, ...]
    truncated: bool
    next_cursor: str | None


class Stash(Struct, frozen=True, kw_only=True):
    """Stashed changes.

    Attributes:
        name: Such as stash@{0}; {tool:git_show} shows its contents. date: ISO 8601.
    """

    name: str
    commit: str
    date: str
    message: str


class Stashes(Struct, frozen=True, kw_only=True):
    """Stashes, newest first.

    Attributes:
        truncated: There are more items.
        next_cursor: The cursor of the next page.
    """

    items: tuple[Stash, ...]
    truncated: bool
    next_cursor: str | None


class Worktree(Struct, frozen=True, kw_only=True):
    """A work tree of the repository.

    Attributes:
        branch: The checked-out branch; null for a detached HEAD or a bare repository.
        commit: The checked-out commit; null for a bare repository.
        locked: Why it must not be removed; empty if no reason was given, null if it is not locked.
        prunable: Why git would prune it; null if it would not.
    """

    path: str
    commit: str | None
    branch: str | None
    bare: bool
    locked: str | None
    prunable: str | None


class Worktrees(Struct, frozen=True, kw_only=True):
    """Work trees, the main one first.

    Attributes:
        truncated: There are more items.
        next_cursor: The cursor of the next page.
    """

    items: tuple[Worktree, ...]
    truncated: bool
    next_cursor: str | None


class Remote(Struct, frozen=True, kw_only=True):
    """A remote of the repository.

    Attributes:
        url: The URL for fetches, without passwords.
        push_url: The URL for pushes, if it differs.
    """

    name: str
    url: str
    push_url: str | None


class Remotes(Struct, frozen=True, kw_only=True):
    """Remotes in order of name.

    Attributes:
        truncated: There are more items.
        next_cursor: The cursor of the next page.
    """

    items: tuple[Remote, ...]
    truncated: bool
    next_cursor: str | None


class RepositoryEntry(Struct, frozen=True, kw_only=True):
    """A repository that may be used."""

    name: str
    path: str


class RepositoryList(Struct, frozen=True, kw_only=True):
    """The repositories that may be used.

    Attributes:
        writable: There are tools that change them.
        truncated: There are more items.
        next_cursor: The cursor of the next page.
    """

    items: tuple[RepositoryEntry, ...]
    writable: bool
    truncated: bool
    next_cursor: str | None


def parse_matches(output: bytes, skip: int, max_count: int) -> list[Match]:
    """Return the matches ``skip`` to ``skip + max_count`` in the output of ``git grep -z -n --column``."""
    matches: list[Match] = []
    for line in output.split(b"\n")[skip : skip + max_count]:
        path, *rest = line.split(b"\0", 3)
        if len(rest) == 3:
            number, column, text = rest
            line_text = truncate(text_of(text).rstrip("\r"), _MAX_LINE_CHARS)
            matches.append(Match(path=name_text(path), line=int(number), column=int(column), text=line_text))
    return matches


def parse_stashes(output: bytes) -> list[Stash]:
    """Return the stashes in an output with ``-z`` and the format ``%gd%x00%H%x00%cI%x00%gs``."""
    fields = output.split(b"\0")[:-1]
    return [
        Stash(
            name=name_text(name),
            commit=name_text(commit),
            date=name_text(date),
            message=truncate(text_of(message), 1000),
        )
        for name, commit, date, message in zip(fields[::4], fields[1::4], fields[2::4], fields[3::4], strict=False)
    ]


def parse_worktrees(output: bytes) -> list[Worktree]:
    """Return the work trees in an output of ``git worktree list --porcelain -z``."""
    trees: list[Worktree] = []
    for block in output.split(b"\0\0"):
        facts: dict[str, str] = {}
        for line in block.split(b"\0"):
            key, _, value = name_text(line).partition(" ")
            facts[key] = value
        if "worktree" in facts:
            branch = facts.get("branch")
            trees.append(
                Worktree(
                    path=facts["worktree"],
                    commit=facts.get("HEAD"),
                    branch=None if branch is None else branch.removeprefix("refs/heads/"),
                    bare="bare" in facts,
                    locked=facts.get("locked"),
                    prunable=facts.get("prunable"),
                )
            )
    return trees


def parse_remotes(output: bytes) -> list[Remote]:
    """Return the remotes in an output of ``git config -z --get-regexp`` for their URLs."""
    urls: dict[str, dict[str, str]] = {}
    for setting in output.split(b"\0")[:-1]:
        key, _, value = name_text(setting).partition("\n")
        name, _, what = key.removeprefix("remote.").rpartition(".")
        urls.setdefault(name, {}).setdefault(what, truncate(redact_urls(value), 1000))
    return [
        Remote(name=name, url=remote_urls.get("url", ""), push_url=remote_urls.get("pushurl"))
        for name, remote_urls in sorted(urls.items())
    ]
