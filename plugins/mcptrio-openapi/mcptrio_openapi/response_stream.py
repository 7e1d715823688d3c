"""A response that is being received: its status, its headers, and its body in pieces.

:mod:`mcptrio_openapi.connections` creates it. If the caller stops reading early or is cancelled, the connection is
closed. The iterators of httpx2 are nested generators. If one is left early, the garbage collector would have to close
the inner ones, so this class iterates only the innermost one. httpx2 would also decompress all received data at once;
this class decompresses it in pieces of limited size.

Source: RFC 9110, 8.4; RFC 1950; RFC 1952.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import trio

from mcptrio.errors import ToolError

if TYPE_CHECKING:
    import httpx2

__all__ = ["ACCEPTED_CODINGS", "ResponseStream"]

ACCEPTED_CODINGS = "gzip"
"""The content codings that requests accept. ``deflate`` is decoded too, but servers disagree on its format."""
_MAX_PIECE_BYTES = 256 * 1024
_CLOSE_TIMEOUT = 1.0
_GZIP_NAMES = ("gzip", "x-gzip")
_GZIP_WINDOW_BITS = 16 + zlib.MAX_WBITS
_MEMBER_START = b"\x1f"
"""The first byte of each member of gzip data."""


class ResponseStream:
    """The received part of a response.

    Attributes:
        status: The HTTP status.
        headers: The headers in the order received.
    """

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers = tuple((_text(name), _text(value)) for name, value in response.headers.raw)
        self._response = response
        self._pieces = response.aiter_raw()
        self._has_begun = False
        self._has_ended = False
        coding = (self.header("content-encoding") or "").strip().lower()
        self._decompressor = _decompressor_for(coding)
        self._is_gzip = coding in _GZIP_NAMES
        self._compressed_data = b""
        """Received data that is not decompressed yet."""
        self._may_have_more = False
        """True if the last piece had the maximum size. The decompressor may then have more output without new input."""
        self._has_data = False

    def header(self, name: str) -> str | None:
        """Return the first header with this name, which is in lower case."""
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def length(self) -> int | None:
        """The number of bytes in the body, if known."""
        text = self.header("content-length") or ""
        return int(text[:15]) if self._decompressor is None and text.isascii() and text.isdigit() else None

    async def receive(self) -> bytes | None:
        """Return the next decompressed piece of the body, at most 256 KiB; ``None`` at the end.

        Raises:
            ToolError: The body cannot be decompressed.
            httpx2.TransportError: The connection was closed too early.
        """
        while True:
            while self._decompressor is not None and (self._compressed_data or self._may_have_more):
                if piece := self._decompress():
                    return piece
            is_whole = self._decompressor is not None and self._decompressor.eof
            arrived = await self._receive_compressed()
            if arrived is None:
                if self._has_data and not is_whole:
                    raise ToolError("the response cannot be decompressed: it ends early")
                return None
            if self._decompressor is None:
                return arrived
            if is_whole and not self._begins_member(arrived):
                return None  # unknown data after the end of the compressed data
            self._has_data = True
            self._compressed_data += arrived

    async def aclose(self) -> None:
        """Close the response without waiting for the rest."""
        if self._has_begun and not self._has_ended:
            self._has_ended = True
            with trio.CancelScope() as scope:
                scope.cancel()
                # The generator yields the pieces that have arrived, and is cancelled when it waits for more.
                async for _ in self._pieces:
                    continue
        with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
            await self._response.aclose()

    async def _receive_compressed(self) -> bytes | None:
        """Return received data, still compressed; ``None`` at the end.

        Only after the end was read can the connection be reused.
        """
        if self._has_ended:
            return None
        self._has_begun = True
        try:
            return await anext(self._pieces)
        except StopAsyncIteration:
            self._has_ended = True
            return None
        except BaseException:
            self._has_ended = True
            raise

    def _decompress(self) -> bytes:
        assert self._decompressor is not None
        try:
            piece = self._decompressor.decompress(self._compressed_data, _MAX_PIECE_BYTES)
        except zlib.error as error:
            raise ToolError("the response cannot be decompressed: it does not match its Content-Encoding") from error
        self._compressed_data, rest = self._decompressor.unconsumed_tail, self._decompressor.unused_data
        self._may_have_more = len(piece) == _MAX_PIECE_BYTES
        if rest and self._begins_member(rest):
            self._compressed_data = rest
        return piece

    def _begins_member(self, rest: bytes) -> bool:
        """Return whether bytes after compressed data are another member (RFC 1952 section 2.2). Prepare to decompress
        it."""
        if self._decompressor is None or not self._is_gzip or rest[:1] != _MEMBER_START:
            return False
        self._decompressor = zlib.decompressobj(_GZIP_WINDOW_BITS)
        return True


def _decompressor_for(coding: str) -> zlib._Decompress | None:
    if coding in ("", "identity"):
        return None
    if coding in _GZIP_NAMES:
        return zlib.decompressobj(_GZIP_WINDOW_BITS)
    if coding == "deflate":
        return zlib.decompressobj()
    raise ToolError(f"expected gzip, deflate or nothing as Content-Encoding, got {coding[:60]!r}")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")
