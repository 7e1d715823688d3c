"""Sends HTTP requests to one API over a pool of connections.

Each API has a pool, and each download of a document has another one. The pool uses the transport of httpx2 instead of
its client: the client has a cookie jar, reads ``.netrc`` and the proxy variables, follows redirects, and logs the URLs
of requests, which may contain a key. httpx2 takes 95 ms to import, so the first request imports it.

Source: httpx2 2.16; RFC 9112.
"""

from __future__ import annotations

import ssl
from collections.abc import AsyncIterator, Sequence
from contextlib import asynccontextmanager
from functools import lru_cache
from importlib import import_module
from pathlib import Path
from typing import TYPE_CHECKING

import trio

from mcptrio import Secret
from mcptrio.errors import ToolError

from .bodies import Part
from .origins import origin_of
from .response_stream import ResponseStream

if TYPE_CHECKING:
    import httpx2

__all__ = ["APIUnreachable", "Connections", "user_agent"]

_KEEPALIVE_SECONDS = 15.0
"""Seconds after which an idle connection is closed."""
_CLOSE_TIMEOUT = 1.0


class APIUnreachable(ToolError):
    """The server could not be reached, or closed the connection before its response was complete."""


class Connections:
    """A pool of connections.

    Args:
        max_connections: The number of connections that may be open at the same time.
        connect_timeout: Seconds for opening a connection.
        proxy: The URL of an HTTP proxy.
        ca_file: The certificate authorities to trust, instead of those of the system.
    """

    def __init__(
        self, *, max_connections: int, connect_timeout: float, proxy: Secret | None = None, ca_file: Path | None = None
    ) -> None:
        self._max_connections = max_connections
        self._connect_timeout = connect_timeout
        self._proxy = proxy
        self._ca_file = ca_file
        self._transport: httpx2.AsyncHTTPTransport | None = None

    @asynccontextmanager
    async def send(
        self,
        method: str,
        url: str,
        headers: Sequence[tuple[str, str]],
        *,
        content: bytes | None = None,
        parts: Sequence[Part] | None = None,
    ) -> AsyncIterator[ResponseStream]:
        """Send a request, and yield its response. The connection is closed if the response is not read to its end.

        Raises:
            APIUnreachable: There was no response, or it ended too early. Also raised while the body is read.
            ToolError: The request is not valid HTTP, or the body cannot be decompressed.
        """
        import httpx2

        try:
            request = httpx2.Request(
                method,
                url,
                headers=[(name.encode(), value.encode()) for name, value in headers],
                content=content,
                files=list(parts) if parts is not None else None,
                extensions={"timeout": {"connect": self._connect_timeout}},
            )
            response = await self._open_transport().handle_async_request(request)
        except (httpx2.TransportError, ssl.SSLError) as error:
            raise APIUnreachable(f"cannot reach {origin_of(url)}: {_reason(error)}") from error
        except (httpx2.InvalidURL, UnicodeEncodeError) as error:
            raise ToolError(f"cannot be sent to {origin_of(url)}: its URL or a header is not valid in HTTP") from error
        response.request = request
        stream: ResponseStream | None = None
        try:
            stream = ResponseStream(response)
            yield stream
        except httpx2.TransportError as error:
            raise APIUnreachable(f"{origin_of(url)} ended its response too early: {_reason(error)}") from error
        finally:
            if stream is not None:
                await stream.aclose()
            else:
                with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
                    await response.aclose()

    async def aclose(self) -> None:
        """Close all connections."""
        transport, self._transport = self._transport, None
        if transport is not None:
            with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
                await transport.aclose()

    def _open_transport(self) -> httpx2.AsyncHTTPTransport:
        import httpx2

        if self._transport is None:
            verify: ssl.SSLContext | bool = True
            if self._ca_file is not None:
                try:
                    verify = ssl.create_default_context(cafile=str(self._ca_file))
                except OSError as error:
                    raise ToolError(f"cannot read the certificates in {self._ca_file.name}") from error
            self._transport = httpx2.AsyncHTTPTransport(
                verify=verify,
                trust_env=False,
                proxy=self._proxy.reveal() if self._proxy is not None else None,
                limits=httpx2.Limits(
                    max_connections=self._max_connections,
                    max_keepalive_connections=self._max_connections,
                    keepalive_expiry=_KEEPALIVE_SECONDS,
                ),
            )
        return self._transport


@lru_cache(maxsize=1)
def user_agent() -> str:
    """Return the value of the User-Agent header."""
    # importlib.metadata takes longer to import than this plugin.
    metadata = import_module("importlib.metadata")
    return f"mcptrio-openapi/{metadata.version('mcptrio-openapi')}"


def _reason(error: Exception) -> str:
    """Return the text of an error, or of the first cause with a text."""
    cause: BaseException | None = error
    for _ in range(8):
        if cause is None:
            break
        if isinstance(cause, ssl.SSLCertVerificationError):
            return f"its certificate is not trusted: {cause.verify_message}"
        if text := " ".join(str(cause).split()):
            return text[:200]
        cause = cause.__cause__ or cause.__context__
    return type(error).__name__
