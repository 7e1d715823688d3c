"""An immediate write is complete or not made, for every kind of descriptor."""

from __future__ import annotations

import os
import socket
import sys
from collections.abc import AsyncIterator, Callable
from contextlib import ExitStack

import pytest

from mcptrio.transports.exclusive_streams import open_exclusive_pipe_writer
from mcptrio.transports.fd_streams import ATOMIC, ByteWriter, open_writer

__all__: list[str] = []

pytestmark = pytest.mark.skipif(sys.platform == "win32", reason="descriptors cannot be waited for there")


def fill(fd: int) -> None:
    os.set_blocking(fd, False)
    for size in (ATOMIC, 1):
        try:
            while True:
                os.write(fd, b"x" * size)
        except BlockingIOError:
            pass


def drain(fd: int) -> bytes:
    os.set_blocking(fd, False)
    drained = b""
    try:
        while True:
            drained += os.read(fd, 65536)
    except BlockingIOError:
        return drained


@pytest.fixture(params=["pipe", "shared pipe", "own pipe", "socket"])
async def ends(request: pytest.FixtureRequest) -> AsyncIterator[tuple[ByteWriter, int, int]]:
    """Yield a writer, a duplicate of the descriptor it writes to, and the descriptor to read from."""
    with ExitStack() as stack:
        if request.param == "socket":
            ours, theirs = socket.socketpair()
            fd, read = ours.detach(), theirs.detach()
        else:
            read, fd = os.pipe()
        stack.callback(os.close, read)
        again = os.dup(fd)
        stack.callback(os.close, again)
        if request.param == "shared pipe":
            os.set_blocking(again, False)
        opener: Callable[[int], ByteWriter] = open_exclusive_pipe_writer if request.param == "own pipe" else open_writer
        writer = opener(fd)
        stack.callback(writer.close)
        yield writer, again, read


async def test_short_line_is_written_completely(ends: tuple[ByteWriter, int, int]) -> None:
    writer, _, read = ends

    assert writer.write_whole(b"y" * ATOMIC)
    assert os.read(read, 2 * ATOMIC) == b"y" * ATOMIC


async def test_long_line_is_not_written_in_part(ends: tuple[ByteWriter, int, int]) -> None:
    writer, _, read = ends

    assert not writer.write_whole(b"y" * (ATOMIC + 1))
    assert drain(read) == b""


async def test_nothing_is_written_to_a_full_descriptor(ends: tuple[ByteWriter, int, int]) -> None:
    writer, fd, read = ends
    blocking = os.get_blocking(fd)
    fill(fd)
    os.set_blocking(fd, blocking)

    assert not writer.write_whole(b"y")
    assert set(drain(read)) == {ord("x")}


async def test_closed_descriptor_writes_nothing(ends: tuple[ByteWriter, int, int]) -> None:
    writer, _, _ = ends
    writer.close()

    assert not writer.write_whole(b"y")


async def test_disconnected_peer_fails_the_next_send() -> None:
    read, fd = os.pipe()
    os.close(read)
    writer = open_writer(fd)

    assert not writer.write_whole(b"y")
    with pytest.raises(BrokenPipeError):
        await writer.write_some(memoryview(b"y"))
    writer.close()
