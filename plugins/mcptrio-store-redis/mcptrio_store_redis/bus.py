"""The bus over the channels of the engine.

Followers in this process get a message at once, and the copy from the engine is skipped. Every message begins with the
id of the replica that sent it.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

import trio

from mcptrio.abc import INBOX_MESSAGE, TASK_CHANGED, TASK_QUEUED, wake_message
from mcptrio.stores import Followers
from mcptrio_store_redis.commands import command
from mcptrio_store_redis.engine import RedisEngine
from mcptrio_store_redis.listener import ChannelListener

__all__ = ["LOST", "RedisBus"]

LOST: Final = b"lost"
"""Sent to all replicas if messages may be missing: some were not published, or a replica ended without closing."""
_TOPIC_BYTES: Final = 1024
# Messages that are delivered in one step of the event loop.
_MAX_PER_TURN: Final = 500
_WAKE: Final = wake_message("")
_SIGNALS: Final = (INBOX_MESSAGE, TASK_CHANGED, TASK_QUEUED)


class RedisBus:
    """Implements :class:`mcptrio.abc.Bus`. Created in a Trio task, to whose event loop it delivers."""

    def __init__(self, engine: RedisEngine) -> None:
        self._engine = engine
        self._sender = engine.replica.encode()
        self._followers = Followers(self._on_first, self._on_last)
        self._topics: dict[str, str] = {}
        self._token = trio.lowlevel.current_trio_token()
        self._wake_channel = engine.keys.wake(engine.replica)
        self.listener = ChannelListener(self._wake_channel, engine.keys.broadcast, self._schedule_delivery, is_signal)
        self.is_ready = trio.Event()

    def publish(self, topic: str, message: bytes) -> None:
        self._followers.deliver(topic, message)
        self.publish_lost()
        channel = self._engine.keys.channel(topic)
        self._engine.post(command(channel, "PUBLISH", channel, self._sender + message), is_message=True)

    def follow(self, topic: str, receive: Callable[[bytes | None], None]) -> Callable[[], None]:
        if len(topic.encode()) > _TOPIC_BYTES:
            raise ValueError(f"expected a topic of at most {_TOPIC_BYTES} bytes, got {len(topic.encode())}")
        return self._followers.add(topic, receive)

    def deliver_here(self, topic: str, message: bytes) -> None:
        """Pass a message to the followers of this process. The caller publishes it for the other replicas."""
        self._followers.deliver(topic, message)

    def deliver_channel(self, channel: str, message: bytes) -> None:
        """Pass a message to the followers of this process, by the channel of its topic."""
        topic = self._topics.get(channel)
        if topic is not None:
            self._followers.deliver(topic, message)

    def report_lost(self) -> None:
        """Tell the followers in all replicas that messages may have been lost."""
        self._followers.report_lost()
        self._engine.has_lost_messages = True
        self.publish_lost()

    def publish_lost(self) -> None:
        """Report lost messages to the followers in all replicas, if messages of this replica were not published."""
        if not self._engine.has_lost_messages:
            return
        self._engine.has_lost_messages = False
        broadcast = self._engine.keys.broadcast
        self._engine.post(command(broadcast, "PUBLISH", broadcast, self._sender + LOST), is_message=True)

    def _on_first(self, topic: str) -> None:
        channel = self._engine.keys.channel(topic)
        self._topics[channel] = topic
        self._change(channel, is_wanted=True)

    def _on_last(self, topic: str) -> None:
        channel = self._engine.keys.channel(topic)
        self._topics.pop(channel, None)
        self._change(channel, is_wanted=False)

    def _change(self, channel: str, *, is_wanted: bool) -> None:
        if self.listener.change(channel, is_wanted=is_wanted):
            # The listener's thread waits for its socket, so only a message from the engine wakes it.
            self._engine.post(command(self._wake_channel, "PUBLISH", self._wake_channel, b""))

    def _schedule_delivery(self) -> None:
        """Schedule the delivery. Called in the listener's thread."""
        self._token.run_sync_soon(self._deliver)

    def _deliver(self) -> None:
        messages, has_lost, has_more = self.listener.take(_MAX_PER_TURN)
        if has_more:
            self._token.run_sync_soon(self._deliver)
        if has_lost:
            self.is_ready.set()
            self._followers.report_lost()
        for channel, payload in messages:
            if payload is None:
                topic = self._topics.get(channel)
                if topic is not None:
                    # The subscription has begun; messages since the call of follow() may be missing.
                    self._followers.deliver(topic, None)
            elif not payload.startswith(self._sender):
                self._deliver_one(channel, payload[len(self._sender) :])

    def _deliver_one(self, channel: str, message: bytes) -> None:
        if channel == self._engine.keys.broadcast:
            self._followers.report_lost()
        else:
            self.deliver_channel(channel, message)


def is_signal(payload: bytes) -> bool:
    """Return True if a message only makes readers read a store, so that one of two equal messages can be dropped."""
    message = payload[16:]
    return message.startswith(_WAKE) or message in _SIGNALS
