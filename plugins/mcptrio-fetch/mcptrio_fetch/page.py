"""A downloaded page.

The downloader creates it, ``PageFetcher`` caches it, and the renderer reads it. It contains nothing about the caller,
so all callers with the same key can share it.
"""

from __future__ import annotations

from typing import Literal, TypeAlias

from attrs import frozen

__all__ = ["FetchedPage", "Kind"]

Kind: TypeAlias = Literal["html", "text", "image", "audio", "pdf", "document", "binary"]
"""``document`` is an Office file or a book."""

_TEXT_TYPES = frozenset(
    {
        "application/ecmascript",
        "application/graphql",
        "application/javascript",
        "application/json",
        "application/jsonl",
        "application/ld+json",
        "application/ndjson",
        "application/sql",
        "application/toml",
        "application/x-javascript",
        "application/x-ndjson",
        "application/x-sh",
        "application/x-www-form-urlencoded",
        "application/x-yaml",
        "application/xml",
        "application/yaml",
        "image/svg+xml",
        "message/rfc822",
    }
)
_DOCUMENTS = frozenset(
    {
        "application/epub+zip",
        "application/vnd.oasis.opendocument.text",
        "application/vnd.openxmlformats-officedocument.presentationml.presentation",
        "application/vnd.openxmlformats-officedocument.spreadsheetml.sheet",
        "application/vnd.openxmlformats-officedocument.wordprocessingml.document",
    }
)
_HTML = ("text/html", "application/xhtml+xml")
_UNKNOWN_TYPES = ("", "application/octet-stream", "binary/octet-stream", "unknown/unknown")


@frozen(kw_only=True)
class FetchedPage:
    """A response."""

    url: str
    """The URL after redirects."""
    status: int
    content_type: str
    """In lower case and without parameters; empty if there is none."""
    charset: str | None = None
    body: bytes = b""
    """Decompressed."""
    is_complete: bool = True
    """False if the end of the body was not read."""
    length: int | None = None
    """Content-Length, if there is one."""
    etag: str | None = None
    last_modified: str | None = None
    fresh_for: float | None = None
    """Seconds for which the site allows reuse; ``None`` if it does not specify any."""
    redirects: tuple[str, ...] = ()
    """The URLs of the redirects, beginning with the requested one."""

    @property
    def has_type(self) -> bool:
        """True if the site states a type other than unspecified binary data."""
        return self.content_type not in _UNKNOWN_TYPES

    @property
    def kind(self) -> Kind:
        """The kind of the page, by its type, or by its first bytes if it has no type."""
        kind = self.content_type
        if kind in _HTML:
            return "html"
        if not self.has_type:
            return self._guess()
        if kind.startswith("text/") or kind in _TEXT_TYPES or kind.endswith(("+json", "+xml", "+yaml")):
            # Some servers send HTML as text/plain; the reference server looks for the tag, too.
            return "html" if b"<html" in self.body[:100] else "text"
        if kind == "application/pdf":
            return "pdf"
        if kind in _DOCUMENTS:
            return "document"
        main = kind.partition("/")[0]
        return main if main in ("image", "audio") else "binary"  # type: ignore[return-value]

    def _guess(self) -> Kind:
        head = self.body[:1024]
        if head.startswith(b"%PDF-"):
            return "pdf"
        # Office files and books are ZIP archives.
        if head.startswith(b"PK\x03\x04"):
            return "document"
        if b"\0" in head and not head.startswith((b"\xff\xfe", b"\xfe\xff")):
            return "binary"
        # The reference server treats a page without a type as HTML.
        return "html" if not self.content_type or b"<html" in head.lower() else "text"
