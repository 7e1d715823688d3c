"""The log format for commits, and its parser.

The tools that return commits use it. Fields end with NUL, so a message cannot imitate another commit.

Source: git-log(1), "PRETTY FORMATS" and ``-z``.
"""

from __future__ import annotations

from msgspec import Struct

from .text import name_text, text_of, truncate

__all__ = ["LOG", "Commit", "Log", "parse_log"]

_FIELDS = ("%H", "%P", "%an", "%ae", "%aI", "%cn", "%cI", "%D", "%s", "%b")
LOG = ("log", "-z", "--no-color", "--no-show-signature", "--encoding=UTF-8", "--format=tformat:" + "%x00".join(_FIELDS))
"""The arguments of ``git log`` that precede the revisions."""

_MAX_BODY_CHARS = 10_000
"""Maximum length of one message. The message of a merge may list thousands of commits."""


class Commit(Struct, frozen=True, kw_only=True):
    """A commit.

    Attributes:
        id: Its full id.
        parents: Ids; none for a first commit, two or more for a merge.
        date: The author's date, ISO 8601.
        committed: When it was committed, ISO 8601.
        refs: Branches and tags that point to it.
        body: The message after its first paragraph.
    """

    id: str
    parents: tuple[str, ...]
    author: str
    email: str
    date: str
    committer: str
    committed: str
    refs: tuple[str, ...]
    subject: str
    body: str


class Log(Struct, frozen=True, kw_only=True):
    """Commits, newest first.

    Attributes:
        truncated: There are more items.
        next_cursor: The cursor of the next page.
    """

    items: tuple[Commit, ...]
    truncated: bool
    next_cursor: str | None


def parse_log(output: bytes) -> list[Commit]:
    """Return the commits in an output of ``LOG``.

    An incomplete commit is dropped unless it is the first one. Its message may be longer than the limit, and the next
    page must begin after it.
    """
    *fields, rest = output.split(b"\0")
    width = len(_FIELDS)
    if 0 < len(fields) < width:
        fields = [*fields, rest, *[b""] * width][:width]
    return [_commit(fields[start : start + width]) for start in range(0, len(fields) - width + 1, width)]


def _commit(fields: list[bytes]) -> Commit:
    id, parents, author, email, date, committer, committed, refs, subject, body = fields
    return Commit(
        id=id.decode("ascii"),
        parents=tuple(parents.decode("ascii").split()),
        author=truncate(text_of(author), 500),
        email=truncate(text_of(email), 500),
        date=text_of(date),
        committer=truncate(text_of(committer), 500),
        committed=text_of(committed),
        refs=tuple(name_text(refs).split(", ")) if refs else (),
        subject=truncate(text_of(subject), 1000),
        body=truncate(text_of(body).rstrip("\n"), _MAX_BODY_CHARS),
    )
