"""Lists branches and tags.

The tools and the completions use it. ``for-each-ref`` separates references and their fields with line ends and NUL,
which neither the name of a reference nor a subject can contain.

Source: git-for-each-ref(1).
"""

from __future__ import annotations

from typing import Literal

from msgspec import Struct

from .access import RepositoryWork
from .text import name_text, text_of, truncate

__all__ = ["Branch", "Branches", "Tag", "Tags", "list_branches", "list_tags", "reference_names"]

_BRANCH = (
    "%(refname)",
    "%(refname:short)",
    "%(HEAD)",
    "%(objectname)",
    "%(upstream:short)",
    "%(upstream:track,nobracket)",
    "%(committerdate:iso-strict)",
    "%(symref)",
    "%(contents:subject)",
)
_TAG = (
    "%(refname:strip=2)",
    "%(objectname)",
    "%(*objectname)",
    "%(objecttype)",
    "%(creatordate:iso-strict)",
    "%(taggername)",
    "%(contents:subject)",
)


class Branch(Struct, frozen=True, kw_only=True):
    """A branch.

    Attributes:
        kind: Local, or the last fetched state of a remote's branch.
        commit: The id of its newest commit.
        date: The time of that commit, ISO 8601.
        upstream: The branch that it follows.
        tracking: Such as "ahead 1, behind 2", or "gone"; empty if they are equal.
    """

    name: str
    kind: Literal["local", "remote"]
    current: bool
    commit: str
    date: str
    subject: str
    upstream: str | None
    tracking: str


class Branches(Struct, frozen=True, kw_only=True):
    """Branches in order of name.

    Attributes:
        current: The checked-out branch; null for a detached HEAD.
        head: The checked-out commit; null before the first.
        truncated: There are more items.
        next_cursor: The cursor of the next page.
    """

    current: str | None
    head: str | None
    items: tuple[Branch, ...]
    truncated: bool
    next_cursor: str | None


class Tag(Struct, frozen=True, kw_only=True):
    """A tag.

    Attributes:
        target: The id of the tagged object, usually a commit.
        annotated: It has its own message; tagger and subject are then the tag's.
        date: Date of the tag, or of the commit if it is not annotated. ISO 8601.
    """

    name: str
    target: str
    annotated: bool
    date: str
    tagger: str | None
    subject: str


class Tags(Struct, frozen=True, kw_only=True):
    """Tags, newest first.

    Attributes:
        truncated: There are more items.
        next_cursor: The cursor of the next page.
    """

    items: tuple[Tag, ...]
    truncated: bool
    next_cursor: str | None


async def list_branches(work: RepositoryWork, prefixes: tuple[str, ...], conditions: tuple[str, ...]) -> list[Branch]:
    """Return all branches below ``refs/heads`` or ``refs/remotes``.

    Args:
        conditions: Options such as ``--contains=<id>``.
    """
    branches: list[Branch] = []
    for full, name, head, commit, upstream, tracking, date, symref, subject in await _rows(
        work, _BRANCH, *conditions, *prefixes
    ):
        if symref:  # a symbolic reference such as refs/remotes/origin/HEAD is another name of a listed branch
            continue
        branches.append(
            Branch(
                name=name_text(name),
                kind="local" if full.startswith(b"refs/heads/") else "remote",
                current=head == b"*",
                commit=name_text(commit),
                date=name_text(date),
                subject=truncate(text_of(subject), 1000),
                upstream=name_text(upstream) or None,
                tracking=name_text(tracking),
            )
        )
    return branches


async def list_tags(work: RepositoryWork) -> list[Tag]:
    """Return all tags."""
    return [
        Tag(
            name=name_text(name),
            target=name_text(peeled or object),
            annotated=kind == b"tag",
            date=name_text(date),
            tagger=truncate(text_of(tagger), 500) or None,
            subject=truncate(text_of(subject), 1000),
        )
        for name, object, peeled, kind, date, tagger, subject in await _rows(
            work, _TAG, "--sort=-creatordate", "refs/tags"
        )
    ]


async def reference_names(work: RepositoryWork, *prefixes: str, max_count: int = 2000) -> list[str]:
    """Return the short names of references, the most recently changed first.

    Args:
        prefixes: Prefixes of the full names, such as ``refs/heads``.
    """
    rows = await _rows(work, ("%(refname:short)",), "--sort=-creatordate", f"--count={max_count}", *prefixes)
    return [name_text(name) for (name,) in rows]


async def _rows(work: RepositoryWork, fields: tuple[str, ...], *arguments: str) -> list[list[bytes]]:
    # With NUL also at the end, a row that was cut off has too few fields.
    format = "%00".join(fields) + "%00"
    output = await work.git("for-each-ref", f"--format={format}", *arguments)
    rows = [line.split(b"\0") for line in output.stdout.split(b"\n")]
    return [row[:-1] for row in rows if len(row) == len(fields) + 1]
