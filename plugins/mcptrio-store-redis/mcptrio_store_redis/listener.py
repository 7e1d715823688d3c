"""The thread that receives messages from the channels of the engine.

Only the thread uses its connection. Tasks change the wanted channels under a lock, and wake the thread, which waits for
its socket, through a channel of its own.
"""

from __future__ import annotations

import logging
import threading
import time
from collections import deque
from collections.abc import Callable
from typing import Any, Final

from redis import RedisError

from mcptrio_store_redis.links import ERRORS, RedisLink

__all__ = ["ChannelListener"]

# Seconds for which the thread waits for its socket, and so until it notices that it is stopped.
_POLL_SECONDS: Final = 0.5
# Seconds without a message after which the thread sends a ping. After twice as many the connection is lost.
_PING_AFTER_SECONDS: Final = 2.0
_BACKOFF: Final = (0.05, 0.1, 0.25, 0.5, 1.0, 2.0)
# Channels in one SUBSCRIBE.
_MAX_CHANNELS: Final = 500
# Messages that wait for the event loop. If there are more, all are dropped, and the loss is reported.
MAX_MESSAGES: Final = 10_000
MAX_BYTES: Final = 16 * 1024 * 1024

_log = logging.getLogger("mcptrio.stores")


class _PingTimeout(RedisError):
    """The connection did not answer a ping."""


class ChannelListener:
    """Receives the messages of channels in a thread, for the event loop.

    Args:
        wake_channel: The channel that wakes this thread.
        broadcast: The channel of all replicas.
        on_arrival: A function called in the thread when there are messages to take. It is not called again before
            :meth:`take` has taken them.
        is_signal: Returns True for a message of which one copy in the queue is enough.
    """

    def __init__(
        self, wake_channel: str, broadcast: str, on_arrival: Callable[[], None], is_signal: Callable[[bytes], bool]
    ) -> None:
        self._own_channels = (wake_channel, broadcast)
        self._on_arrival = on_arrival
        self._is_signal = is_signal
        self._stop = threading.Event()
        self._lock = threading.Lock()
        self._wanted_channels: set[str] = set()
        self._changes: dict[str, bool] = {}
        self._messages: deque[tuple[str, bytes | None]] = deque()
        self._signals: set[tuple[str, bytes]] = set()
        self._bytes = 0
        self._has_lost = False
        self._is_pending = False

    def change(self, channel: str, *, is_wanted: bool) -> bool:
        """Subscribe to a channel, or unsubscribe. Does not block.

        Returns:
            True if the caller must wake the thread.
        """
        with self._lock:
            is_idle = not self._changes
            self._changes[channel] = is_wanted
            if is_wanted:
                self._wanted_channels.add(channel)
            else:
                self._wanted_channels.discard(channel)
            return is_idle

    def take(self, limit: int) -> tuple[list[tuple[str, bytes | None]], bool, bool]:
        """Return messages with their channels, True if others were lost, and True if there are more.

        The message ``None`` means that the subscription to its channel has begun.
        """
        with self._lock:
            messages = [self._messages.popleft() for _ in range(min(limit, len(self._messages)))]
            for channel, payload in messages:
                if payload is not None:
                    self._bytes -= len(payload)
                    self._signals.discard((channel, payload))
            has_lost, self._has_lost = self._has_lost, False
            self._is_pending = bool(self._messages)
            return messages, has_lost, self._is_pending

    def stop(self) -> None:
        """Make :meth:`run` return, within half a second if the engine answers."""
        self._stop.set()

    def run(self, link: RedisLink) -> None:
        """Receive until stopped, and connect again after a failure. Blocks; called in the thread that owns the link."""
        failures = 0
        while not self._stop.is_set():
            began = time.monotonic()
            try:
                self._listen(link)
            except ERRORS as error:
                if time.monotonic() - began > _PING_AFTER_SECONDS:
                    failures = 0
                if not failures and not self._stop.is_set():
                    _log.warning("%s: messages of other replicas are missing: %s", link.label, error)
            finally:
                link.reset()
            self._stop.wait(_BACKOFF[min(failures, len(_BACKOFF) - 1)])
            failures += 1

    def _listen(self, link: RedisLink) -> None:
        pubsub: Any = link.node(self._own_channels[0]).client.pubsub()
        try:
            with self._lock:
                self._changes.clear()
                channels = list(self._wanted_channels)
            _subscribe(pubsub, [*channels, *self._own_channels])
            expected = len(set(channels)) + len(self._own_channels)
            answered_at, pinged_at = time.monotonic(), 0.0
            while not self._stop.is_set():
                self._apply_changes(pubsub)
                message = pubsub.get_message(timeout=_POLL_SECONDS)
                now = time.monotonic()
                if message is not None:
                    answered_at = now
                    if expected and message["type"] == "subscribe":
                        expected -= 1
                        if not expected:
                            # All subscriptions have begun. Any message before may have been missed.
                            self._note_lost()
                    else:
                        self._receive(message)
                elif now - answered_at > 2 * _PING_AFTER_SECONDS:
                    raise _PingTimeout(f"no answer to a ping for {now - answered_at:.0f} s")
                elif now - answered_at > _PING_AFTER_SECONDS and now - pinged_at > _PING_AFTER_SECONDS:
                    pinged_at = now
                    pubsub.ping()
        finally:
            pubsub.close()

    def _apply_changes(self, pubsub: Any) -> None:
        with self._lock:
            changes, self._changes = self._changes, {}
        new_channels = [channel for channel, is_wanted in changes.items() if is_wanted]
        ended = [channel for channel, is_wanted in changes.items() if not is_wanted]
        for at in range(0, len(ended), _MAX_CHANNELS):
            pubsub.unsubscribe(*ended[at : at + _MAX_CHANNELS])
        _subscribe(pubsub, new_channels)

    def _receive(self, message: dict[str, Any]) -> None:
        kind, channel = message["type"], message["channel"]
        if kind not in ("message", "subscribe"):
            return
        name = channel.decode() if isinstance(channel, bytes) else channel
        if name == self._own_channels[0]:
            return
        payload: bytes | None = message["data"] if kind == "message" else None
        with self._lock:
            if not self._store(name, payload) or self._is_pending:
                return
            self._is_pending = True
        self._on_arrival()

    def _store(self, channel: str, payload: bytes | None) -> bool:
        """Store a message for the event loop. Return True if there is something new to take."""
        size = len(payload or b"")
        if len(self._messages) >= MAX_MESSAGES or self._bytes + size > MAX_BYTES:
            self._messages.clear()
            self._signals.clear()
            self._bytes = 0
            self._has_lost = True
            return True
        if payload is not None and self._is_signal(payload):
            if (channel, payload) in self._signals:
                return False
            self._signals.add((channel, payload))
        self._messages.append((channel, payload))
        self._bytes += size
        return True

    def _note_lost(self) -> None:
        with self._lock:
            self._has_lost = True
            is_pending, self._is_pending = self._is_pending, True
        if not is_pending:
            self._on_arrival()


def _subscribe(pubsub: Any, channels: list[str]) -> None:
    for at in range(0, len(channels), _MAX_CHANNELS):
        pubsub.subscribe(*channels[at : at + _MAX_CHANNELS])
