"""Shows the object of a revision: a commit with its diff, a file, or a folder.

The show tool and the file resources use it. An object is read by its id, so the checked object is the one that is
shown.

Source: git-cat-file(1), git-ls-tree(1), git-show(1).
"""

from __future__ import annotations

import mimetypes

from attrs import frozen

from mcptrio import ToolError

from .access import Object, RepositoryWork
from .commits import LOG, parse_log
from .differences import read_diff
from .rendering import commit_header, continued, diff_text
from .text import clip, named, page_of

__all__ = ["TreeEntry", "is_binary", "kind_of", "list_tree", "read_blob", "show"]

_PEEK = 8000
"""Bytes in which git looks for a NUL to tell binary files from text."""
_MAX_NOTE_CHARS = 10_000
_MIN_PART = 1000
"""Bytes of a diff after a long message."""


@frozen(kw_only=True, eq=False, repr=False)
class TreeEntry:
    """A name in a folder of a commit."""

    name: str
    is_folder: bool


async def show(work: RepositoryWork, found: Object, *, path: str, start: int, limit: int) -> str:
    """Return a part of the text of an object, which is a commit with its diff, a folder, or a file.

    Args:
        path: the path in the revision, if it has one.
        start: the byte at which the text begins.
        limit: bytes of text.

    Raises:
        ToolError: the file is not text.
    """
    header = ""
    if found.kind == "tag":
        note = clip((await work.text("cat-file", "tag", found.id)).partition("\n\n")[2], _MAX_NOTE_CHARS)
        [peeled] = await work.objects(f"{found.id}^{{}}")
        if peeled is None:
            raise ToolError(f"the tag {found.id} names a missing object")
        header, found = f"tag: {note.rstrip()}\n\n", peeled
    if found.kind == "commit":
        output = await work.git(*LOG, "--max-count=1", found.id)
        header += "".join(f"{commit_header(each)}\n\n" for each in parse_log(output.stdout)[:1])
        header = "" if start else header
        command = ("show", "--format=", "--diff-merges=first-parent", found.id)
        diff = await read_diff(work, command, (), start=start, limit=max(limit - len(header), _MIN_PART))
        return header + diff_text(diff)
    listing = ("ls-tree", "--format=%(objecttype) %(objectsize) %(path)", found.id)
    arguments = listing if found.kind == "tree" else ("cat-file", "blob", found.id)
    output = await work.git(*arguments, skip=start, limit=limit)
    if found.kind == "blob":
        # If the first part does not show it, look where git itself looks.
        whole = start == 0 and (limit >= _PEEK or not output.cut)
        if is_binary(output.stdout if whole else (await work.git(*arguments, limit=_PEEK)).stdout):
            kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
            raise ToolError(f"expected a text file, got a binary one ({kind}, {found.size} bytes)")
    page = page_of(output.stdout, start=start, cut=output.cut)
    return ("" if start else header) + page.text + continued(page.next_offset)


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
