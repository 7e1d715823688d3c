"""The results of the tools.

The text is equal to that of the reference server; the structured content has its parts as separate members.

Source: the reference fetch server, for the texts; it has no output schema.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING, Any

from attrs import frozen

from mcptrio.types import (
    AudioContent,
    BlobResourceContents,
    CallToolResult,
    EmbeddedResource,
    ImageContent,
    TextContent,
)

if TYPE_CHECKING:
    from .page import FetchedPage
    from .rendered import Rendered

__all__ = ["FETCHED", "Links", "PageHead", "PageLink", "answer_media", "answer_text", "contents_of", "whole_text"]

FETCHED: dict[str, Any] = {
    "type": "object",
    "properties": {
        "content": {
            "type": "string",
            "description": "The requested part of the text, or a description of the content blocks.",
        },
        "url": {"type": "string", "description": "The requested URL."},
        "final_url": {"type": "string", "description": "The URL after redirects."},
        "status": {"type": "integer", "description": "The HTTP status."},
        "content_type": {"type": "string", "description": "The media type that the site sent; empty if none."},
        "title": {"type": "string", "description": "The title of the page, if it has one."},
        "start_index": {"type": "integer", "description": "Start of this part, in characters."},
        "total_length": {
            "type": "integer",
            "description": "Length of the whole text in characters, or of an image in bytes.",
        },
        "truncated": {"type": "boolean", "description": "More text follows this part."},
        "next_start_index": {"type": "integer", "description": "The start_index of the next part."},
        "source_cut": {"type": "boolean", "description": "The page was too large; its end was not read."},
    },
    "required": ["content", "url", "final_url", "status", "content_type", "total_length", "truncated", "source_cut"],
    "additionalProperties": False,
}
"""The output schema of ``fetch``."""


_NOT_READ = "\n\n<error>The page is too large; its end was not read.</error>"


@frozen(kw_only=True)
class PageLink:
    url: str
    text: str


@frozen(kw_only=True)
class Links:
    """A piece of the links of a page."""

    url: str
    """The requested URL."""
    final_url: str
    """The URL after redirects."""
    items: list[PageLink]
    total: int
    truncated: bool
    next_cursor: str | None = None


@frozen(kw_only=True)
class PageHead:
    """The headers of a page, without its content."""

    url: str
    """The requested URL."""
    final_url: str
    """The URL after redirects."""
    status: int
    """The HTTP status, an error's included."""
    content_type: str
    """The media type; empty if none was sent."""
    length: int | None = None
    """Bytes, packed perhaps; absent if the site does not say."""
    etag: str | None = None
    last_modified: str | None = None
    redirects: list[str]
    """The URLs on the way."""


def answer_text(asked: str, page: FetchedPage, rendered: Rendered, *, start: int, most: int) -> CallToolResult:
    """A piece of a text.

    Args:
        start: the first character.
        most: how many characters.
    """
    piece = rendered.text[start : start + most]
    end = start + len(piece)
    more: dict[str, Any] = {"start_index": start, "truncated": end < len(rendered.text)}
    shown = piece
    if not piece:
        shown = "<error>No more content available.</error>"
    elif more["truncated"]:
        more["next_start_index"] = end
        shown += (
            f"\n\n<error>Content truncated. Call the fetch tool with a start_index of {end} "
            "to get more content.</error>"
        )
    elif not rendered.is_whole:
        shown += _NOT_READ
    if rendered.title is not None:
        more["title"] = rendered.title
    about = _about(asked, page, piece, total=len(rendered.text), is_whole=rendered.is_whole)
    text = f"{rendered.prefix}Contents of {asked}:\n{shown}"
    return CallToolResult(content=(TextContent(text=text),), structured_content=about | more)


def answer_media(asked: str, page: FetchedPage) -> CallToolResult:
    """An image, audio or a document, after a line that describes it."""
    what = f"{page.content_type or page.kind}, {len(page.body)} bytes"
    return CallToolResult(
        content=(TextContent(text=f"Contents of {asked}: {what}"), _block(page)),
        structured_content=_about(asked, page, what, total=len(page.body), is_whole=True) | {"truncated": False},
    )


def whole_text(rendered: Rendered, most: int) -> str:
    """Return a text for a reader who cannot ask for further pieces, with a note if its end is missing."""
    if len(rendered.text) > most:
        return rendered.text[:most] + "\n\n<error>Content truncated. The fetch tool reads it in pieces.</error>"
    return rendered.text if rendered.is_whole else rendered.text + _NOT_READ


def contents_of(page: FetchedPage, uri: str) -> BlobResourceContents:
    """The bytes of a page as a resource."""
    return BlobResourceContents(uri=uri, mime_type=_media_type(page), blob=_base64(page))


def _block(page: FetchedPage) -> ImageContent | AudioContent | EmbeddedResource:
    match page.kind:
        case "image":
            return ImageContent(data=_base64(page), mime_type=page.content_type)
        case "audio":
            return AudioContent(data=_base64(page), mime_type=page.content_type)
        case _:
            return EmbeddedResource(resource=contents_of(page, page.url))


def _media_type(page: FetchedPage) -> str:
    # A PDF may have been recognised by its first bytes.
    return "application/pdf" if page.kind == "pdf" else page.content_type


def _base64(page: FetchedPage) -> str:
    return base64.b64encode(page.body).decode("ascii")


def _about(asked: str, page: FetchedPage, content: str, *, total: int, is_whole: bool) -> dict[str, Any]:
    return {
        "content": content,
        "url": asked,
        "final_url": page.url,
        "status": page.status,
        "content_type": page.content_type,
        "total_length": total,
        "source_cut": not is_whole,
    }
