"""One HTTP request and its response, as a server gives them to an endpoint that needs more than ASGI offers.

Our engine has them (:mod:`mcptrio.http.engine.exchange`) and puts them under :data:`EXTENSION` into the extensions of
the ASGI scope. For other servers :mod:`mcptrio.http.server.asgi` makes them of ASGI's ``receive`` and ``send``.

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
    """First the body is read. Then comes the response: either :meth:`respond`, or :meth:`begin`, parts and
    :meth:`finish`. The server bounds the time of a whole response; the caller bounds the time of a part."""

    status: int
    """The status of the response; 0 until it has begun."""
    note: str
    """Appended to the line of the access log."""

    @property
    def can_stay_open(self) -> bool:
        """Whether :meth:`keep_open` is possible."""
        ...

    def body_now(self) -> bytes | None:
        """The whole body if it has arrived already and nothing of it was read."""
        ...

    async def read(self) -> bytes:
        """The next part of the body; empty at its end.

        Raises:
            ConnectionClosed: the client has left.
        """
        ...

    async def while_connected(self, work: Callable[[], Awaitable[object]], leave: Callable[[], None]) -> None:
        """Do the work, and call ``leave`` once if the client leaves before the response is complete.

        Only after the body. A response that is kept open (:meth:`keep_open`) calls ``leave`` also after the work.
        """
        ...

    async def respond(self, status: int, headers: RawHeaders, body: bytes = b"") -> None:
        """The whole response. A client that has left, or reads nothing, gets none."""
        ...

    def begin(self, status: int, headers: RawHeaders) -> None:
        """Begin a response; its head goes out with the first part."""
        ...

    async def write(self, data: bytes) -> None:
        """One part of the response.

        Raises:
            ConnectionClosed: the client takes nothing.
        """
        ...

    def write_now(self, data: bytes) -> bytes | memoryview:
        """Write what the client takes without waiting. The rest is for :meth:`write_rest`, before anything else."""
        ...

    async def write_rest(self, rest: bytes | memoryview) -> None:
        """Write what :meth:`write_now` has left.

        Raises:
            ConnectionClosed: the client takes nothing.
        """
        ...

    async def finish(self) -> None:
        """The end of the response."""
        ...

    def keep_open(self) -> None:
        """Let the application return while the response continues until :meth:`close`."""
        ...

    def close(self) -> None:
        """The end of a response that was kept open. If it is not finished, its connection ends."""
        ...
