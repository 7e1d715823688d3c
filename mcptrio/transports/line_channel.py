"""A message channel over a byte reader and a byte writer, with one message per line.

Used for standard input and output of this process and of child processes, and by StreamChannel. As long as the process
runs and the peer reads, a line is written completely or not at all.

Source: MCP 2026-07-28, basic/transports/stdio.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import suppress

import trio

from mcptrio.errors import ConnectionClosed
from mcptrio.protocol.messages import Incoming, Message
from mcptrio.transports.fd_streams import ByteReader, ByteWriter
from mcptrio.transports.lines import LineFramer, to_lines

__all__ = ["FINISH_TIMEOUT", "LineChannel"]

FINISH_TIMEOUT = 2.0
"""Seconds to finish messages after the sender was cancelled in the middle of writing them."""


class LineChannel:
    """A message channel over a reader and a writer, which it owns.

    Args:
        name: Name for logs and status displays.
        reads: Name of the reader's source in errors, for example ``standard input``.
        writes: Name of the writer's destination in errors.
        write_timeout: Seconds without progress in a write after which the peer is considered disconnected.
    """

    def __init__(
        self,
        reader: ByteReader,
        writer: ByteWriter,
        framer: LineFramer,
        *,
        name: str = "stdio",
        reads: str = "standard input",
        writes: str = "standard output",
        write_timeout: float = 30.0,
    ) -> None:
        self.name = name
        self._reader = reader
        self._writer = writer
        self._framer = framer
        self._reads = reads
        self._writes = writes
        self._write_timeout = write_timeout
        self._ended = False
        """True once the reader's source has ended."""
        self._broken: str | None = None
        """The reason why nothing can be written any more; ``None`` if writing is possible."""

    async def receive(self) -> list[Incoming]:
        """Receive everything that has arrived, at least one item.

        Raises:
            trio.EndOfChannel: The peer has closed its side or disconnected.
            ConnectionClosed: Reading failed, or the channel was closed here.
        """
        while not self._ended:
            try:
                chunk = await self._reader.read()
            except OSError as error:
                raise ConnectionClosed(f"{self._reads} cannot be read: {error}") from error
            self._ended = not chunk
            received = self._framer.feed(chunk) if chunk else self._framer.finish()
            if received:
                return received
        await trio.lowlevel.checkpoint()
        raise trio.EndOfChannel

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Write all messages.

        If this is cancelled after it has written something, it takes up to :data:`FINISH_TIMEOUT` seconds to write the
        rest.

        Raises:
            ConnectionClosed: The peer has closed its side or does not read, or the channel was closed here.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._broken is not None:
            raise ConnectionClosed(self._broken)
        rest = memoryview(to_lines(messages))
        # Until the last byte is written, any failure may leave an incomplete line.
        self._broken = f"{self._writes} ends in the middle of a message"
        try:
            # Without a cancel scope, which costs more than the write: there is nearly always room.
            rest = rest[self._writer.write_now(rest) :]
            if not rest:
                self._broken = None
                return
            with trio.move_on_after(self._write_timeout) as scope:
                while rest:
                    rest = rest[await self._writer.write_some(rest) :]
                    # Any progress restarts the timeout, because a slow peer is not disconnected.
                    scope.deadline = trio.current_time() + self._write_timeout
            if scope.cancelled_caught:
                raise ConnectionClosed(f"{self._writes} was not read for {self._write_timeout} seconds")
        except trio.Cancelled:
            with (
                trio.move_on_after(min(FINISH_TIMEOUT, self._write_timeout), shield=True),
                suppress(OSError, ConnectionClosed),
            ):
                while rest:
                    rest = rest[await self._writer.write_some(rest) :]
                self._broken = None
            raise
        except (OSError, ConnectionClosed) as error:
            self._broken = str(error) if isinstance(error, ConnectionClosed) else f"{self._writes} is closed: {error}"
            raise ConnectionClosed(self._broken) from error
        self._broken = None
        await trio.lowlevel.cancel_shielded_checkpoint()

    def send_now(self, message: Message) -> bool:
        """Write a message without blocking; see :class:`mcptrio.abc.SynchronousChannel`."""
        return self._broken is None and self._writer.write_whole(to_lines((message,)))

    async def aclose(self) -> None:
        """Close the reader and the writer. Pending calls raise ConnectionClosed."""
        self.close()
        await trio.lowlevel.checkpoint()

    def close(self) -> None:
        """Close the channel like :meth:`aclose`, without a checkpoint."""
        self._broken = self._broken or "the channel is closed"
        self._reader.close()
        self._writer.close()
