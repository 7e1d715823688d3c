"""A message channel over any stream of bytes, one message a line.

Used for TCP and Unix sockets on both sides, and by embedders for any ``trio.abc.Stream``: TLS, a tunnel, a serial line.
What it does is the line channel's; here is only what a stream is other than two descriptors.
The one rule: a line is written as a whole or not at all, as long as the process lives and the peer reads.

Source: MCP 2026-07-28, basic/transports, "Custom Transports"; basic/transports/stdio (the framing).
"""

from __future__ import annotations

import sys
from collections.abc import Sequence

import trio

from mcptrio.errors import ConnectionClosed
from mcptrio.ground.expected import expect
from mcptrio.protocol.limits import DEFAULT, MessageLimits
from mcptrio.protocol.messages import Incoming, Malformed, Message
from mcptrio.transports.exclusive_socket import ExclusiveSocket
from mcptrio.transports.fd_streams import ByteReader, ByteWriter
from mcptrio.transports.line_channel import LineChannel
from mcptrio.transports.lines import LineFramer

__all__ = ["StreamChannel"]

_PIECE = 64 * 1024
"""Bytes of one read, and of one write: what has to get through within the deadline of a write."""


class StreamChannel:
    """Messages as lines over a stream, which it owns.

    Args:
        name: for logs and the tree.
        limits: of one message. A line over the limit is reported and skipped; the next one is read.
        answers: on a client's side: an answer over the limit fails the call it belongs to.
        write_timeout: seconds without any progress after which a peer that does not read counts as gone.
        first_message_timeout: on a server's side: seconds within which the peer has to send something, and that has to
            be a message. Otherwise the connection ends: a peer that begins with something else speaks another protocol,
            and what follows may have been written by a stranger, such as the web page that has a browser post to us.
            ``None``: as long as it likes, and whatever it likes.
    """

    def __init__(
        self,
        stream: trio.abc.Stream,
        *,
        name: str = "stream",
        limits: MessageLimits = DEFAULT,
        answers: bool = False,
        write_timeout: float = 30.0,
        first_message_timeout: float | None = None,
    ) -> None:
        expect(limits, MessageLimits, "StreamChannel: limits")
        self.name = name
        self._stream = stream
        ends: _StreamEnds | ExclusiveSocket
        if isinstance(stream, trio.SocketStream) and sys.platform != "win32":
            ends = ExclusiveSocket(stream)
        else:
            ends = _StreamEnds(stream)
        reader: ByteReader = ends
        writer: ByteWriter = ends
        self._lines = LineChannel(
            reader,
            writer,
            LineFramer(limits, answers=answers),
            name=name,
            reads="the connection",
            writes="the connection",
            write_timeout=write_timeout,
        )
        self._first_message_timeout = first_message_timeout
        self._refused = False
        """Whether the peer began with what is no message."""

    async def receive(self) -> list[Incoming]:
        """Everything that has arrived, at least one item.

        Raises:
            trio.EndOfChannel: the peer sends nothing more; it may still read. Or it began with what is no message.
            ConnectionClosed: the connection broke or was closed here, or no message came in time.
        """
        if self._first_message_timeout is not None:
            return await self._begin(self._first_message_timeout)
        if self._refused:
            await trio.lowlevel.checkpoint()
            raise trio.EndOfChannel
        return await self._lines.receive()

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Write all of it, in one go where there is room.

        Cancelled after the beginning it still finishes, for at most 2 seconds, over a socket; over another stream it
        cannot be told what was written, and the connection has ended.

        Raises:
            ConnectionClosed: the peer has closed its side or does not read, or the channel was closed here.
        """
        await self._lines.send(messages)

    def send_now(self, message: Message) -> bool:
        """See :class:`mcptrio.abc.SynchronousChannel`."""
        return self._lines.send_now(message)

    async def send_eof(self) -> None:
        """Tell the peer that nothing more will come. What it still sends can be received.

        Raises:
            ConnectionClosed: the connection broke, or is closed.
            NotImplementedError: the stream cannot be closed by half: TLS, for one.
        """
        if not isinstance(self._stream, trio.abc.HalfCloseableStream):
            raise NotImplementedError(f"{type(self._stream).__name__} cannot be closed by half")
        try:
            await self._stream.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionClosed(_said(error)) from error

    async def aclose(self) -> None:
        """Close the stream. Whoever is in ``receive`` or ``send`` gets ConnectionClosed.

        Over TLS it waits until the goodbye is written; cancelled, it closes all the same.
        """
        self._lines.close()
        await self._stream.aclose()

    async def _begin(self, seconds: float) -> list[Incoming]:
        with trio.move_on_after(seconds):
            received = await self._lines.receive()
            self._first_message_timeout = None
            # It is told so, and that is all: whatever came with it is not looked at.
            self._refused = isinstance(received[0], Malformed)
            return received[:1] if self._refused else received
        raise ConnectionClosed(f"no message came within {seconds:g} seconds")


class _StreamEnds:
    """A reader and a writer over any stream. See :mod:`mcptrio.transports.fd_streams`."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._torn = False
        """Whether a write was cancelled: nobody can say how much of it has happened."""
        self._closed = False

    async def read(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(_PIECE))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionClosed(_said(error)) from error

    def write_now(self, data: memoryview) -> int:
        """Nothing: a stream can only wait."""
        return 0

    def write_whole(self, data: bytes) -> bool:
        """Never: a stream can only wait."""
        return False

    async def write_some(self, data: memoryview) -> int:
        if self._torn:
            raise ConnectionClosed("the connection ends in the middle of a message")
        piece = bytes(data[:_PIECE])
        self._torn = True
        try:
            await self._stream.send_all(piece)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionClosed(_said(error)) from error
        self._torn = False
        return len(piece)

    def close(self) -> None:
        """The channel closes the stream, which may take a moment."""


def _said(error: BaseException) -> str:
    if isinstance(error, trio.ClosedResourceError):
        return "the connection was closed"
    cause = error.__cause__
    return f"the connection broke: {cause or error}".removesuffix(": ")
