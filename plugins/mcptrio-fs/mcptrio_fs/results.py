"""The result of a tool: the text, a note on the omitted part, and both as structured content.

The tools use it. ``content`` is exactly the reference server's; the note is a separate block and separate members.

Source: every tool of the reference filesystem server has the output schema ``{content: string}``.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from mcptrio.types import CallToolResult, TextContent

from .reading import Text

__all__ = ["MEDIA", "TEXT", "answer", "notes_on"]

TEXT: dict[str, Any] = {
    "type": "object",
    "properties": {
        "content": {"type": "string"},
        "truncated": {"type": "boolean", "description": "Something that was asked for is missing; false if absent."},
        "nextOffset": {"type": "integer", "description": "The offset for the rest."},
        "nextCursor": {"type": "string", "description": "The cursor for the rest."},
        "total": {"type": "integer", "description": "Bytes of the file, or entries of the directory."},
    },
    "required": ["content"],
    "additionalProperties": False,
}
"""The output schema of every tool but one."""

_MAX_NOTES_CHARS = 14_000
"""Characters of notes; three lists of names, at most."""

_BASE64 = {"type": "string", "contentEncoding": "base64"}
MEDIA: dict[str, Any] = {
    "type": "object",
    "properties": {
        "content": {
            "type": "array",
            "items": {
                "anyOf": [
                    {
                        "type": "object",
                        "properties": {
                            "type": {"type": "string", "enum": ["image", "audio"]},
                            "data": _BASE64,
                            "mimeType": {"type": "string"},
                        },
                        "required": ["type", "data", "mimeType"],
                        "additionalProperties": False,
                    },
                    {
                        "type": "object",
                        "properties": {
                            "type": {"type": "string", "const": "resource"},
                            "resource": {
                                "type": "object",
                                "properties": {
                                    "uri": {"type": "string"},
                                    "mimeType": {"type": "string"},
                                    "blob": _BASE64,
                                },
                                "required": ["uri", "blob"],
                                "additionalProperties": False,
                            },
                        },
                        "required": ["type", "resource"],
                        "additionalProperties": False,
                    },
                ]
            },
        }
    },
    "required": ["content"],
    "additionalProperties": False,
}
"""The output schema of ``read_media_file``."""


def answer(content: str, notes: Sequence[str] = (), more: Mapping[str, Any] | None = None) -> CallToolResult:
    """A result whose first block is ``content``, with a block for the notes, if there are any."""
    blocks = [TextContent(text=content)]
    if notes:
        said = "\n".join(f"[{note}]" for note in notes)
        blocks.append(TextContent(text=said if len(said) <= _MAX_NOTES_CHARS else f"{said[:_MAX_NOTES_CHARS]}…]"))
    return CallToolResult(content=tuple(blocks), structured_content={"content": content, **(more or {})})


def notes_on(text: Text, *, from_end: bool) -> tuple[list[str], dict[str, Any]]:
    """Notes on a part of a file, and members of the structured content.

    Args:
        from_end: the part is the end of the file, so the omitted part precedes it.
    """
    notes: list[str] = []
    more: dict[str, Any] = {}
    if text.cut:
        more = {"truncated": True, "total": text.size}
        note = f"cut: these are bytes {text.start} to {text.end} of {text.size}"
        if not from_end:
            more["nextOffset"] = text.end
            note += f"; go on with offset={text.end}"
        notes.append(note)
    if text.replaced:
        notes.append("some bytes are not UTF-8; U+FFFD stands for them")
    return notes, more
