"""A message channel over any byte stream, one message per line.

Used for TCP and Unix sockets on both sides, and by programs for any ``trio.abc.Stream``: TLS, a tunnel, a serial line.
This module adapts streams to LineChannel.

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
from mcptrio.transports.exclusive_streams import ExclusiveSocket
from mcptrio.transports.fd_streams import ByteReader, ByteWriter
from mcptrio.transports.line_channel import LineChannel
from mcptrio.transports.lines import LineFramer

__all__ = ["StreamChannel"]

_PIECE = 64 * 1024
"""Bytes of one read or write. A piece must be written within the write timeout."""


class StreamChannel:
    """A message channel over a stream, which it owns.

    Args:
        stream: The connected stream.
        name: Name for logs and status displays.
        limits: Limits of one message. A line over the limit is reported and skipped.
        answers: True on a client, where an answer over the limit fails the call that it belongs to.
        write_timeout: Seconds without progress in a write after which the peer is considered disconnected.
        first_message_timeout: Seconds within which a client must send its first line, which must be a valid message;
            ``None`` disables both checks. A peer that begins with anything else uses another protocol. The bytes that
            follow may come from an attacker, for example from a web page that makes the browser send a POST request to
            this port.
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
        """True if the first line of the peer was not a message."""

    async def receive(self) -> list[Incoming]:
        """Receive everything that has arrived, at least one item.

        Raises:
            trio.EndOfChannel: The peer has closed its side but may still read; or its first line was not a message.
            ConnectionClosed: The connection broke or was closed here, or the first message did not arrive in time.
        """
        if self._first_message_timeout is not None:
            return await self._begin(self._first_message_timeout)
        if self._refused:
            await trio.lowlevel.checkpoint()
            raise trio.EndOfChannel
        return await self._lines.receive()

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Write all messages, in one call if there is room.

        If this is cancelled after it has written something, a socket gets up to 2 seconds to accept the rest. On any
        other stream, every later send fails, because it is unknown how much was written.

        Raises:
            ConnectionClosed: The peer has closed its side or does not read, or the channel was closed here.
        """
        await self._lines.send(messages)

    def send_now(self, message: Message) -> bool:
        """Write a message without blocking; see :class:`mcptrio.abc.SynchronousChannel`."""
        return self._lines.send_now(message)

    async def send_eof(self) -> None:
        """Close the sending side. Messages of the peer can still be received.

        Raises:
            ConnectionClosed: The connection broke, or is closed.
            NotImplementedError: The stream has no half-close, for example TLS.
        """
        if not isinstance(self._stream, trio.abc.HalfCloseableStream):
            raise NotImplementedError(f"expected a stream with a half-close, got {type(self._stream).__name__}")
        try:
            await self._stream.send_eof()
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionClosed(_describe(error)) from error

    async def aclose(self) -> None:
        """Close the stream. Pending calls raise ConnectionClosed.

        Over TLS, this waits until the closing alert is written. If it is cancelled, the stream is closed nevertheless.
        """
        self._lines.close()
        await self._stream.aclose()

    async def _begin(self, seconds: float) -> list[Incoming]:
        with trio.move_on_after(seconds):
            received = await self._lines.receive()
            self._first_message_timeout = None
            # The peer receives one error response. The lines after the first one are ignored.
            self._refused = isinstance(received[0], Malformed)
            return received[:1] if self._refused else received
        raise ConnectionClosed(f"no message received within {seconds:g} seconds")


class _StreamEnds:
    """A reader and writer over any stream; see :mod:`mcptrio.transports.fd_streams`."""

    def __init__(self, stream: trio.abc.Stream) -> None:
        self._stream = stream
        self._is_incomplete = False
        """True after a cancelled write, because it is unknown how much was sent."""
        self._closed = False

    async def read(self) -> bytes:
        try:
            return bytes(await self._stream.receive_some(_PIECE))
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionClosed(_describe(error)) from error

    def write_now(self, data: memoryview) -> int:
        """Return 0: a stream has no write that does not block."""
        return 0

    def write_whole(self, data: bytes) -> bool:
        """Return False: a stream has no write that does not block."""
        return False

    async def write_some(self, data: memoryview) -> int:
        if self._is_incomplete:
            raise ConnectionClosed("the connection ends in the middle of a message")
        piece = bytes(data[:_PIECE])
        self._is_incomplete = True
        try:
            await self._stream.send_all(piece)
        except (trio.BrokenResourceError, trio.ClosedResourceError) as error:
            raise ConnectionClosed(_describe(error)) from error
        self._is_incomplete = False
        return len(piece)

    def close(self) -> None:
        """Do nothing: StreamChannel closes the stream, which may take time."""


def _describe(error: BaseException) -> str:
    if isinstance(error, trio.ClosedResourceError):
        return "the connection was closed"
    cause = error.__cause__
    return f"the connection broke: {cause or error}".removesuffix(": ")
