"""A response as it arrives: its status, its headers, and its body in parts.

:mod:`mcptrio_openapi.connections` makes it. The caller may stop reading at any point, and may be cancelled: the
connection is then closed. The iterators of httpx2 are nested generators, and the garbage collector would have to close
those that are left early; this class closes the innermost one. httpx2 decompresses all data that has arrived; this
class stops at the limit.

Source: RFC 9110, 8.4; RFC 1950; RFC 1952.
"""

from __future__ import annotations

import zlib
from typing import TYPE_CHECKING

import trio

from mcptrio.errors import ToolError

if TYPE_CHECKING:
    import httpx2

__all__ = ["ACCEPTED_CODINGS", "Incoming"]

ACCEPTED_CODINGS = "gzip"
"""The accepted coding. ``deflate`` is decoded too, but servers disagree on its meaning."""
_PIECE = 256 * 1024
_CLOSE_TIMEOUT = 1.0
_GZIP_NAMES = ("gzip", "x-gzip")
_GZIP = 16 + zlib.MAX_WBITS
_MEMBER = b"\x1f"
"""The first byte of each member of a gzip file."""


class Incoming:
    """
    Attributes:
        status: The HTTP status.
        headers: The headers in the order received.
    """

    def __init__(self, response: httpx2.Response) -> None:
        self.status = response.status_code
        self.headers = tuple((_text(name), _text(value)) for name, value in response.headers.raw)
        self._response = response
        self._pieces = response.aiter_raw()
        self._is_begun = False
        self._is_over = False
        coding = (self.header("content-encoding") or "").strip().lower()
        self._unpacking = _unpacking(coding)
        self._is_gzip = coding in _GZIP_NAMES
        self._waiting = b""
        """Received data that is not decompressed yet."""
        self._is_full = False
        """True if the last piece had the maximum size. The decompressor may then have more output without new input."""
        self._has_come = False

    def header(self, name: str) -> str | None:
        """Return the first header with this name, which is in lower case."""
        return next((value for key, value in self.headers if key.lower() == name), None)

    @property
    def length(self) -> int | None:
        """The number of bytes in the body, if known."""
        text = self.header("content-length") or ""
        return int(text[:15]) if self._unpacking is None and text.isascii() and text.isdigit() else None

    async def receive(self) -> bytes | None:
        """Return the next decompressed piece of the body, at most 256 KiB; ``None`` at the end.

        Raises:
            ToolError: The body cannot be decompressed.
            httpx2.TransportError: The connection was closed too early.
        """
        while True:
            while self._unpacking is not None and (self._waiting or self._is_full):
                if piece := self._unpack():
                    return piece
            is_whole = self._unpacking is not None and self._unpacking.eof
            arrived = await self._next()
            if arrived is None:
                if self._has_come and not is_whole:
                    raise ToolError("the answer cannot be unpacked: it ends early")
                return None
            if self._unpacking is None:
                return arrived
            if is_whole and not self._begins_member(arrived):
                return None  # unknown data after the end of the compressed data
            self._has_come = True
            self._waiting += arrived

    async def aclose(self) -> None:
        """Close the response without waiting for the rest."""
        if self._is_begun and not self._is_over:
            self._is_over = True
            with trio.CancelScope() as scope:
                scope.cancel()
                # The generator yields the pieces that have arrived, and is cancelled where it waits for more.
                async for _ in self._pieces:
                    continue
        with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
            await self._response.aclose()

    async def _next(self) -> bytes | None:
        """Return received data, still compressed; ``None`` at the end.

        The connection can be reused only after the end was read.
        """
        if self._is_over:
            return None
        self._is_begun = True
        try:
            return await anext(self._pieces)
        except StopAsyncIteration:
            self._is_over = True
            return None
        except BaseException:
            self._is_over = True
            raise

    def _unpack(self) -> bytes:
        assert self._unpacking is not None
        try:
            piece = self._unpacking.decompress(self._waiting, _PIECE)
        except zlib.error as error:
            raise ToolError("the answer cannot be unpacked: it is not as its Content-Encoding says") from error
        self._waiting, rest = self._unpacking.unconsumed_tail, self._unpacking.unused_data
        self._is_full = len(piece) == _PIECE
        if rest and self._begins_member(rest):
            self._waiting = rest
        return piece

    def _begins_member(self, rest: bytes) -> bool:
        """Whether the bytes after compressed data are another member to decompress (RFC 1952 section 2.2)."""
        if self._unpacking is None or not self._is_gzip or rest[:1] != _MEMBER:
            return False
        self._unpacking = zlib.decompressobj(_GZIP)
        return True


def _unpacking(coding: str) -> zlib._Decompress | None:
    if coding in ("", "identity"):
        return None
    if coding in _GZIP_NAMES:
        return zlib.decompressobj(_GZIP)
    if coding == "deflate":
        return zlib.decompressobj()
    raise ToolError(f"expected gzip, deflate or nothing as Content-Encoding, got {coding[:60]!r}")


def _text(data: bytes) -> str:
    try:
        return data.decode()
    except UnicodeDecodeError:
        return data.decode("latin-1")
