"""Shows the contents of a result: text unchanged, other content by its type and size, or by the file it was saved to.

The commands that call, read and get prompts use it. Text goes to standard output, and notes about other content to
standard error.
"""

from __future__ import annotations

import json
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import trio

from mcptrio.cli.client.saving import decode_base64, file_name, save_file
from mcptrio.cli.terminal.console import Console
from mcptrio.protocol.model.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from mcptrio.protocol.model.fields import ABSENT
from mcptrio.protocol.model.resource_contents import BlobResourceContents, ResourceContents, TextResourceContents

__all__ = ["Contents", "bytes_of", "repeats_structured"]


class Contents:
    """Shows the contents of results at a console, and saves bytes to files.

    Args:
        folder: The folder for bytes; ``None`` only names them.
        name: The name of files whose content has none.
    """

    def __init__(self, console: Console, folder: Path | None, *, name: str) -> None:
        self._console = console
        self._folder = folder
        self._name = name

    async def show(self, blocks: Sequence[ContentBlock], *, as_error: bool = False) -> None:
        """Show blocks one after the other. Bytes are saved if there is a folder.

        Args:
            as_error: True to use standard error.

        Raises:
            ConfigError: A file cannot be written.
            RemoteProtocolError: Bytes are not Base64.
        """
        for block in blocks:
            text = _text_of(block)
            if text is not None:
                # An error of a tool goes to standard error, so that a pipe receives only results.
                write = self._console.note if as_error else self._console.print
                write(text)
            await self._save(block)

    async def save(self, blocks: Sequence[ContentBlock]) -> None:
        """Save bytes, and show nothing."""
        for block in blocks:
            await self._save(block)

    async def show_resource(self, contents: ResourceContents) -> None:
        await self.show((EmbeddedResource(resource=contents),))

    async def save_resource(self, contents: ResourceContents) -> None:
        """Save the contents of a resource, including text."""
        kind = contents.mime_type or ("text/plain" if isinstance(contents, TextResourceContents) else "unknown type")
        await self._save_bytes("resource", contents.uri, kind, bytes_of(contents, f"resource ({kind})"))

    async def _save(self, block: ContentBlock) -> None:
        match block:
            case ImageContent() | AudioContent():
                await self._save_base64(block.type, self._name, block.mime_type, block.data)
            case EmbeddedResource(resource=BlobResourceContents() as contents):
                await self._save_base64("resource", contents.uri, contents.mime_type, contents.blob)

    async def _save_base64(self, what: str, suggested: str, mime_type: str | None, data: str) -> None:
        kind = mime_type or "unknown type"
        await self._save_bytes(what, suggested, kind, decode_base64(data, f"{what} ({kind})"))

    async def _save_bytes(self, what: str, suggested: str, kind: str, data: bytes) -> None:
        description = f"{what}: {kind}, {len(data)} bytes"
        if self._folder is None:
            self._console.note(f"[{description}; --output saves it]", "dim")
            return
        # In a thread, because the folder may be on a slow network disk.
        path = await trio.to_thread.run_sync(save_file, self._folder, file_name(suggested, kind), data)
        self._console.note(f"[{description}, saved as {path}]", "dim")


def bytes_of(contents: ResourceContents, what: str) -> bytes:
    """Return the contents of a resource as bytes, text in UTF-8.

    Args:
        what: A name for it in the error.
    """
    if isinstance(contents, TextResourceContents):
        # JSON can contain lone surrogates, which strict UTF-8 refuses. The user gets what the server has sent.
        return contents.text.encode("utf-8", "surrogatepass")
    return decode_base64(contents.blob, what)


def _text_of(block: ContentBlock) -> str | None:
    match block:
        case TextContent():
            return block.text
        case EmbeddedResource(resource=TextResourceContents() as contents):
            return contents.text
        case ResourceLink():
            kind = f", {block.mime_type}" if block.mime_type else ""
            # The URI first: it is what a user copies for `mcptrio read`.
            return f"{_one_line(block.uri)}  ({_one_line(block.title or block.name)}{_one_line(kind)})"
        # A revision newer than ours may add types of content; they are shown as they came.
        case UnknownContent():
            return json.dumps(block.raw, ensure_ascii=False)
        case _:
            return None


def repeats_structured(blocks: Sequence[ContentBlock], structured: Any) -> bool:
    """Return whether the text repeats the structured content, as servers do for clients without support for it.

    Source: MCP 2026-07-28, server/tools, "Structured Content".
    """
    texts = [block.text for block in blocks if isinstance(block, TextContent)]
    # An image, for example, is not repeated in the structured content.
    if structured is ABSENT or len(texts) != len(blocks):
        return False
    parts = []
    for text in texts:
        try:
            parts.append(json.loads(text))
        except ValueError:
            return False
    # Some servers send a list as one text for each item.
    value = parts[0] if len(parts) == 1 else parts
    # Before 2026-07-28, structured content is an object. Servers send any other value as its member `result`.
    return structured in (value, parts, {"result": value})


def _one_line(text: str) -> str:
    return " ".join(text.split())
