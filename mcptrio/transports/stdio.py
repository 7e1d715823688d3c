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
from collections.abc import AsyncIterator, Iterator
from collections.abc import Set as AbstractSet
from contextlib import asynccontextmanager, contextmanager

import trio

from mcptrio.protocol.limits import DEFAULT, MessageLimits
from mcptrio.transports.fd_streams import open_reader, open_writer
from mcptrio.transports.line_channel import LineChannel
from mcptrio.transports.lines import LineFramer

__all__ = ["open_stdio"]

_STDERR = 2


@asynccontextmanager
async def open_stdio(
    *,
    limits: MessageLimits = DEFAULT,
    stdin_fd: int = 0,
    stdout_fd: int = 1,
    write_timeout: float = 30.0,
    restore: bool = True,
) -> AsyncIterator[LineChannel]:
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
            channel = LineChannel(open_reader(source), writer, LineFramer(limits), write_timeout=write_timeout)
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
