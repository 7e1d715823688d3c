"""Frames between the parent of workers and one worker, over a socket pair.

The parent (:mod:`mcptrio.serve.workers`) has one link per worker, a worker (:mod:`mcptrio.serve.worker`) has one.
Frames carry the start parameters, readiness, the order to leave, and bus messages. Neither side waits for the other:
frames are queued if the socket is full, and above a limit the oldest bus message is dropped. Other frames are few and
are never dropped.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from enum import IntEnum
from typing import Final

import trio

__all__ = ["ALIVE_INTERVAL", "MAX_FRAME_BYTES", "Frame", "FrameKind", "WorkerLink", "read_first"]

MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
"""Largest frame in bytes. Larger bus messages are not sent; a larger incoming frame ends the link."""

ALIVE_INTERVAL: Final = 1.0
"""Seconds between two ALIVE frames."""

# Bus messages in the queue; above it the oldest is dropped.
_MAX_QUEUED_MESSAGES: Final = 1000
# Bytes of bus messages in the queue; above it the oldest is dropped.
_MAX_QUEUED_BYTES: Final = 32 * 1024 * 1024
_HEAD: Final = struct.Struct("!IB")
_CHUNK: Final = 64 * 1024
# Seconds for the first frame, which the parent writes before the worker starts to read.
_FIRST_FRAME_TIMEOUT: Final = 10.0


class FrameKind(IntEnum):
    """The kind of a frame, which determines its body."""

    BEGIN = 1
    """To the worker, the first frame: its start parameters as JSON, see ``WorkerStart``."""
    READY = 2
    """To the parent: the worker serves requests. The body has the URLs, one per line."""
    LEAVE = 3
    """To the worker: accept no more connections, serve the open ones until the timeouts, and exit. No body."""
    FOLLOW = 4
    """To the parent: the topic in the body has a follower in the worker."""
    UNFOLLOW = 5
    """To the parent: the topic in the body no longer has a follower in the worker."""
    MESSAGE = 6
    """A bus message: the length of its topic in two bytes, the topic, the message."""
    ALIVE = 7
    """To the parent, every :data:`ALIVE_INTERVAL` seconds: the worker's event loop is responsive. No body."""
    LOST = 8
    """Bus messages of the sender were dropped. No body."""


Frame = tuple[FrameKind, bytes]


