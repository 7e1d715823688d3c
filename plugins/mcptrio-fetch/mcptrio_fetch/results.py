"""The results of the tools, and the texts that a model reads.

A page is returned as text only, because structured content would repeat it. Links and headers are structured, and their
text is generated from the structure.
"""

from __future__ import annotations

import base64
from typing import TYPE_CHECKING

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
    from .rendered_page import RenderedPage

__all__ = [
    "Links",
    "PageHead",
    "PageLink",
    "contents_of",
    "head_text",
    "links_text",
    "media_result",
    "text_result",
    "text_with_notes",
]


@frozen(kw_only=True)
class PageLink:
    """A link and its text."""

    url: str
    text: str


@frozen(kw_only=True)
class Links:
    """Some of the links of a page."""

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


def text_result(requested: str, page: FetchedPage, rendered: RenderedPage, *, start: int, limit: int) -> CallToolResult:
    """Return a piece of a text as the result of ``fetch``.

    Args:
        start: Index of the first character.
        limit: Maximum number of characters.
    """
    piece = rendered.text[start : start + limit]
    end = start + len(piece)
    total = len(rendered.text)
    notes = []
    if not piece and start:
        notes.append(f"no more text, the page has {total} characters")
    elif start or end < total:
        notes.append(f"characters {start} to {end} of {total}")
    if end < total:
        notes.append(f"continue with offset={end}")
    # In each piece, so that the model knows of omissions when it decides whether to continue.
    notes += rendered.notes
    location = requested if page.url == requested else f"{requested}, redirected to {page.url}"
    title = f"Title: {rendered.title}\n" if rendered.title is not None and not start else ""
    rest = f"\n[{'; '.join(notes)}]" if notes else ""
    return CallToolResult(
        content=(TextContent(text=f"{rendered.prefix}Contents of {location}:\n{title}{piece}{rest}"),)
    )


def media_result(requested: str, page: FetchedPage, note: str = "") -> CallToolResult:
    """Return an image, audio or a document, with a line of text that describes it."""
    description = f"{page.content_type or page.kind}, {len(page.body)} bytes{note and f'; {note}'}"
    return CallToolResult(content=(TextContent(text=f"Contents of {requested}: {description}"), _block(page)))


def links_text(links: Links) -> str:
    """Format the links, one per line: the URL, then its text."""
    lines = [f"{each.url} {each.text}".rstrip() for each in links.items]
    if links.next_cursor is not None:
        lines.append(f"[{len(links.items)} of {links.total} links; continue with cursor={links.next_cursor}]")
    return "\n".join(lines) or "no links"


def head_text(head: PageHead) -> str:
    """Format the headers, one per line. Those that the site did not send are omitted."""
    lines = [
        ("status", head.status),
        ("url", head.final_url),
        ("redirected from", ", ".join(head.redirects)),
        ("content type", head.content_type),
        ("bytes", head.length),
        ("last modified", head.last_modified),
        ("etag", head.etag),
    ]
    return "\n".join(f"{name}: {value}" for name, value in lines if value not in (None, ""))


def text_with_notes(rendered: RenderedPage, limit: int) -> str:
    """Return a text for a client that cannot request further pieces, with a note on what is omitted."""
    notes = list(rendered.notes)
    if len(rendered.text) > limit:
        notes.insert(0, f"characters 0 to {limit} of {len(rendered.text)}; the fetch tool reads the rest")
    return rendered.text[:limit] + (f"\n[{'; '.join(notes)}]" if notes else "")


def contents_of(page: FetchedPage, uri: str) -> BlobResourceContents:
    """Return the bytes of a page as the contents of a resource."""
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
    # The first bytes may show that a page without a type is a PDF.
    return "application/pdf" if page.kind == "pdf" else page.content_type or "application/octet-stream"


def _base64(page: FetchedPage) -> str:
    return base64.b64encode(page.body).decode("ascii")
