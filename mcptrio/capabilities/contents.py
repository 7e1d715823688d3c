"""Converts return values of authors' functions to content blocks (tools, prompts) or resource contents (resources).

A string becomes text, and bytes become Base64 with a media type. Content is not changed. A list with content in it is
flattened, and any other value becomes JSON text.
"""

from __future__ import annotations

import base64
from collections.abc import Iterable, Mapping
from typing import Any

import orjson
from attrs import frozen

from mcptrio.protocol.model.content import (
    AudioContent,
    ContentBlock,
    EmbeddedResource,
    ImageContent,
    ResourceLink,
    TextContent,
    UnknownContent,
)
from mcptrio.protocol.model.fields import evolve
from mcptrio.protocol.model.resource_contents import BlobResourceContents, ResourceContents, TextResourceContents
from mcptrio.protocol.model.tools import CallToolResult
from mcptrio.schema.encoding import encode_value

__all__ = ["BLOCKS", "Blob", "blocks_of", "bounded_result", "contents_of", "cut_text", "cut_texts", "json_text"]

BLOCKS = (TextContent, ImageContent, AudioContent, ResourceLink, EmbeddedResource, UnknownContent)
"""The classes of content blocks, which are not converted."""


@frozen
class Blob:
    """Bytes with a type: an image, a sound, or any other file.

    Args:
        data: The bytes, without Base64.
        mime_type: ``image/…`` and ``audio/…`` become image and audio blocks, other types an embedded resource.
        uri: The URI of the bytes; by default a placeholder.
    """

    data: bytes
    mime_type: str
    uri: str | None = None

    def block(self) -> ContentBlock:
        if self.mime_type.startswith("image/"):
            return ImageContent(data=_base64(self.data), mime_type=self.mime_type)
        if self.mime_type.startswith("audio/"):
            return AudioContent(data=_base64(self.data), mime_type=self.mime_type)
        # An embedded resource needs a URI, so "data:" is the placeholder.
        return EmbeddedResource(resource=self.contents(self.uri or "data:"))

    def contents(self, uri: str) -> ResourceContents:
        return BlobResourceContents(uri=self.uri or uri, blob=_base64(self.data), mime_type=self.mime_type)


def blocks_of(value: Any) -> tuple[ContentBlock, ...]:
    """Convert the return value of a tool or prompt to content blocks.

    Raises:
        TypeError: A part of the value has no JSON form.
    """
    if isinstance(value, str):
        # encode_value() refuses lone surrogates, which no client could decode.
        return (TextContent(text=encode_value(value)),)
    if value is None:
        return ()
    if isinstance(value, BLOCKS):
        return (value,)
    if isinstance(value, Blob):
        return (value.block(),)
    if isinstance(value, TextResourceContents | BlobResourceContents):
        return (EmbeddedResource(resource=value),)
    if isinstance(value, bytes | bytearray):
        return (Blob(bytes(value), "application/octet-stream").block(),)
    # A list without content in it is data, and becomes one JSON text.
    if isinstance(value, list | tuple) and any(_is_content(item) for item in value):
        return tuple(block for item in value for block in blocks_of(item))
    return (TextContent(text=json_text(encode_value(value))),)


def contents_of(value: Any, uri: str, mime_type: str | None) -> tuple[ResourceContents, ...]:
    """Convert the return value of a resource to resource contents.

    Raises:
        TypeError: A part of the value has no JSON form.
    """
    if isinstance(value, str):
        return (TextResourceContents(uri=uri, text=encode_value(value), mime_type=mime_type or "text/plain"),)
    if isinstance(value, bytes | bytearray):
        return (Blob(bytes(value), mime_type or "application/octet-stream").contents(uri),)
    if isinstance(value, Blob):
        return (value.contents(uri),)
    if isinstance(value, TextResourceContents | BlobResourceContents):
        return (value,)
    if isinstance(value, EmbeddedResource):
        return (value.resource,)
    # Several contents of one resource, such as the files of a folder. An empty list is data.
    if isinstance(value, list | tuple) and value and all(isinstance(item, _RESOURCES) for item in value):
        return tuple(contents for item in value for contents in contents_of(item, uri, mime_type))
    text = json_text(encode_value(value))
    return (TextResourceContents(uri=uri, text=text, mime_type=mime_type or "application/json"),)


_RESOURCES = (str, bytes, bytearray, Blob, TextResourceContents, BlobResourceContents, EmbeddedResource)


def json_text(value: Any) -> str:
    """Return a text unchanged, and any other value as JSON, for the model."""
    # Indentation would take a third to a half more tokens.
    return value if isinstance(value, str) else orjson.dumps(value).decode()


def cut_text(text: str, limit: int) -> str:
    """Cut a text to ``limit`` characters, at the end of a line if possible, and add a sentence about the rest."""
    if len(text) <= limit:
        return text
    end = text.rfind("\n", limit - limit // 5, limit) + 1 or limit
    return f"{text[:end]}\n[{end} of {len(text)} characters; ask for less, or for another part, to see the rest]"


def cut_texts(blocks: tuple[ContentBlock, ...], limit: int) -> tuple[ContentBlock, ...]:
    """Cut the texts of the blocks to ``limit`` characters in total."""
    kept: list[ContentBlock] = []
    dropped = 0
    for block in blocks:
        if isinstance(block, TextContent):
            if limit <= 0:
                dropped += len(block.text)
                continue
            length = len(block.text)
            if length > limit:
                block = evolve(block, text=cut_text(block.text, limit))
            limit -= length
        kept.append(block)
    if dropped:
        kept.append(TextContent(text=f"[{dropped} more characters in further texts; ask for less to see them]"))
    return tuple(kept)


def bounded_result(result: CallToolResult, limit: int) -> CallToolResult:
    """Return a result whose texts are cut to ``limit`` characters in total."""
    if sum(len(block.text) for block in result.content if isinstance(block, TextContent)) <= limit:
        return result
    return evolve(result, content=cut_texts(result.content, limit))


def _is_content(value: Any) -> bool:
    return isinstance(value, (str, Blob, *BLOCKS, TextResourceContents, BlobResourceContents)) or (
        isinstance(value, Iterable) and not isinstance(value, Mapping | bytes | bytearray) and _holds_content(value)
    )


def _holds_content(value: Iterable[Any]) -> bool:
    # Only one level: content in a list of lists is flattened, and anything deeper is data.
    return isinstance(value, list | tuple) and any(isinstance(item, (Blob, *BLOCKS)) for item in value)


def _base64(data: bytes) -> str:
    return base64.b64encode(data).decode()
