"""Frames between the parent of workers and one of them, over a pair of sockets.

Used by both: the parent (:mod:`mcptrio.serve.workers`) has one for each worker, a worker (:mod:`mcptrio.serve.worker`)
has one. What goes over it: how to begin, that it serves, that it is to leave, and the news of the bus.
The one rule: nobody waits for the other side. What cannot be written at once is kept up to a bound, past which the
oldest news is lost; orders and topics are few, and never are.
"""

from __future__ import annotations

import socket
import struct
from collections import deque
from enum import IntEnum
from typing import Final

import trio

__all__ = ["BEAT_INTERVAL", "MAX_FRAME_BYTES", "Frame", "FrameKind", "WorkerLink", "read_first"]

MAX_FRAME_BYTES: Final = 16 * 1024 * 1024
"""Of one frame. News that are larger are not sent; a frame that says it is larger ends the link."""

BEAT_INTERVAL: Final = 1.0
"""Seconds between two frames that say that a worker is alive."""

_MAX_QUEUED_NEWS: Final = 1000
"""News that wait to be written; then the oldest is lost."""
_MAX_QUEUED_BYTES: Final = 32 * 1024 * 1024
"""Of the news that wait; then the oldest is lost."""
_HEAD: Final = struct.Struct("!IB")
_CHUNK: Final = 64 * 1024
_FIRST_FRAME_TIMEOUT: Final = 10.0
"""Seconds for the first frame, which is there before the worker is."""


class FrameKind(IntEnum):
    """What a frame says, and what its body is."""

    BEGIN = 1
    """To the worker, first: its number, its sockets, the key, the stores; JSON."""
    READY = 2
    """To the parent: it serves; the URLs, one a line."""
    LEAVE = 3
    """To the worker: accept nothing more, and go when those that are connected have been answered. No body."""
    FOLLOW = 4
    """To the parent: a topic that has a reader here."""
    UNFOLLOW = 5
    """To the parent: a topic that has none any more."""
    NEWS = 6
    """A message of the bus: two bytes for the length of its topic, the topic, the message."""
    ALIVE = 7
    """To the parent, each :data:`BEAT_INTERVAL` seconds: the event loop of the worker turns. No body."""


Frame = tuple[FrameKind, bytes]


class WorkerLink:
    """One end.

    Args:
        sock: owned from now on.
    """

    def __init__(self, sock: socket.socket) -> None:
        sock.setblocking(False)
        self._socket = sock
        self._arrived = bytearray()
        self._half = memoryview(b"")
        """The rest of a frame that is partly written."""
        self._orders: dict[tuple[FrameKind, bytes], bytes] = {}
        self._news: deque[bytes] = deque()
        self._news_bytes = 0
        self._waiting = trio.lowlevel.ParkingLot()
        self._closed = False
        self.lost = 0
        """News that were not sent."""

    # Sending

    def order(self, kind: FrameKind, body: bytes = b"", *, instead: FrameKind | None = None) -> None:
        """Send what must not get lost. Never waits.

        Args:
            instead: where a frame of that kind with the same body has not gone out yet, neither of the two does.
        """
        if instead is not None and self._orders.pop((instead, body), None) is not None:
            return
        self._orders[kind, body] = _encode(kind, body)
        self._write()

    def tell(self, topic: bytes, message: bytes) -> None:
        """Send a message of the bus, or lose it. Never waits."""
        self.forward(struct.pack("!H", len(topic)) + topic + message)

    def forward(self, news: bytes) -> None:
        """Send the body of a frame of news, as it came."""
        if len(news) >= MAX_FRAME_BYTES:
            self.lost += 1
            return
        frame = _encode(FrameKind.NEWS, news)
        self._news.append(frame)
        self._news_bytes += len(frame)
        while len(self._news) > _MAX_QUEUED_NEWS or self._news_bytes > _MAX_QUEUED_BYTES:
            self._news_bytes -= len(self._news.popleft())
            self.lost += 1
        self._write()

    async def send(self) -> None:
        """Write what could not be written at once. Runs until the link ends."""
        while not self._closed:
            if not self._write():
                await self._waiting.park()
                continue
            try:
                await trio.lowlevel.wait_writable(self._socket)
            except trio.ClosedResourceError:
                return

    def _write(self) -> bool:
        """Write what there is room for. Returns whether something is left."""
        while not self._closed:
            if not self._half:
                frame = self._next()
                if frame is None:
                    return False
                self._half = memoryview(frame)
            try:
                self._half = self._half[self._socket.send(self._half) :]
            except BlockingIOError:
                self._waiting.unpark_all()
                return True
            except OSError:  # the other side is gone, which its reader learns
                self._half = memoryview(b"")
                self._orders.clear()
                self._news.clear()
                self._news_bytes = 0
        return False

    def _next(self) -> bytes | None:
        if self._orders:
            return self._orders.pop(next(iter(self._orders)))
        if self._news:
            frame = self._news.popleft()
            self._news_bytes -= len(frame)
            return frame
        return None

    # Receiving

    async def receive(self) -> list[Frame]:
        """The frames that have arrived, at least one.

        Raises:
            trio.EndOfChannel: the other side is gone, or sends what is no frame.
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
        """What has not been written is not."""
        if not self._closed:
            self._closed = True
            trio.lowlevel.notify_closing(self._socket)
            self._socket.close()
            self._waiting.unpark_all()


def read_first(sock: socket.socket) -> Frame:
    """The first frame, read before anything runs. Blocks.

    Raises:
        OSError: there is none, or it is broken.
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
            raise OSError("the parent is gone")
        parts += data
    return bytes(parts)


def _encode(kind: FrameKind, body: bytes) -> bytes:
    return _HEAD.pack(len(body), kind) + body


def _decode(arrived: bytearray) -> list[Frame]:
    """Take the whole frames off the front.

    Raises:
        trio.EndOfChannel: what is there is no frame.
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
