"""The types of the tools' parameters, and the checks before git sees a value.

``Work`` and the tools use it. A value is data: nothing that begins with ``-`` is passed where git expects options or
revisions; a revision is resolved to the id of an object before it is used; paths follow ``--``, without magic.

Source: gitrevisions(7); gitglossary(7), "pathspec"; git-check-ref-format(1).
"""

from __future__ import annotations

import os
import re
from collections.abc import Sequence
from typing import Annotated

from msgspec import Meta

from mcptrio.errors import ToolError

from .text import printable

__all__ = [
    "MAX_SAFE_INTEGER",
    "Cursor",
    "Limit",
    "MaxBytes",
    "Paths",
    "RepoPath",
    "StartIndex",
    "check_name",
    "check_paths",
    "check_plain",
    "check_revision",
    "limit_of",
    "offset_of",
]

MAX_SAFE_INTEGER = 2**53 - 1
"""The largest integer that every JSON reader keeps."""

DEFAULT_BYTES = 64 * 1024
DEFAULT_ENTRIES = 100

RepoPath = Annotated[
    str,
    Meta(
        max_length=4096,
        description="The repository: its name from {tool:git_list_repositories}, or an absolute path of a file or "
        "folder in it. Optional if there is only one.",
    ),
]
StartIndex = Annotated[
    int,
    Meta(ge=0, le=MAX_SAFE_INTEGER, description="Start at this byte of the output: next_index of the previous result."),
]
MaxBytes = Annotated[
    Annotated[int, Meta(ge=100, le=MAX_SAFE_INTEGER)] | None,
    "Maximum number of bytes of output; by default 65536, and at most the server's limit.",
]
Limit = Annotated[
    Annotated[int, Meta(ge=1, le=MAX_SAFE_INTEGER)] | None,
    "Maximum number of entries; by default 100, and at most the server's limit.",
]
Cursor = Annotated[Annotated[str, Meta(max_length=200)] | None, "next_cursor of the previous result."]
Paths = Annotated[
    Annotated[list[Annotated[str, Meta(min_length=1, max_length=4096)]], Meta(max_length=200)] | None,
    "Only these files and folders, relative to the top of the repository; globs such as *.py are allowed.",
]

_CONTROL = r"[\x00-\x1f\x7f]"
_MAX_REVISION_CHARS = 4096


def check_plain(value: str, where: str) -> str:
    """Return a value that follows ``=`` or is a separate argument: without control characters and a leading dash.

    Raises:
        ToolError: it is invalid.
    """
    if value.startswith("-") or re.search(_CONTROL, value):
        raise ToolError(
            f"expected a value without a leading '-' or control characters at `{where}`, got {_shown(value)}"
        )
    return value


def check_revision(value: str, where: str, *, with_path: bool = False) -> str:
    """A revision such as ``main``, ``HEAD~2``, ``v1.0``, ``stash@{0}`` or an id.

    Args:
        with_path: ``rev:path`` is fine too.

    Raises:
        ToolError: it does not fit.
    """
    if not value or value[0] in "-^" or len(value) > _MAX_REVISION_CHARS or re.search(_CONTROL, value):
        raise ToolError(f"expected a revision such as 'main' or 'HEAD~1' at `{where}`, got {_shown(value)}")
    if ":" in value and not with_path:
        raise ToolError(f"expected a revision without ':' at `{where}`, got {_shown(value)}")
    return value


def check_name(value: str, where: str) -> str:
    """The name of a branch or tag; git checks the rest of its form.

    Raises:
        ToolError: it does not fit.
    """
    if not value or value.startswith("-") or len(value) > 250 or re.search(_CONTROL, value) or "@{" in value:
        raise ToolError(f"expected the name of a branch or tag at `{where}`, got {_shown(value)}")
    return value


def check_paths(paths: Sequence[str] | None, root: str, where: str) -> list[str]:
    """Paths relative to the root, which git is given behind ``--``.

    Raises:
        ToolError: one leads out of the work tree, or begins with ``:``, which would be magic.
    """
    checked: list[str] = []
    for number, path in enumerate(paths or ()):
        place = f"{where}[{number}]"
        if not path or "\0" in path or path.startswith(":"):
            raise ToolError(f"expected a path (one that begins with ':' as './:…') at `{place}`, got {_shown(path)}")
        absolute = os.path.normpath(os.path.join(root, path))
        if os.path.commonpath((absolute, root)) != root:
            raise ToolError(f"expected a path inside the repository at `{place}`, got {_shown(path)}")
        relative = os.path.relpath(absolute, root)
        # The slash at the end of a glob says "folders only", and "./" keeps a leading colon from being magic.
        checked.append(("./" if relative.startswith(":") else "") + relative + ("/" if path.endswith("/") else ""))
    return checked


def limit_of(given: int | None, ceiling: int, default: int = DEFAULT_ENTRIES) -> int:
    """Return the number of results: the requested one, within the operator's limit."""
    return min(default if given is None else given, ceiling)


def offset_of(cursor: str | None) -> int:
    """The number of entries before a page, from the cursor that ``str`` of that number has made.

    Raises:
        ToolError: the cursor is not one of ours.
    """
    if cursor is None:
        return 0
    if not re.fullmatch(r"[0-9]{1,9}", cursor):
        raise ToolError(f"expected the next_cursor of a previous result at `cursor`, got {_shown(cursor)}")
    return int(cursor)


def _shown(value: str) -> str:
    return repr(printable(value, 100))
