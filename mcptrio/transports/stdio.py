"""Standard input and output as a message channel.

Opened by ``mcptrio serve --stdio`` before plugins are imported. While it is open, what was standard output belongs to
the channel alone, under another number: descriptor 1 leads to standard error, descriptor 0 to the null device. So a
stray print, a ``puts`` in C or a child process can neither break the stream of messages nor eat from it.
The one rule: a line is written as a whole or not at all, as long as the process lives and the peer reads.

Source: MCP 2026-07-28, basic/transports/stdio.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import AsyncIterator, Iterator, Sequence
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, contextmanager, suppress

import trio

from mcptrio.errors import ConnectionClosed
from mcptrio.protocol.jsonrpc import DEFAULT, Limits
from mcptrio.protocol.messages import Incoming, Message
from mcptrio.transports.descriptors import Reader, Writer, open_reader, open_writer
from mcptrio.transports.lines import LineFramer, to_lines

__all__ = ["StdioChannel", "open_stdio"]

FINISH = 2.0
"""Seconds for finishing a line that was begun when the sender was cancelled."""

_STDERR = 2


class StdioChannel:
    """Messages over a pair of descriptors, one a line. Made by :func:`open_stdio`.

    Args:
        write_timeout: seconds without any progress after which a peer that does not read counts as gone.
    """

    name = "stdio"

    def __init__(
        self, reader: Reader, writer: Writer, *, limits: Limits = DEFAULT, write_timeout: float = 30.0
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._framer = LineFramer(limits)
        self._write_timeout = write_timeout
        self._ended = False
        self._broken: str | None = None
        """Why nothing can be written any more."""

    async def receive(self) -> list[Incoming]:
        """Everything that has arrived, at least one item.

        Raises:
            trio.EndOfChannel: the peer has closed its side, or has gone.
            ConnectionClosed: reading failed, or the channel was closed here.
        """
        while not self._ended:
            try:
                chunk = await self._reader.read()
            except OSError as error:
                raise ConnectionClosed(f"standard input cannot be read: {error}") from error
            self._ended = not chunk
            received = self._framer.feed(chunk) if chunk else self._framer.finish()
            if received:
                return received
        await trio.lowlevel.checkpoint()
        raise trio.EndOfChannel

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Write all of it. Cancelled after the beginning, it still finishes, for at most :data:`FINISH` seconds.

        Raises:
            ConnectionClosed: the peer has closed its side or does not read, or the channel was closed here.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        if self._broken is not None:
            raise ConnectionClosed(self._broken)
        rest = memoryview(to_lines(messages))
        # Whatever goes wrong from here on leaves half a line, until the last byte is out.
        self._broken = "standard output ends in the middle of a message"
        try:
            # Nearly always there is room, and then no deadline is needed: entering one costs more than the write.
            rest = rest[self._writer.write_now(rest) :]
            if not rest:
                self._broken = None
                return
            with trio.move_on_after(self._write_timeout) as patience:
                while rest:
                    rest = rest[await self._writer.write_some(rest) :]
                    patience.deadline = trio.current_time() + self._write_timeout
            if patience.cancelled_caught:
                raise ConnectionClosed(f"standard output was not read for {self._write_timeout} seconds")
        except trio.Cancelled:
            with trio.move_on_after(min(FINISH, self._write_timeout), shield=True), suppress(OSError, ConnectionClosed):
                while rest:
                    rest = rest[await self._writer.write_some(rest) :]
                self._broken = None
            raise
        except (OSError, ConnectionClosed) as error:
            self._broken = str(error) if isinstance(error, ConnectionClosed) else f"standard output is closed: {error}"
            raise ConnectionClosed(self._broken) from error
        self._broken = None
        await trio.lowlevel.cancel_shielded_checkpoint()

    async def aclose(self) -> None:
        """Give the descriptors back. Whoever is in ``receive`` or ``send`` gets ConnectionClosed."""
        self._broken = self._broken or "the channel is closed"
        self._reader.close()
        self._writer.close()
        await trio.lowlevel.checkpoint()


@asynccontextmanager
async def open_stdio(
    *,
    limits: Limits = DEFAULT,
    stdin_fd: int = 0,
    stdout_fd: int = 1,
    write_timeout: float = 30.0,
    restore: bool = True,
) -> AsyncIterator[StdioChannel]:
    """Take standard input and output over; on leaving they are what they were.

    Args:
        stdin_fd: read from this descriptor; while the channel is open it leads to the null device.
        stdout_fd: write to this descriptor; while the channel is open it leads to standard error.
        write_timeout: seconds without any progress after which a peer that does not read counts as gone.
        restore: ``False`` in a process that ends with the channel: what a thread that was left behind prints at the
            end must not reach the peer either.
    """
    # Where one of these is closed, the next file to be opened would get its number.
    reserved = {0, 1, _STDERR, stdin_fd, stdout_fd}
    null = _moved(os.open(os.devnull, os.O_RDWR), reserved)
    stderr = _STDERR if _is_standard(_STDERR) else null
    try:
        with (
            _taken_over(stdin_fd, null, reserved, restore=restore) as source,
            _taken_over(stdout_fd, stderr, reserved, restore=restore) as sink,
        ):
            shared = os.path.samestat(os.fstat(sink), os.fstat(stderr))
            writer = open_writer(sink, shared=shared)
            channel = StdioChannel(open_reader(source), writer, limits=limits, write_timeout=write_timeout)
            try:
                yield channel
            finally:
                with trio.move_on_after(1, shield=True):
                    await channel.aclose()
                # What was printed meanwhile must not reach standard output when that is restored. What standard error
                # does not take, because it is closed or full, is dropped.
                if not _flushed() and _is_standard(stdout_fd):
                    os.dup2(null, stdout_fd, inheritable=stdout_fd <= _STDERR)
                    _flushed()
    finally:
        os.close(null)


@contextmanager
def _taken_over(fd: int, instead: int, reserved: AbstractSet[int], *, restore: bool) -> Iterator[int]:
    """While inside, ``fd`` leads to where ``instead`` leads; afterwards too, unless it is to be restored.

    Gives another number, not for child processes, for what it led to; the receiver closes that. What was closed is at
    its end when read, and cannot be written to: so is the null device, opened for reading.
    """
    foreign = _is_open(fd) and not _is_standard(fd)
    saved = _moved(os.dup(fd), reserved) if _is_standard(fd) else None
    if not foreign:
        os.dup2(instead, fd, inheritable=fd <= _STDERR)  # child processes get this one and not the real one
    try:
        yield _moved(os.open(os.devnull, os.O_RDONLY) if saved is None else os.dup(saved), reserved)
    finally:
        if saved is not None:
            if restore:
                os.dup2(saved, fd, inheritable=fd <= _STDERR)
            os.close(saved)
        elif not foreign and restore:
            os.close(fd)


def _moved(fd: int, reserved: AbstractSet[int]) -> int:
    """The same file under a number that is not reserved."""
    passed = []
    while fd in reserved:
        passed.append(fd)
        fd = os.dup(fd)
    for each in passed:
        os.close(each)
    return fd


def _is_standard(fd: int) -> bool:
    """Whether this number leads to what the process was started with.

    Where it was started with one of the three closed, the number has gone to the next file that was opened, perhaps
    Trio's own; Python tells by ``sys.__stdin__`` and its siblings.
    """
    if fd <= _STDERR and (sys.__stdin__, sys.__stdout__, sys.__stderr__)[fd] is None:
        return False
    return _is_open(fd)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _flushed() -> bool:
    """Whether nothing is left in the buffers of Python and of C."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        return False
    except ValueError:
        pass  # closed, so it is empty
    return sys.platform == "win32" or bool(ctypes.CDLL(None).fflush(None) == 0)
