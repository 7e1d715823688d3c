"""The types of the tools' parameters, and the checks before git sees a value.

``RepositoryWork`` and the tools use them. A value that begins with ``-`` is never passed where git expects options or
revisions. A revision is resolved to the id of an object before it is used. Paths follow ``--`` and have no magic.

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
    "Limit",
    "Offset",
    "Paths",
    "RepoPath",
    "check_line_range",
    "check_message",
    "check_name",
    "check_option_value",
    "check_paths",
    "check_revision",
    "parse_cursor",
]

# A description or limit here would cost a model's tokens in up to 27 tools. git_list_repositories describes repo_path,
# the checks below limit lengths, and the last line of a page has the next cursor or offset.
RepoPath = str
Offset = Annotated[int, Meta(ge=0)]
Limit = Annotated[int, Meta(ge=1)]
Paths = Annotated[tuple[str, ...], "Paths or globs."]

_CONTROL = r"[\x00-\x1f\x7f]"
_MAX_REVISION_CHARS = 4096
_MAX_PATH_CHARS = 4096
_MAX_PATHS = 1000
_MAX_MESSAGE_CHARS = 100_000
_MAX_PLAIN_CHARS = 1000


def check_option_value(value: str, where: str) -> str:
    """Return the value of an option, which must have no leading dash and no control characters.

    Raises:
        ToolError: The value is invalid or too long.
    """
    if value.startswith("-") or len(value) > _MAX_PLAIN_CHARS or re.search(_CONTROL, value):
        raise ToolError(
            f"expected at most {_MAX_PLAIN_CHARS} characters without a leading '-' or control characters at "
            f"`{where}`, got {_quote(value)}"
        )
    return value


def check_revision(value: str, where: str, *, with_path: bool = False) -> str:
    """Return a revision such as ``main``, ``HEAD~2``, ``v1.0``, ``stash@{0}`` or an id.

    Args:
        with_path: True to allow ``rev:path`` as well.

    Raises:
        ToolError: The text cannot be a revision.
    """
    if not value or value[0] in "-^" or len(value) > _MAX_REVISION_CHARS or re.search(_CONTROL, value):
        raise ToolError(f"expected a revision such as 'main' or 'HEAD~1' at `{where}`, got {_quote(value)}")
    if ":" in value and not with_path:
        raise ToolError(f"expected a revision without ':' at `{where}`, got {_quote(value)}")
    return value


def check_message(value: str, where: str) -> str:
    """Return the message of a commit or tag, which git reads from its standard input.

    Raises:
        ToolError: The message is empty, too long, or contains NUL.
    """
    if not value.strip() or len(value) > _MAX_MESSAGE_CHARS or "\0" in value:
        raise ToolError(f"expected a message of 1 to {_MAX_MESSAGE_CHARS} characters without NUL at `{where}`")
    return value


def check_name(value: str, where: str) -> str:
    """Return the name of a branch or tag. Git checks its further rules.

    Raises:
        ToolError: The text cannot be a name.
    """
    if not value or value.startswith("-") or len(value) > 250 or re.search(_CONTROL, value) or "@{" in value:
        raise ToolError(f"expected the name of a branch or tag at `{where}`, got {_quote(value)}")
    return value


def check_paths(paths: Sequence[str], root: str, where: str) -> list[str]:
    """Return the paths relative to the root, for git's arguments after ``--``.

    Raises:
        ToolError: There are too many paths, or a path is too long, leads out of the work tree, or begins with ``:``,
            which would be magic.
    """
    if len(paths) > _MAX_PATHS:
        raise ToolError(f"expected at most {_MAX_PATHS} paths at `{where}`, got {len(paths)}; pass folders or globs")
    checked: list[str] = []
    for number, path in enumerate(paths):
        place = f"{where}[{number}]"
        if not path or len(path) > _MAX_PATH_CHARS or "\0" in path or path.startswith(":"):
            raise ToolError(f"expected a path (one that begins with ':' as './:…') at `{place}`, got {_quote(path)}")
        absolute = os.path.normpath(os.path.join(root, path))
        if os.path.commonpath((absolute, root)) != root:
            raise ToolError(f"expected a path inside the repository at `{place}`, got {_quote(path)}")
        relative = os.path.relpath(absolute, root)
        # A slash at the end of a glob restricts it to folders. "./" keeps a leading colon from being magic.
        checked.append(("./" if relative.startswith(":") else "") + relative + ("/" if path.endswith("/") else ""))
    return checked


def check_line_range(value: str, paths: Sequence[str]) -> str:
    """Return the option with which ``git log`` follows lines or a function of a checked path.

    Raises:
        ToolError: The value is neither a range nor a name, or there is not exactly one path.
    """
    is_name = re.fullmatch(r"[A-Za-z_][A-Za-z0-9_]{0,199}", value) is not None
    if not is_name and not re.fullmatch(r"[0-9]{1,9},[0-9]{1,9}", value):
        raise ToolError(f"expected lines such as '10,20' or a function's name at `line_range`, got {_quote(value)}")
    if len(paths) != 1:
        raise ToolError(f"expected one path at `paths` with `line_range`, got {len(paths)}")
    # git reads a name as a regular expression. Letters, digits and underscores stand for themselves, and the search for
    # a word takes linear time.
    return rf"-L:\<{value}\>:{paths[0]}" if is_name else f"-L{value}:{paths[0]}"


def parse_cursor(cursor: str) -> int:
    """Return the number of entries before a page. The cursor is this number as text.

    Raises:
        ToolError: The cursor is invalid.
    """
    if not cursor:
        return 0
    if not re.fullmatch(r"[0-9]{1,9}", cursor):
        raise ToolError(f"expected the cursor of a previous page at `cursor`, got {_quote(cursor)}")
    return int(cursor)


def _quote(value: str) -> str:
    return repr(printable(value, 100))
