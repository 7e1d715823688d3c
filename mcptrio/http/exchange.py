"""The interface to one HTTP request and its response, with more than ASGI offers.

Our engine implements it (:mod:`mcptrio.http.engine.exchange`) and puts the exchange under :data:`EXTENSION` into the
extensions of the ASGI scope. For other servers, :mod:`mcptrio.http.server.asgi` implements it with ASGI's ``receive``
and ``send``. The MCP endpoint reads requests and sends responses through it.

Source: ASGI 3.0, HTTP message format.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Protocol, TypeAlias

__all__ = ["EXTENSION", "HTTPExchange", "RawHeaders"]

EXTENSION: Final = "mcptrio.exchange"

RawHeaders: TypeAlias = Sequence[tuple[bytes, bytes]]
"""Names in lower case, and values."""


class HTTPExchange(Protocol):
    """One HTTP request and its response.

    Read the body first. Then send the response, either with :meth:`respond`, or with :meth:`begin`, :meth:`write` for
    each part, and :meth:`finish`. The server bounds the time of a whole response; the caller bounds the time of a part.
    """

    status: int
    """The status of the response; 0 until it has begun."""
    note: str
    """A text that is appended to the request's line in the access log."""

    @property
    def can_stay_open(self) -> bool:
        """True if :meth:`keep_open` is possible."""
        ...

    def body_now(self) -> bytes | None:
        """Return the whole body if all of it has arrived and none of it was read; otherwise ``None``."""
        ...

    async def read(self) -> bytes:
        """Return the next part of the body; empty at its end.

        Raises:
            ConnectionClosed: The client has disconnected.
        """
        ...

    async def while_connected(self, work: Callable[[], Awaitable[object]], on_disconnect: Callable[[], None]) -> None:
        """Run ``work``, and call ``on_disconnect`` once if the client disconnects before the response is complete.

        Call it only after the body was read. With :meth:`keep_open`, ``on_disconnect`` may be called after ``work`` has
        ended.
        """
        ...

    async def respond(self, status: int, headers: RawHeaders, body: bytes = b"") -> None:
        """Send a whole response. Returns normally if the client has disconnected or does not read."""
        ...

    def begin(self, status: int, headers: RawHeaders) -> None:
        """Begin a response. Its status and headers are sent with the first part."""
        ...

    async def write(self, data: bytes) -> None:
        """Send a part of the response.

        Raises:
            ConnectionClosed: The client does not read, or has disconnected.
        """
        ...

    def write_now(self, data: bytes) -> bytes | memoryview:
        """Send as much as possible without waiting, and return the rest, which :meth:`write_rest` must send next."""
        ...

    async def write_rest(self, rest: bytes | memoryview) -> None:
        """Send the rest that :meth:`write_now` has returned.

        Raises:
            ConnectionClosed: The client does not read, or has disconnected.
        """
        ...

    async def finish(self) -> None:
        """End the response."""
        ...

    def keep_open(self) -> None:
        """Let the application return while the response continues until :meth:`close`."""
        ...

    def close(self) -> None:
        """Close a response that was kept open. If the response is not finished, its connection is closed."""
        ...
