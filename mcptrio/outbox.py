"""The queue between those who send to a peer and the one task that writes.

Filled by sessions and requests through :class:`mcptrio.abc.MessageSink`; drained by one writer per channel or stream.
The one rule: what comes out is in the order in which it went in, so a result never overtakes what was sent before it.
It is bounded in messages and in bytes: a full outbox makes :meth:`Outbox.send` wait, and :meth:`Outbox.offer` give up.
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
"""Offers a full outbox keeps beside its queue: news of lists and subscribed resources must not get lost."""

Item: TypeAlias = Message | Sequence[Message]
"""A message, or a sequence of messages that becomes one JSON-RPC batch."""


class Outbox:
    """A bounded queue of outgoing messages in which the newest of a kind can replace the one still queued.

    Args:
        max_messages: how many may be queued, at least 1; a batch counts as one.
        max_bytes: how much JSON may be queued before the next sender waits, at least 1. The last message queued may
            exceed it, so one that is larger than the bound is sent all the same.
        write_now: writes a message at once, whole, and says so; or nothing of it.
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
        self._bytes = 0
        """Size of the first ``_weighed`` messages of the queue. A message is encoded to find out its size, which is
        done when the next one comes: usually the writer has taken it by then."""
        self._weighed = 0
        self._write_now = write_now
        self._queue: list[Item] = []
        self._offers: dict[object, int] = {}
        """Key of an offer to its place in the queue; forgotten when the queue is taken."""
        self._coalesced: OrderedDict[object, Notification] = OrderedDict()
        """Offers for which there was no room, by key."""
        self._senders: deque[tuple[Waiter[None], Item | None]] = deque()
        """Those that wait for room, in order, with what they send: nothing for a reader. Not empty only while the
        queue is full."""
        self._takers = trio.lowlevel.ParkingLot()
        self._closed = False
        self._aborted = False
        self._is_woken = False

    @property
    def closed(self) -> bool:
        """Whether nothing more is accepted; something may still be queued."""
        return self._closed

    @property
    def full(self) -> bool:
        """Whether a send would have to wait."""
        return not self._has_room()

    def __len__(self) -> int:
        return len(self._queue)

    async def send(self, message: Item) -> None:
        """Queue a message; waits while the outbox is full, first come first served.

        While there is room this is neither a checkpoint nor a point of cancellation: it is on the path of every
        message, and a sender that loops ends up waiting for the writer when the outbox is full. A send cancelled
        while it waits has queued nothing.

        Raises:
            ConnectionClosed: the outbox is closed, or was closed while this waited.
        """
        if self._closed:
            raise ConnectionClosed("the message cannot be sent: the outlet is closed")
        if not self._queue or self._has_room():
            self._queue.append(message)
            if self._takers:
                self._takers.unpark()
            return
        await self._wait_turn(message)

    def send_now(self, message: Message) -> bool:
        """Write a message past the queue, if nothing is queued and the writer has nothing to do.

        Saves who sends a single message the switch to the writer, a tenth of a call; several messages are better
        queued, since then they are one write.

        Returns:
            Whether it was written; otherwise it is still to be sent.
        """
        write_now = self._write_now
        return write_now is not None and bool(self._takers) and not (self._queue or self._closed) and write_now(message)

    async def wait_for_room(self) -> None:
        """Return when a send would not have to wait. For who reads from the peer: whoever floods us waits with us.

        A checkpoint only where it has to wait.

        Raises:
            ConnectionClosed: the outbox is closed, or was closed while this waited.
        """
        if self._closed:
            raise ConnectionClosed("the outlet is closed")
        if self._queue and not self._has_room():
            # In line with the senders: many of them could refill the queue for ever.
            await self._wait_turn(None)

    def offer(self, message: Notification, key: object) -> None:
        """Queue a message that only matters while it is the newest with its key. Never waits.

        While there is room it is queued like any other. In a full outbox it takes the place of the one with the same
        key that is still queued, or is held back, the newest of each key, until there is room; of more than
        :data:`MAX_COALESCED` keys the rest is dropped. On a closed outbox nothing happens.
        """
        if self._closed:
            return
        if not self._queue or self._has_room():
            self._offers[key] = len(self._queue)
            self._queue.append(message)
            if self._takers:
                self._takers.unpark()
        elif (place := self._offers.get(key)) is not None:
            if place < self._weighed:
                self._bytes += encoded_size(message) - encoded_size(self._queue[place])
            self._queue[place] = message
        elif key in self._coalesced or len(self._coalesced) < MAX_COALESCED:
            self._coalesced[key] = message

    async def take(self, *, until_woken: bool = False) -> list[Item]:
        """Everything queued, at least one message. For the one writer.

        A checkpoint only where it has to wait; cancelled, it leaves everything queued.

        Args:
            unless_poked: come back with nothing once somebody has called :meth:`wake_reader`.

        Raises:
            trio.EndOfChannel: closed, and everything has been taken.
            ConnectionClosed: aborted.
        """
        await trio.lowlevel.checkpoint_if_cancelled()
        while not (until_woken and self._is_woken):
            if self._queue:
                return self.try_take()
            if self._aborted:
                raise ConnectionClosed("the outlet was aborted")
            if self._closed:
                raise trio.EndOfChannel
            await self._takers.park()
        return []

    def wake_reader(self) -> None:
        """Who takes, or will, and has asked for this, shall not wait any longer. Cheaper than a scope around them."""
        self._is_woken = True
        if self._takers:
            self._takers.unpark_all()

    def try_take(self) -> list[Item]:
        """Everything queued, possibly nothing. Never waits."""
        taken = self._queue
        self._queue = []
        self._bytes = self._weighed = 0
        self._offers.clear()
        # Before those who wait: what was held back was there when they came, or is newer and harmless.
        while self._coalesced and self._has_room():
            key, held = self._coalesced.popitem(last=False)
            self._offers[key] = len(self._queue)
            self._queue.append(held)
        while self._senders and self._has_room():
            waiter, message = self._senders.popleft()
            if waiter.set(None) and message is not None:
                self._queue.append(message)
        return taken

    def close(self) -> None:
        """Accept nothing more. What is queued can still be taken; who waits for room gets ConnectionClosed."""
        if self._closed:
            return
        self._closed = True
        self._queue += self._coalesced.values()
        self._coalesced.clear()
        while self._senders:
            waiter, _ = self._senders.popleft()
            waiter.fail(ConnectionClosed("the message was not sent: the outlet was closed"))
        if self._takers:
            self._takers.unpark_all()

    def release(self, retry_ms: int) -> bool:
        """Never: who reads here cannot come back for the rest."""
        return False

    def abort(self) -> None:
        """Drop everything that is queued; everybody who waits gets ConnectionClosed."""
        self.close()
        self._aborted = True
        self._queue.clear()
        self._bytes = self._weighed = 0
        self._offers.clear()

    # Private

    def _has_room(self) -> bool:
        queue = self._queue
        if len(queue) >= self._max:
            return False
        while self._weighed < len(queue):
            self._bytes += encoded_size(queue[self._weighed])
            self._weighed += 1
        return self._bytes < self._max_bytes

    async def _wait_turn(self, message: Item | None) -> None:
        waiter: Waiter[None] = Waiter()
        sender = waiter, message
        self._senders.append(sender)
        try:
            await waiter.wait()
        except trio.Cancelled:
            # What has been cancelled is passed over, but must not pile up while the peer does not read.
            with suppress(ValueError):
                self._senders.remove(sender)
            raise
