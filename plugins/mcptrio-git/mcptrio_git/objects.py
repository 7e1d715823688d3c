"""Reads the object of a revision: a commit with its diff, a file, or a folder.

The show tool and the file resources use it. An object is read by its id, so exactly the checked object is shown.

Source: git-cat-file(1), git-ls-tree(1), git-show(1).
"""

from __future__ import annotations

import mimetypes

from attrs import frozen

from mcptrio import ToolError

from .access import GitObject, RepositoryWork
from .commits import LOG, parse_log
from .differences import read_diff
from .rendering import commit_header, continuation_note, diff_text
from .text import name_text, page_of, truncate

__all__ = ["TreeEntry", "is_binary", "kind_of", "list_tree", "read_blob", "show"]

_BINARY_CHECK_BYTES = 8000
"""Number of bytes in which git looks for a NUL, which marks a file as binary."""
_MAX_NOTE_CHARS = 10_000
_MIN_DIFF_BYTES = 1000
"""Minimum number of bytes of a diff that are shown after a long message."""


@frozen(kw_only=True, eq=False, repr=False)
class TreeEntry:
    """An entry of a folder in a commit."""

    name: str
    is_folder: bool


async def show(work: RepositoryWork, git_object: GitObject, *, path: str, start: int, limit: int) -> str:
    """Return a part of the text of an object, which is a commit with its diff, a folder, or a file.

    Args:
        path: The path in the revision, if it has one.
        start: The offset of the part in bytes.
        limit: Maximum size of the part in bytes.

    Raises:
        ToolError: The file is not text.
    """
    header = ""
    if git_object.kind == "tag":
        note = truncate((await work.text("cat-file", "tag", git_object.id)).partition("\n\n")[2], _MAX_NOTE_CHARS)
        [peeled] = await work.objects(f"{git_object.id}^{{}}")
        if peeled is None:
            raise ToolError(f"the tag {git_object.id} names a missing object")
        header, git_object = f"tag: {note.rstrip()}\n\n", peeled
    if git_object.kind == "commit":
        output = await work.git(*LOG, "--max-count=1", git_object.id)
        header += "".join(f"{commit_header(each)}\n\n" for each in parse_log(output.stdout)[:1])
        header = "" if start else header
        command = ("show", "--format=", "--diff-merges=first-parent", git_object.id)
        diff = await read_diff(work, command, (), start=start, limit=max(limit - len(header), _MIN_DIFF_BYTES))
        return header + diff_text(diff)
    listing = ("ls-tree", "--format=%(objecttype) %(objectsize) %(path)", git_object.id)
    arguments = listing if git_object.kind == "tree" else ("cat-file", "blob", git_object.id)
    output = await work.git(*arguments, skip=start, limit=limit)
    if git_object.kind == "blob":
        # If this part does not contain the bytes that git checks, read them separately.
        whole = start == 0 and (limit >= _BINARY_CHECK_BYTES or not output.cut)
        if is_binary(output.stdout if whole else (await work.git(*arguments, limit=_BINARY_CHECK_BYTES)).stdout):
            kind = mimetypes.guess_type(path)[0] or "application/octet-stream"
            raise ToolError(f"expected a text file, got a binary one ({kind}, {git_object.size} bytes)")
    page = page_of(output.stdout, start=start, cut=output.cut)
    return ("" if start else header) + page.text + continuation_note(page.next_offset)


async def kind_of(work: RepositoryWork, commit: str, path: str) -> tuple[str, str]:
    """Return the kind and id of a path in a commit; both empty if it does not exist.

    Args:
        path: A path in the commit; ``.`` is the top folder.
    """
    name = f"{commit}^{{tree}}" if path.strip("/") in ("", ".") else f"{commit}:{path.strip('/')}"
    # A path may contain a line end, so it is passed as an argument. For a submodule, the object is missing here.
    id = await work.text("rev-parse", "--verify", "--quiet", "--end-of-options", name, codes=(0, 1, 128))
    [git_object] = await work.objects(id) if id else [None]
    return (git_object.kind, git_object.id) if git_object is not None else ("", "")


async def list_tree(work: RepositoryWork, tree: str, *, max_count: int) -> tuple[list[TreeEntry], bool]:
    """Return the entries of a folder, and True if there are more."""
    output = await work.git("ls-tree", "-z", tree)
    entries: list[TreeEntry] = []
    for record in output.stdout.split(b"\0")[:-1]:
        facts, _, name = record.partition(b"\t")
        entries.append(TreeEntry(name=name_text(name), is_folder=b" tree " in facts))
    return entries[:max_count], output.cut or len(entries) > max_count


async def read_blob(work: RepositoryWork, id: str, *, limit: int) -> bytes | None:
    """Return the content of a file; None if it is larger than ``limit`` bytes."""
    output = await work.git("cat-file", "blob", id, limit=limit)
    return None if output.cut else output.stdout


def is_binary(data: bytes) -> bool:
    """Return whether git treats a file as binary."""
    return b"\0" in data[:_BINARY_CHECK_BYTES]
