"""The bus of the workers of one parent: the parent forwards each message to the workers with subscribers to its topic.

A worker has the :class:`WorkerBus`, the parent the :class:`BusRelay`. A bus may lose messages but must not delay
publishers: every queue is bounded and drops its oldest entry.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio

from mcptrio.serve.worker_link import MAX_FRAME_BYTES, FrameKind, WorkerLink
from mcptrio.stores.subscription import Subscription

__all__ = ["BusRelay", "WorkerBus"]

_log = logging.getLogger("mcptrio.workers")

# Longest topic; its length has two bytes in a frame.
_MAX_TOPIC_BYTES: Final = 1024


class WorkerBus:
    """The :class:`mcptrio.abc.Bus` in a worker.

    Args:
        link: The link to the parent.
        queue: Messages that wait for one subscriber. When full, the oldest is dropped.
    """

    def __init__(self, link: WorkerLink, *, queue: int = 1000) -> None:
        self._link = link
        self._queue = queue
        self._topics: dict[str, set[Subscription]] = {}

    async def publish(self, topic: str, message: bytes) -> None:
        """Deliver a message to the subscribers in this process, and send it to the parent unless it has 16 MiB or more.

        Raises:
            ValueError: The topic is longer than 1024 bytes.
        """
        await trio.lowlevel.checkpoint()
        name = _encode(topic)
        if len(message) + len(name) + 2 >= MAX_FRAME_BYTES:
            _log.warning("message not sent to the other workers: bytes=%d limit=%d", len(message), MAX_FRAME_BYTES)
        self._link.tell(name, message)
        self._hand_out(topic, message)

    @asynccontextmanager
    async def subscribe(self, topic: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Receive the messages of a topic from now on.

        Messages of other workers arrive once the parent knows of the subscription.
        """
        name = _encode(topic)
        subscription = Subscription(self._queue)
        readers = self._topics.setdefault(topic, set())
        if not readers:
            self._link.order(FrameKind.FOLLOW, name, instead=FrameKind.UNFOLLOW)
        readers.add(subscription)
        try:
            yield subscription
        finally:
            readers.discard(subscription)
            if not readers:
                del self._topics[topic]
                self._link.order(FrameKind.UNFOLLOW, name, instead=FrameKind.FOLLOW)

    def arrived(self, news: bytes) -> None:
        """Deliver the body of a NEWS frame from the parent."""
        topic, message = _decode(news)
        self._hand_out(topic.decode("utf-8", "replace"), message)

    def _hand_out(self, topic: str, message: bytes) -> None:
        for subscription in self._topics.get(topic, ()):
            subscription.put(message)


class BusRelay:
    """The subscriptions of all workers by topic, in the parent."""

    def __init__(self) -> None:
        self._followers: dict[bytes, set[WorkerLink]] = {}
        self._topics: dict[WorkerLink, set[bytes]] = {}

    def follow(self, link: WorkerLink, topic: bytes) -> None:
        self._followers.setdefault(topic, set()).add(link)
        self._topics.setdefault(link, set()).add(topic)

    def unfollow(self, link: WorkerLink, topic: bytes) -> None:
        followers = self._followers.get(topic)
        if followers is not None:
            followers.discard(link)
            if not followers:
                del self._followers[topic]
        self._topics.get(link, set()).discard(topic)

    def remove(self, link: WorkerLink) -> None:
        """Remove the subscriptions of a worker that has ended."""
        for topic in tuple(self._topics.get(link, ())):
            self.unfollow(link, topic)
        self._topics.pop(link, None)

    def pass_on(self, sender: WorkerLink, news: bytes) -> None:
        """Forward the body of a NEWS frame to the other workers with subscribers to its topic."""
        topic, _ = _decode(news)
        for link in self._followers.get(topic, ()):
            if link is not sender:
                link.forward(news)


def _encode(topic: str) -> bytes:
    name = topic.encode()
    if len(name) > _MAX_TOPIC_BYTES:
        raise ValueError(f"expected a topic of at most {_MAX_TOPIC_BYTES} bytes, got one of {len(name)}")
    return name


def _decode(news: bytes) -> tuple[bytes, bytes]:
    """Return topic and message. A truncated body yields what it contains."""
    if len(news) < 2:
        return b"", b""
    (size,) = struct.unpack_from("!H", news)
    return news[2 : 2 + size], news[2 + size :]
