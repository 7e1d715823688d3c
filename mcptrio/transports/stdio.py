"""Standard input and output of this process as a message channel.

``mcptrio serve --stdio`` opens it before it imports plugins. While it is open, the channel uses duplicates of both
descriptors; descriptor 1 is redirected to standard error, and descriptor 0 to the null device. A stray ``print``, a C
library or a child process can therefore neither corrupt the output nor consume the input of the protocol.

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
    """Use standard input and output for messages inside the context; restore both descriptors afterwards.

    Args:
        limits: Limits of one message.
        stdin_fd: Descriptor to read from; redirected to the null device inside the context.
        stdout_fd: Descriptor to write to; redirected to standard error inside the context.
        write_timeout: Seconds without progress in a write after which the peer is considered disconnected.
        restore: Restore the descriptors at the end. Pass False in a process that ends with the channel, because
            a thread that is still running may print.
    """
    # If one of these is closed, the next file to be opened would get its number, which must not happen.
    reserved = {0, 1, _STDERR, stdin_fd, stdout_fd}
    null = _duplicate_outside(os.open(os.devnull, os.O_RDWR), reserved)
    stderr = _STDERR if _is_standard(_STDERR) else null
    try:
        with (
            _redirect(stdin_fd, null, reserved, restore=restore) as source,
            _redirect(stdout_fd, stderr, reserved, restore=restore) as sink,
        ):
            # If both lead to the same pipe, other code may fill it between a poll and the write.
            shared = os.path.samestat(os.fstat(sink), os.fstat(stderr))
            writer = open_writer(sink, shared=shared)
            channel = LineChannel(open_reader(source), writer, LineFramer(limits), write_timeout=write_timeout)
            try:
                yield channel
            finally:
                # Closing must not wait for a peer that does not read.
                with trio.move_on_after(1, shield=True):
                    await channel.aclose()
                # Buffered output must not reach the restored standard output. It is flushed to standard error, and
                # dropped if that is closed or full.
                if not _flush() and _is_standard(stdout_fd):
                    os.dup2(null, stdout_fd, inheritable=stdout_fd <= _STDERR)
                    _flush()
    finally:
        os.close(null)


@contextmanager
def _redirect(fd: int, replacement: int, reserved: AbstractSet[int], *, restore: bool) -> Iterator[int]:
    """Redirect ``fd`` to the file of ``replacement`` inside the context; without ``restore``, afterwards as well.

    Yields a duplicate of the original file, which the receiver must close. If ``fd`` was closed, the duplicate is a
    null device opened for reading, which behaves the same: it is at its end, and cannot be written to.
    """
    # An open descriptor that is not standard belongs to another file, and is left alone.
    foreign = _is_open(fd) and not _is_standard(fd)
    saved = _duplicate_outside(os.dup(fd), reserved) if _is_standard(fd) else None
    if not foreign:
        # Child processes inherit the replacement, not the original.
        os.dup2(replacement, fd, inheritable=fd <= _STDERR)
    try:
        yield _duplicate_outside(os.open(os.devnull, os.O_RDONLY) if saved is None else os.dup(saved), reserved)
    finally:
        if saved is not None:
            if restore:
                os.dup2(saved, fd, inheritable=fd <= _STDERR)
            os.close(saved)
        elif not foreign and restore:
            os.close(fd)


def _duplicate_outside(fd: int, reserved: AbstractSet[int]) -> int:
    """Return a descriptor of the same file whose number is not reserved."""
    passed = []
    while fd in reserved:
        passed.append(fd)
        fd = os.dup(fd)
    for each in passed:
        os.close(each)
    return fd


def _is_standard(fd: int) -> bool:
    """Return whether this number still leads to the file that the process was started with."""
    # If the process was started with a standard descriptor closed, the next file to be opened got its number, perhaps
    # one of Trio's. Python then sets sys.__stdin__ (and so on) to None.
    if fd <= _STDERR and (sys.__stdin__, sys.__stdout__, sys.__stderr__)[fd] is None:
        return False
    return _is_open(fd)


def _is_open(fd: int) -> bool:
    try:
        os.fstat(fd)
    except OSError:
        return False
    return True


def _flush() -> bool:
    """Flush the buffers of Python and of C; return whether both are empty."""
    try:
        if sys.stdout is not None:
            sys.stdout.flush()
    except OSError:
        return False
    except ValueError:
        pass  # the file object is closed, so its buffer is empty
    return sys.platform == "win32" or bool(ctypes.CDLL(None).fflush(None) == 0)
