"""The media type of a file, by its name or its first bytes.

The reading functions and the resources call it. It uses its own tables and those of the standard library, but not the
machine's mime.types, so a file has the same type on every machine.

Source: the first table is the reference filesystem server's; signatures from the WHATWG MIME Sniffing Standard.
"""

from __future__ import annotations

import mimetypes
import os
from functools import cache

__all__ = ["DIRECTORY", "SNIFFED", "binary_type", "is_text", "media_type"]

DIRECTORY = "inode/directory"
"""The media type of a directory, from freedesktop.org's shared-mime-info."""

SNIFFED = 512
"""Number of bytes at the beginning of a file that :func:`media_type` examines."""

_BY_SUFFIX = {
    ".png": "image/png",
    ".jpg": "image/jpeg",
    ".jpeg": "image/jpeg",
    ".gif": "image/gif",
    ".webp": "image/webp",
    ".bmp": "image/bmp",
    ".svg": "image/svg+xml",
    ".mp3": "audio/mpeg",
    ".wav": "audio/wav",
    ".ogg": "audio/ogg",
    ".flac": "audio/flac",
    ".md": "text/markdown",
    ".toml": "application/toml",
    ".yaml": "application/yaml",
    ".yml": "application/yaml",
    ".ts": "text/plain",  # the standard library maps this suffix to an MPEG stream
    ".tsx": "text/plain",
    ".rs": "text/plain",
    ".go": "text/plain",
}
_BY_SIGNATURE = (
    (b"\x89PNG\r\n\x1a\n", "image/png"),
    (b"\xff\xd8\xff", "image/jpeg"),
    (b"GIF87a", "image/gif"),
    (b"GIF89a", "image/gif"),
    (b"BM", "image/bmp"),
    (b"OggS\0", "audio/ogg"),
    (b"fLaC", "audio/flac"),
    (b"ID3", "audio/mpeg"),
    (b"%PDF-", "application/pdf"),
    (b"PK\x03\x04", "application/zip"),
    (b"\x1f\x8b\x08", "application/gzip"),
    (b"SQLite format 3\0", "application/vnd.sqlite3"),
    (b"\x7fELF", "application/x-executable"),
)
# A signature of two bytes, such as "BM", may also begin a text.
_SIGNATURES = tuple(start for start, _ in _BY_SIGNATURE if len(start) > 2)


def media_type(name: str, head: bytes) -> str:
    """Return the media type of a file.

    Args:
        name: The file's name.
        head: Its first ``SNIFFED`` bytes; used if the name gives no type.
    """
    suffix = os.path.splitext(name)[1].lower()
    if suffix in _BY_SUFFIX:
        return _BY_SUFFIX[suffix]
    guessed, encoding = _built_in().guess_type("file" + suffix)
    if guessed and not encoding:
        return guessed
    if is_text(head):
        return "text/plain"
    if head.startswith(b"RIFF") and head[8:12] in (b"WEBP", b"WAVE"):
        return "image/webp" if head[8:12] == b"WEBP" else "audio/wav"
    return next((kind for start, kind in _BY_SIGNATURE if head.startswith(start)), "application/octet-stream")


def is_text(data: bytes) -> bool:
    """Return whether bytes are UTF-8 without NUL. The last character may be incomplete."""
    if b"\0" in data:
        return False
    try:
        data.decode("utf-8")
    except UnicodeDecodeError as error:
        return error.reason == "unexpected end of data" and len(data) - error.start < 4
    return True


def binary_type(name: str, head: bytes) -> str | None:
    """Return the media type of a binary file; ``None`` for a text.

    A binary file has NUL bytes, a known signature, or hardly any valid UTF-8. Text in an 8-bit encoding counts as text.
    """
    has_signature = head.startswith(_SIGNATURES)
    if is_text(head) and not has_signature:
        return None
    invalid = head.decode("utf-8", "replace").count("\N{REPLACEMENT CHARACTER}")
    if b"\0" in head or has_signature or invalid * 3 > len(head):
        kind = media_type(name, head)
        return "application/octet-stream" if kind.startswith("text/") else kind
    return None


@cache
def _built_in() -> mimetypes.MimeTypes:
    """Return the standard library's table without the machine's files. Created on first use, because that is slow."""
    return mimetypes.MimeTypes(filenames=())
