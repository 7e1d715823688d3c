"""The results of the tools, and the texts that a model reads.

A page is text only, because a copy of it in the structured content would be as large. Links and headers are structured,
and their text is made from that.
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
    from .rendered import Rendered

__all__ = [
    "Links",
    "PageHead",
    "PageLink",
    "answer_media",
    "answer_text",
    "contents_of",
    "head_text",
    "links_text",
    "whole_text",
]


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


def answer_text(requested: str, page: FetchedPage, rendered: Rendered, *, start: int, most: int) -> CallToolResult:
    """A piece of a text.

    Args:
        start: the first character.
        most: how many characters.
    """
    piece = rendered.text[start : start + most]
    end = start + len(piece)
    total = len(rendered.text)
    notes = []
    if not piece and start:
        notes.append(f"no more text, the page has {total} characters")
    elif start or end < total:
        notes.append(f"characters {start} to {end} of {total}")
    if end < total:
        notes.append(f"continue with offset={end}")
    # In each piece: a reader of the first one decides whether the page is worth more.
    notes += rendered.notes
    where = requested if page.url == requested else f"{requested}, redirected to {page.url}"
    title = f"Title: {rendered.title}\n" if rendered.title is not None and not start else ""
    rest = f"\n[{'; '.join(notes)}]" if notes else ""
    return CallToolResult(content=(TextContent(text=f"{rendered.prefix}Contents of {where}:\n{title}{piece}{rest}"),))


def answer_media(requested: str, page: FetchedPage, note: str = "") -> CallToolResult:
    """An image, audio or a document, after a line that describes it."""
    what = f"{page.content_type or page.kind}, {len(page.body)} bytes{note and f'; {note}'}"
    return CallToolResult(content=(TextContent(text=f"Contents of {requested}: {what}"), _block(page)))


def links_text(links: Links) -> str:
    """One link a line: the URL, then its text."""
    lines = [f"{each.url} {each.text}".rstrip() for each in links.items]
    if links.next_cursor is not None:
        lines.append(f"[{len(links.items)} of {links.total} links; continue with cursor={links.next_cursor}]")
    return "\n".join(lines) or "no links"


def head_text(head: PageHead) -> str:
    """One header a line; those that the site did not send are left out."""
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


def whole_text(rendered: Rendered, most: int) -> str:
    """Return a text for a reader who cannot ask for further pieces, with a note of what is missing."""
    notes = list(rendered.notes)
    if len(rendered.text) > most:
        notes.insert(0, f"characters 0 to {most} of {len(rendered.text)}; the fetch tool reads the rest")
    return rendered.text[:most] + (f"\n[{'; '.join(notes)}]" if notes else "")


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
    return "application/pdf" if page.kind == "pdf" else page.content_type or "application/octet-stream"


def _base64(page: FetchedPage) -> str:
    return base64.b64encode(page.body).decode("ascii")
