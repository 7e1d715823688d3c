"""The bus of the workers of one parent: what one publishes, the parent hands on to those that follow the topic.

A worker has :class:`WorkerBus`, the parent :class:`BusRelay`; nothing of a message but its topic is looked at.
The one rule: a bus may lose anything and delays nobody. Every queue on the way is bounded, and loses its oldest.
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

_MAX_TOPIC_BYTES: Final = 1024


class WorkerBus:
    """The port :class:`mcptrio.abc.Bus`, in a worker.

    Args:
        queue: messages waiting for one reader; when it is full the oldest is lost.
    """

    def __init__(self, link: WorkerLink, *, queue: int = 1000) -> None:
        self._link = link
        self._queue = queue
        self._topics: dict[str, set[Subscription]] = {}

    async def publish(self, topic: str, message: bytes) -> None:
        """Hand a message to the readers here, and to the parent. Messages of 16 MiB and more stay here.

        Raises:
            ValueError: the topic is longer than 1024 bytes.
        """
        await trio.lowlevel.checkpoint()
        name = _encode(topic)
        if len(message) + len(name) + 2 >= MAX_FRAME_BYTES:
            _log.warning(
                "news of %d bytes do not reach the other workers: the limit is %d", len(message), MAX_FRAME_BYTES
            )
        self._link.tell(name, message)
        self._hand_out(topic, message)

    @asynccontextmanager
    async def subscribe(self, topic: str) -> AsyncIterator[AsyncIterator[bytes]]:
        """Messages published from now on, here, and elsewhere as soon as the parent has heard of it."""
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
        """The body of a frame of news has come from the parent."""
        topic, message = _decode(news)
        self._hand_out(topic.decode("utf-8", "replace"), message)

    def _hand_out(self, topic: str, message: bytes) -> None:
        for subscription in self._topics.get(topic, ()):
            subscription.put(message)


class BusRelay:
    """Which worker follows which topic, in the parent. It holds as many topics as the workers do."""

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
        """A worker is gone."""
        for topic in tuple(self._topics.get(link, ())):
            self.unfollow(link, topic)
        self._topics.pop(link, None)

    def pass_on(self, sender: WorkerLink, news: bytes) -> None:
        """Hand the body of a frame of news to those that follow its topic, but for who sent it."""
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
    """Topic and message; of what is cut off, what there is."""
    if len(news) < 2:
        return b"", b""
    (size,) = struct.unpack_from("!H", news)
    return news[2 : 2 + size], news[2 + size :]
