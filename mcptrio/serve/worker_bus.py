"""The bus between the workers of one parent, which forwards each message to the workers with followers of its topic.

A worker has the :class:`WorkerBus`, the parent the :class:`BusRelay`. A bus may lose messages but must not delay
publishers: every queue is bounded and drops its oldest entry.
"""

from __future__ import annotations

import logging
import struct
from collections.abc import Callable

from mcptrio.serve.worker_link import MAX_FRAME_BYTES, FrameKind, WorkerLink
from mcptrio.stores.followers import Followers

__all__ = ["BusRelay", "WorkerBus"]

_log = logging.getLogger("mcptrio.workers")


class WorkerBus:
    """The :class:`mcptrio.abc.Bus` in a worker.

    Args:
        link: The link to the parent.
    """

    def __init__(self, link: WorkerLink) -> None:
        self._link = link
        self._followers = Followers(
            on_first=lambda topic: link.queue(FrameKind.FOLLOW, topic.encode(), opposite=FrameKind.UNFOLLOW),
            on_last=lambda topic: link.queue(FrameKind.UNFOLLOW, topic.encode(), opposite=FrameKind.FOLLOW),
        )

    def publish(self, topic: str, message: bytes) -> None:
        """Deliver a message in this process, and send it to the parent unless it has 16 MiB or more."""
        name = topic.encode()
        if len(message) + len(name) + 2 >= MAX_FRAME_BYTES:
            _log.warning("message not sent to the other workers: bytes=%d limit=%d", len(message), MAX_FRAME_BYTES)
        self._link.publish(name, message)
        self._followers.deliver(topic, message)

    def follow(self, topic: str, receive: Callable[[bytes | None], None]) -> Callable[[], None]:
        """Receive the messages of a topic. Those of other workers arrive once the parent has the FOLLOW frame."""
        return self._followers.add(topic, receive)

    def report_lost(self) -> None:
        """Tell all followers that messages of other workers may have been lost."""
        self._followers.report_lost()

    def deliver(self, body: bytes) -> None:
        """Deliver the body of a MESSAGE frame from the parent."""
        topic, message = _decode(body)
        self._followers.deliver(topic.decode("utf-8", "replace"), message)


class BusRelay:
    """The topics that each worker follows, in the parent."""

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
        """Remove a worker that has ended."""
        for topic in tuple(self._topics.get(link, ())):
            self.unfollow(link, topic)
        self._topics.pop(link, None)

    def report_lost(self, sender: WorkerLink) -> None:
        """Tell the other workers that messages of this one were dropped."""
        for link in self._topics:
            if link is not sender:
                link.queue(FrameKind.LOST)

    def forward(self, sender: WorkerLink, body: bytes) -> None:
        """Forward the body of a MESSAGE frame to the other workers that follow its topic."""
        topic, _ = _decode(body)
        for link in self._followers.get(topic, ()):
            if link is not sender:
                link.forward(body)


def _decode(body: bytes) -> tuple[bytes, bytes]:
    """Return topic and message. A truncated body yields what it contains."""
    if len(body) < 2:
        return b"", b""
    (size,) = struct.unpack_from("!H", body)
    return body[2 : 2 + size], body[2 + size :]
