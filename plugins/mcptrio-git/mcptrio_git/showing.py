"""Shows the object of a revision: a commit with its diff, a file, or a folder.

The show tool and the file resources use it. An object is read by its id, so the checked object is the one that is
shown.

Source: git-cat-file(1), git-ls-tree(1), git-show(1).
"""

from __future__ import annotations

from typing import Literal

from attrs import frozen
from msgspec import Struct

from mcptrio import ToolError

from .access import Object, RepositoryWork
from .commits import LOG, Commit, parse_log
from .differences import FileStat, read_diff
from .text import clip, named, page_of

__all__ = ["Shown", "TreeEntry", "is_binary", "kind_of", "list_tree", "read_blob", "show"]

_PEEK = 8000
"""Bytes in which git looks for a NUL to tell binary files from text."""
_MAX_NOTE_CHARS = 10_000

Kind = Literal["commit", "tree", "blob"]


class Shown(Struct, frozen=True, kw_only=True):
    """The object of a revision.

    Attributes:
        kind: a commit, a folder (tree), or a file (blob).
        id: the id of the commit, tree or blob.
        commit: only for a commit.
        tag_message: for an annotated tag.
        text: a commit's diff against its first parent, a line for each entry of a folder, or a file's content.
        files: the changed files of a commit; only with the first part, and at most 500.
        size: bytes of a file.
        binary: the file is not text, and text is empty.
        truncated: there is more text.
        next_index: the start_index of the next part.
    """

    kind: Kind
    id: str
    commit: Commit | None
    tag_message: str | None
    text: str
    files: tuple[FileStat, ...]
    size: int | None
    binary: bool
    truncated: bool
    next_index: int | None


@frozen(kw_only=True, eq=False, repr=False)
class TreeEntry:
    """A name in a folder of a commit."""

    name: str
    is_folder: bool


async def show(work: RepositoryWork, found: Object, *, start: int, limit: int) -> Shown:
    """A piece of what a revision names.

    Args:
        start: the byte at which the text begins.
        limit: bytes of text.
    """
    note = None
    if found.kind == "tag":
        note = clip((await work.text("cat-file", "tag", found.id)).partition("\n\n")[2], _MAX_NOTE_CHARS)
        [peeled] = await work.objects(f"{found.id}^{{}}")
        if peeled is None:
            raise ToolError(f"the tag {found.id} names a missing object")
        found = peeled
    kind, id = found.kind, found.id
    if kind == "commit":
        output = await work.git(*LOG, "--max-count=1", id)
        diff = await read_diff(
            work, ("show", "--format=", "--diff-merges=first-parent", id), (), start=start, limit=limit
        )
        return Shown(
            kind="commit",
            id=id,
            commit=next(iter(parse_log(output.stdout)), None),
            tag_message=note,
            text=diff.diff,
            files=diff.files,
            size=None,
            binary=False,
            truncated=diff.truncated,
            next_index=diff.next_index,
        )
    arguments = ("ls-tree", "--long", id) if kind == "tree" else ("cat-file", "blob", id)
    size = None if kind == "tree" else found.size
    output = await work.git(*arguments, skip=start, limit=limit)
    # If the first part does not show it, look where git itself looks.
    whole = start == 0 and (limit >= _PEEK or not output.cut)
    beginning = output.stdout if whole or kind == "tree" else (await work.git(*arguments, limit=_PEEK)).stdout
    binary = kind == "blob" and is_binary(beginning)
    page = page_of(output.stdout, start=start, cut=output.cut)
    return Shown(
        kind="tree" if kind == "tree" else "blob",
        id=id,
        commit=None,
        tag_message=note,
        text="" if binary else page.text,
        files=(),
        size=size,
        binary=binary,
        truncated=output.cut and not binary,
        next_index=None if binary else page.next_index,
    )


async def kind_of(work: RepositoryWork, commit: str, path: str) -> tuple[str, str]:
    """Return the kind and id of a path in a commit; both empty if it does not exist.

    Args:
        path: ``.`` is the top.
    """
    wanted = f"{commit}^{{tree}}" if path.strip("/") in ("", ".") else f"{commit}:{path.strip('/')}"
    # A path may hold a line end, so it is an argument; a submodule is an id of which there is nothing here.
    id = await work.text("rev-parse", "--verify", "--quiet", "--end-of-options", wanted, codes=(0, 1, 128))
    [found] = await work.objects(id) if id else [None]
    return (found.kind, found.id) if found is not None else ("", "")


async def list_tree(work: RepositoryWork, tree: str, *, most: int) -> tuple[list[TreeEntry], bool]:
    """The names in a folder, folders included, and whether there are more."""
    output = await work.git("ls-tree", "-z", tree)
    entries: list[TreeEntry] = []
    for record in output.stdout.split(b"\0")[:-1]:
        facts, _, name = record.partition(b"\t")
        entries.append(TreeEntry(name=named(name), is_folder=b" tree " in facts))
    return entries[:most], output.cut or len(entries) > most


async def read_blob(work: RepositoryWork, id: str, *, limit: int) -> bytes | None:
    """A file; None if it is larger than ``limit`` bytes."""
    output = await work.git("cat-file", "blob", id, limit=limit)
    return None if output.cut else output.stdout


def is_binary(data: bytes) -> bool:
    """Whether git would take it for binary."""
    return b"\0" in data[:_PEEK]
