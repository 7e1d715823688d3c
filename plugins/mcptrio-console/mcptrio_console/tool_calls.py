"""Calls a tool of the server as a client does, and prepares its result for a page."""

from __future__ import annotations

import base64
import binascii
from collections.abc import Iterator, Mapping
from typing import Any, Final

import orjson
import trio
from attrs import frozen

from mcptrio import MCPTrioError, Server, connect
from mcptrio.types import (
    AudioContent,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    Implementation,
    ResourceLink,
    TextContent,
    TextResourceContents,
    Tool,
)

from .text import cut

__all__ = ["Outcome", "ToolCaller"]

_TIMEOUT: Final = 60.0
_MAX_TEXT_CHARS: Final = 64 * 1024
_MAX_IMAGE_CHARS: Final = 8 * 1024 * 1024
_MAX_BLOCKS: Final = 50
_MAX_TOOLS: Final = 5000
_IMAGES: Final = ("image/png", "image/jpeg", "image/gif", "image/webp")
"""Types of images that browsers display without running scripts."""
_INFO: Final = Implementation(name="mcptrio-console", version="1")


@frozen(kw_only=True)
class Block:
    """A part of a result: text, or an image as a URL with its data."""

    title: str
    text: str = ""
    image: str = ""


@frozen(kw_only=True)
class Outcome:
    """The result of a call, or the reason why there is none.

    Args:
        error: Why there is no result.
        failed: True if the result reports an error of the tool.
    """

    seconds: float
    error: str = ""
    failed: bool = False
    blocks: tuple[Block, ...] = ()
    structured: str = ""


class ToolCaller:
    """Connects to the server in the same process as an anonymous client, which has access only to some tools."""

    def __init__(self, server: Server) -> None:
        self._server = server

    async def find(self, name: str) -> Tool | None:
        """Return a tool that the server lists; ``None`` if the list lacks it."""
        with trio.move_on_after(_TIMEOUT):
            async with connect(self._server, info=_INFO) as client:
                count = 0
                async for tool in client.tools():
                    if tool.name == name:
                        return tool
                    count += 1
                    if count >= _MAX_TOOLS:
                        break
        return None

    async def call(self, name: str, arguments: Mapping[str, Any]) -> Outcome:
        """Call a tool, and wait for at most a minute."""
        began = trio.current_time()
        result, error = None, f"The call was cancelled, because it took more than {_TIMEOUT:g} s."
        with trio.move_on_after(_TIMEOUT):
            try:
                async with connect(self._server, info=_INFO) as client:
                    result = await client.call_tool(name, dict(arguments))
            except MCPTrioError as raised:
                error = cut(raised, 2000)
        seconds = trio.current_time() - began
        if result is None:
            return Outcome(seconds=seconds, error=error)
        return Outcome(
            seconds=seconds,
            failed=result.is_error,
            blocks=tuple(_blocks(result)),
            structured=_structured_text(result),
        )


def _blocks(result: CallToolResult) -> Iterator[Block]:
    for block in result.content[:_MAX_BLOCKS]:
        match block:
            case TextContent():
                yield Block(title="Text", text=cut(block.text, _MAX_TEXT_CHARS))
            case ImageContent():
                yield _image(block)
            case AudioContent():
                yield Block(title="Audio", text=f"{cut(block.mime_type)}, {len(block.data) * 3 // 4} bytes")
            case ResourceLink():
                yield Block(title="Link to a resource", text=cut(block.uri, 2000))
            case EmbeddedResource(resource=TextResourceContents() as contents):
                yield Block(title=f"Resource {cut(contents.uri)}", text=cut(contents.text, _MAX_TEXT_CHARS))
            case EmbeddedResource():
                yield Block(title=f"Resource {cut(block.resource.uri)}", text="not text")
            case _:
                yield Block(title=f"Block of type {cut(block.type)}", text=cut(block.raw, _MAX_TEXT_CHARS))
    if len(result.content) > _MAX_BLOCKS:
        yield Block(title="More", text=f"{len(result.content) - _MAX_BLOCKS} more blocks are not shown")


def _image(block: ImageContent) -> Block:
    title = f"Image, {cut(block.mime_type, 60)}"
    if block.mime_type not in _IMAGES or len(block.data) > _MAX_IMAGE_CHARS:
        return Block(title=title, text="not shown: only PNG, JPEG, GIF and WebP of at most 6 MiB are")
    try:
        data = base64.b64decode(block.data, validate=True)
    except binascii.Error:
        return Block(title=title, text="not shown: it is not valid base64")
    return Block(title=title, image=f"data:{block.mime_type};base64,{base64.b64encode(data).decode()}")


def _structured_text(result: CallToolResult) -> str:
    try:
        text = orjson.dumps(result.structured_content, option=orjson.OPT_INDENT_2).decode()
    except TypeError:
        # A result without structured content has a marker, ABSENT, which is not a JSON value.
        return ""
    return cut(text, _MAX_TEXT_CHARS)
