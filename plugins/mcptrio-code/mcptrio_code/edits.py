"""The edits of files that a language server proposes: parsing, checks, the new texts, and a diff.

``rename`` uses them. It refuses to change anything if one of the files is outside the allowed folders.

Source: LSP 3.17, "WorkspaceEdit" and "TextEdit".
"""

from __future__ import annotations

import difflib
from collections.abc import Sequence
from typing import Any, Final

from attrs import frozen

from mcptrio import ToolError

from .folders import CodeFolders, SourceText, path_of_uri
from .messages import TextEdit, read_result
from .positions import column_of, split_lines

__all__ = ["FileEdit", "diff_of", "edits_of", "read_edits"]

_MAX_FILES: Final = 200
_MAX_EDITS: Final = 10_000


@frozen
class FileEdit:
    """The new text of a file."""

    path: str
    source: SourceText
    text: str
    count: int
    """The number of replaced ranges."""


def edits_of(value: Any) -> dict[str, list[TextEdit]]:
    """Return the text edits of a workspace edit by resolved path.

    Raises:
        ToolError: It creates, renames or deletes files, has a URI that is not that of a file, or has too many edits.
        RequestRefused: It is not a valid workspace edit.
    """
    if not isinstance(value, dict):
        return {}
    by_uri: dict[str, list[TextEdit]] = {}
    changes = value.get("documentChanges")
    if isinstance(changes, list):
        pairs = [_uri_and_edits(each) for each in changes]
    else:
        pairs = list(read_result(value.get("changes") or {}, dict[str, Any]).items())
    for uri, edits in pairs:
        if (path := path_of_uri(uri)) is None:
            raise ToolError(f"refused: the language server wants to change {uri[:200]!r}, which is not a file")
        by_uri.setdefault(path, []).extend(read_result(edits, list[TextEdit]))
    count = sum(map(len, by_uri.values()))
    if len(by_uri) > _MAX_FILES or count > _MAX_EDITS:
        raise ToolError(
            f"refused: expected changes of at most {_MAX_EDITS} places in {_MAX_FILES} files, got {count} places in"
            f" {len(by_uri)} files"
        )
    return by_uri


def read_edits(folders: CodeFolders, edits: dict[str, list[TextEdit]], encoding: str) -> list[FileEdit]:
    """Return the new texts of the files. Must be called in a thread, because it reads the files.

    Raises:
        ToolError: A file is outside the folders or cannot be read, or edits overlap.
    """
    outside = next((path for path in edits if folders.folder_of(path) is None), None)
    if outside is not None:
        raise ToolError(f"refused: {outside} would change too, which is outside {folders}")
    result = []
    for path, each in sorted(edits.items()):
        source = folders.read(path)
        text = _apply_edits(source.text, each, encoding, folders.display_path(path))
        if text != source.text:
            result.append(FileEdit(path, source, text, len(each)))
    return result


def diff_of(folders: CodeFolders, edits: Sequence[FileEdit]) -> str:
    """Return the changes as a unified diff with two lines of context."""
    lines: list[str] = []
    for each in edits:
        name = folders.display_path(each.path)
        old, new = split_lines(each.source.text), split_lines(each.text)
        lines += difflib.unified_diff(old, new, f"a/{name}", f"b/{name}", n=2, lineterm="")
    return "\n".join(lines)


def _uri_and_edits(change: Any) -> tuple[str, Any]:
    document = change.get("textDocument") if isinstance(change, dict) else None
    uri = document.get("uri") if isinstance(document, dict) else None
    if not isinstance(uri, str):
        raise ToolError("refused: the language server wants to create, rename or delete a file")
    return uri, change.get("edits")


def _apply_edits(text: str, edits: list[TextEdit], encoding: str, name: str) -> str:
    lines = split_lines(text)
    starts = _line_starts(text)

    def offset(line: int, units: int) -> int:
        if line >= len(lines) or line < 0:
            return len(text)
        return starts[line] + column_of(lines[line], units, encoding)

    spans = sorted(
        (
            offset(each.range.start.line, each.range.start.character),
            offset(each.range.end.line, each.range.end.character),
            each.new_text,
        )
        for each in edits
    )
    parts: list[str] = []
    position = 0
    for start, end, new in spans:
        if start < position or end < start:
            raise ToolError(f"refused: the edits of the language server overlap in {name}")
        parts += (text[position:start], new)
        position = end
    return "".join([*parts, text[position:]])


def _line_starts(text: str) -> list[int]:
    starts = [0]
    position = 0
    for line in split_lines(text):
        position += len(line)
        position += 2 if text.startswith("\r\n", position) else 1
        starts.append(position)
    return starts
