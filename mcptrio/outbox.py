"""The queue between the tasks that send to a peer and the one task that writes.

Sessions and requests fill an outbox as their :class:`mcptrio.abc.MessageSink`; one writer per channel or stream empties
it. Messages leave in the order of their arrival, so a result never overtakes an earlier message. The number of messages
and their bytes are bounded.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Callable, Sequence
from contextlib import suppress
from typing import TypeAlias

import trio

from mcptrio.errors import ConnectionClosed
from mcptrio.ground.waiter import Waiter
from mcptrio.protocol.jsonrpc import encoded_size
from mcptrio.protocol.limits import MAX_QUEUED_BYTES
from mcptrio.protocol.messages import Message, Notification

__all__ = ["MAX_COALESCED", "Item", "Outbox"]

MAX_COALESCED = 256
"""Notifications that a full outbox keeps outside its queue, one per key, so that no change to a list or resource is
lost."""

Item: TypeAlias = Message | Sequence[Message]
"""A message, or a sequence of messages that becomes one JSON-RPC batch."""


class Outbox:
    """A bounded queue of outgoing messages, in which a newer notification replaces a queued one with the same key.

    Args:
        max_messages: Maximum number of queued messages, at least 1; a batch counts as one.
        max_bytes: Bytes of JSON at which senders start to wait, at least 1. The last queued message may exceed the
            limit, so that a larger message can be sent at all.
        write_now: Writes a whole message without blocking and returns True; or writes nothing and returns False.
    """

    def __init__(
        self,
        max_messages: int = 1000,
        *,
        max_bytes: int = MAX_QUEUED_BYTES,
        write_now: Callable[[Message], bool] | None = None,
    ) -> None:
        for name, bound in (("max_messages", max_messages), ("max_bytes", max_bytes)):
            if bound < 1:
                raise ValueError(f"{name}: expected at least 1, got {bound}")
        self._max = max_messages
        self._max_bytes = max_bytes
        # Bytes of the first _measured messages of the queue. Measuring means encoding, so a message is measured only
        # when the next one arrives; by then the writer has usually taken it.
        self._bytes = 0
        self._measured = 0
        self._write_now = write_now
        self._queue: list[Item] = []
        # The index in the queue of each notification of send_latest(), by key.
        self._replaceable: dict[object, int] = {}
        # Notifications of send_latest() that came while the outbox was full, the newest of each key.
        self._coalesced: OrderedDict[object, Notification] = OrderedDict()
        # Tasks that wait for room, in order, each with its message; None for wait_for_room(). Empty unless the outbox
        # is full.
        self._senders: deque[tuple[Waiter[None], Item | None]] = deque()
        self._idle_writers = trio.lowlevel.ParkingLot()
        self._closed = False
        self._aborted = False
        self._is_woken = False

    @property
    def closed(self) -> bool:
        """True if no more messages are accepted. Some may still be queued."""
        return self._closed

    @property
    def full(self) -> bool:
        """True if a send would have to wait."""
        return not self._has_room()

    def __len__(self) -> int:
        return len(self._queue)

    async def send(self, message: Item) -> None:
        """Queue a message, waiting in line while the outbox is full.

        Raises:
            ConnectionClosed: The outbox is closed, or was closed during the wait.
        """
        if self._closed:
            raise ConnectionClosed("the message cannot be sent: the outbox is closed")
        # Not a checkpoint while there is room: every message passes here, and a task that sends in a loop soon waits
        # for the writer. A send that is cancelled while it waits has queued nothing.
        if not self._queue or self._has_room():
            self._queue.append(message)
            if self._idle_writers:
                self._idle_writers.unpark()
            return
        await self._wait_turn(message)

    def send_now(self, message: Message) -> bool:
        """Write a message past the queue if the queue is empty and the writer is idle.

        This saves the switch to the writer task, a tenth of the time of a call. Several messages should be queued, so
        that they become one write.

        Returns:
            False if the message was not written and must still be sent.
        """
        write_now = self._write_now
        return (
            write_now is not None
            and bool(self._idle_writers)
            and not (self._queue or self._closed)
            and write_now(message)
        )

    async def wait_for_room(self) -> None:
        """Wait until a send would not block. Executes a checkpoint only if it waits.

        The task that reads from the peer calls this, so that a peer that does not read its answers cannot send more
        requests.

        Raises:
            ConnectionClosed: The outbox is closed, or was closed during the wait.
        """
        if self._closed:
            raise ConnectionClosed("the outbox is closed")
        if self._queue and not self._has_room():
            # In line with the senders, which could otherwise refill the queue for ever.
            await self._wait_turn(None)

    def send_latest(self, message: Notification, key: object) -> None:
        """Queue a message that only matters while it is the newest with its key. Does not block.

        A full outbox replaces the queued message with the same key; if there is none, it keeps the newest message of
        each key, for up to :data:`MAX_COALESCED` keys, until there is room. Does nothing on a closed outbox.
        """
        if self._closed:
            return
        if not self._queue or self._has_room():
            self._replaceable[key] = len(self._queue)
            self._queue.append(message)
            if self._idle_writers:
                self._idle_writers.unpark()
        elif (index := self._replaceable.get(key)) is not None:
            # The replaced message was already measured.
            if index < self._measured:
                self._bytes += encoded_size(message) - encoded_size(self._queue[index])
            self._queue[index] = message
        elif key in self._coalesced or len(self._coalesced) < MAX_COALESCED:
            self._coalesced[key] = message

    async def take(self, *, until_woken: bool = False) -> list[Item]:
        """Return all queued messages, waiting for at least one. Only the writer may call this.

        Executes a checkpoint only if it waits. If cancelled, it leaves everything queued.

        Args:
            until_woken: Return an empty list once :meth:`wake_writer` was called.

        Raises:
            trio.EndOfChannel: The outbox is closed and empty.
            ConnectionClosed: The outbox was aborted.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not (until_woken and self._is_woken):
            if self._queue:
                return self.try_take()
            if self._aborted:
                raise ConnectionClosed("the outbox was aborted")
            if self._closed:
                raise trio.EndOfChannel
            await self._idle_writers.park()
        return []

    def wake_writer(self) -> None:
        """Make a pending or later ``take(until_woken=True)`` return."""
        # Costs less than a cancel scope around each take.
        self._is_woken = True
        if self._idle_writers:
            self._idle_writers.unpark_all()

    def try_take(self) -> list[Item]:
        """Return all queued messages, possibly none. Does not block."""
        taken = self._queue
        self._queue = []
        self._bytes = self._measured = 0
        self._replaceable.clear()
        # Notifications of send_latest() come first: they may overtake the messages of waiting senders.
        while self._coalesced and self._has_room():
            key, notification = self._coalesced.popitem(last=False)
            self._replaceable[key] = len(self._queue)
            self._queue.append(notification)
        while self._senders and self._has_room():
            waiter, message = self._senders.popleft()
            if waiter.set(None) and message is not None:
                self._queue.append(message)
        return taken

    def close(self) -> None:
        """Accept no more messages. Queued ones can still be taken; tasks that wait for room get ConnectionClosed."""
        if self._closed:
            return
        self._closed = True
        self._queue += self._coalesced.values()
        self._coalesced.clear()
        while self._senders:
            waiter, _ = self._senders.popleft()
            waiter.fail(ConnectionClosed("the message was not sent: the outbox was closed"))
        if self._idle_writers:
            self._idle_writers.unpark_all()

    def release(self, retry_ms: int) -> bool:
        """Return False, because the peer cannot reconnect for the remaining messages."""
        return False

    def abort(self) -> None:
        """Close the outbox and drop all queued messages; all waiting tasks get ConnectionClosed."""
        self.close()
        self._aborted = True
        self._queue.clear()
        self._bytes = self._measured = 0
        self._replaceable.clear()

    # Private

    def _has_room(self) -> bool:
        queue = self._queue
        if len(queue) >= self._max:
            return False
        while self._measured < len(queue):
            self._bytes += encoded_size(queue[self._measured])
            self._measured += 1
        return self._bytes < self._max_bytes

    async def _wait_turn(self, message: Item | None) -> None:
        waiter: Waiter[None] = Waiter()
        sender = waiter, message
        self._senders.append(sender)
        try:
            await waiter.wait()
        except trio.Cancelled:
            # try_take() skips cancelled senders, but it may not run for long while the peer does not read.
            with suppress(ValueError):
                self._senders.remove(sender)
            raise