class WorkerLink:
    """One end of a link.

    Args:
        sock: The socket; the link owns it.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._arrived = bytearray()
        # The rest of a frame that was written in part.
        self._partial_frame = memoryview(b"")
        self._frames: dict[tuple[FrameKind, bytes], bytes] = {}
        self._messages: deque[bytes] = deque()
        self._message_bytes = 0
        self._waiting = trio.lowlevel.ParkingLot()
        self._closed = False
        # The number of bus messages that were dropped.
        self.lost = 0

    # Sending

    def queue(self, kind: FrameKind, body: bytes = b"", *, opposite: FrameKind | None = None) -> None:
        """Queue a frame that must not be dropped. Does not block.

        Args:
            kind: The kind of the frame.
            body: The body of the frame.
            opposite: The opposite kind. If a frame of that kind with the same body is in the queue, both are omitted.
        """
        if opposite is not None and self._frames.pop((opposite, body), None) is not None:
            return
        self._frames[kind, body] = _encode(kind, body)
        self._write()

    def publish(self, topic: bytes, message: bytes) -> None:
        """Queue a bus message, or drop it. Does not block."""
        self.forward(struct.pack("!H", len(topic)) + topic + message)

    def forward(self, body: bytes) -> None:
        """Queue the body of a MESSAGE frame unchanged."""
        if len(body) >= MAX_FRAME_BYTES:
            self._report_lost()
            return
        frame = _encode(FrameKind.MESSAGE, body)
        self._messages.append(frame)
        self._message_bytes += len(frame)
        while len(self._messages) > _MAX_QUEUED_MESSAGES or self._message_bytes > _MAX_QUEUED_BYTES:
            self._message_bytes -= len(self._messages.popleft())
            self._report_lost()
        self._write()

    def _report_lost(self) -> None:
        self.lost += 1
        # At most one such frame is in the queue, before the messages. Followers then read the stores.
        self._frames[FrameKind.LOST, b""] = _encode(FrameKind.LOST, b"")

    async def send(self) -> None:
        """Write queued frames whenever the socket has room, until the link is closed."""
        while not self._closed:
            if not self._write():
                await self._waiting.park()
                continue
            try:
                await trio.lowlevel.wait_writable(self._socket)
            except trio.ClosedResourceError:
                return

    def _write(self) -> bool:
        """Write as much as the socket accepts. Return True if frames are left."""
        while not self._closed:
            if not self._partial_frame:
                frame = self._next_frame()
                if frame is None:
                    return False
                self._partial_frame = memoryview(frame)
            try:
                self._partial_frame = self._partial_frame[self._socket.send(self._partial_frame) :]
            except BlockingIOError:
                self._waiting.unpark_all()
                return True
            # The other side has ended; the reader of this link handles that.
            except OSError:
                self._partial_frame = memoryview(b"")
                self._frames.clear()
                self._messages.clear()
                self._message_bytes = 0
        return False

    def _next_frame(self) -> bytes | None:
        if self._frames:
            # Before bus messages, whose stream may never end.
            return self._frames.pop(next(iter(self._frames)))
        if self._messages:
            frame = self._messages.popleft()
            self._message_bytes -= len(frame)
            return frame
        return None

    # Receiving

    async def receive(self) -> list[Frame]:
        """Return the frames that have arrived, at least one.

        Raises:
            trio.EndOfChannel: The other side has ended, or sent an invalid frame.
        """
        while True:
            frames = _decode(self._arrived)
            if frames:
                await trio.lowlevel.checkpoint()
                return frames
            try:
                data = self._socket.recv(_CHUNK)
            except BlockingIOError:
                try:
                    await trio.lowlevel.wait_readable(self._socket)
                except trio.ClosedResourceError as error:
                    raise trio.EndOfChannel from error
                continue
            except OSError as error:
                raise trio.EndOfChannel from error
            if not data:
                raise trio.EndOfChannel
            self._arrived += data

    def close(self) -> None:
        """Close the link; queued frames are discarded."""
        if not self._closed:
            self._closed = True
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
            self._waiting.unpark_all()


def read_first(sock: socket.socket) -> Frame:
    """Read the first frame; blocks.

    Raises:
        OSError: The link is closed or the frame is invalid.
    """
    sock.settimeout(_FIRST_FRAME_TIMEOUT)
    head = _read(sock, _HEAD.size)
    size, kind = _HEAD.unpack(head)
    if size > MAX_FRAME_BYTES or kind != FrameKind.BEGIN:
        raise OSError("expected the first frame of a parent, got something else")
    return FrameKind.BEGIN, _read(sock, size)


def _read(sock: socket.socket, size: int) -> bytes:
    parts = bytearray()
    while len(parts) < size:
        data = sock.recv(size - len(parts))
        if not data:
            raise OSError("the parent process has ended")
        parts += data
    return bytes(parts)


def _encode(kind: FrameKind, body: bytes) -> bytes:
    return _HEAD.pack(len(body), kind) + body


def _decode(arrived: bytearray) -> list[Frame]:
    """Remove the complete frames from the front of the buffer and return them.

    Raises:
        trio.EndOfChannel: The bytes are not a frame.
    """
    frames: list[Frame] = []
    at = 0
    while len(arrived) - at >= _HEAD.size:
        size, kind = _HEAD.unpack_from(arrived, at)
        if size > MAX_FRAME_BYTES or kind not in _KINDS:
            raise trio.EndOfChannel
        end = at + _HEAD.size + size
        if end > len(arrived):
            break
        frames.append((FrameKind(kind), bytes(arrived[at + _HEAD.size : end])))
        at = end
    del arrived[:at]
    return frames


_KINDS: Final = frozenset(int(kind) for kind in FrameKind)
