"""A message channel with faults, for tests.

It wraps either end of any message channel. Messages keep their order, as on a pipe: a delayed message also delays the
messages after it, and their sender.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Sequence
from fnmatch import fnmatchcase
from typing import Any, Final

import trio
from attrs import define, field, frozen

from mcptrio.abc import MessageChannel
from mcptrio.errors import ConnectionClosed
from mcptrio.protocol.jsonrpc import decode, encode
from mcptrio.protocol.messages import (
    Batch,
    ErrorResponse,
    Incoming,
    Malformed,
    Message,
    Notification,
    Request,
    RequestId,
    Response,
)
from mcptrio.testing.faults import Fault, Which

__all__ = ["FaultyChannel"]

_CLOSE_TIMEOUT: Final = 1.0
"""Seconds to close the wrapped channel when a fault cuts it."""
_MAX_REQUESTS: Final = 10_000
"""Unanswered requests whose methods are stored."""


class FaultyChannel:
    """A :class:`mcptrio.abc.MessageChannel` that applies faults to another channel.

    Args:
        channel: The channel to wrap.
        received: Faults of received messages, applied in this order.
        sent: Faults of sent messages.

    Raises:
        ValueError: ``sent`` contains :func:`garble`, which affects received messages only.
    """

    def __init__(self, channel: MessageChannel, *, received: Sequence[Fault] = (), sent: Sequence[Fault] = ()) -> None:
        if any(fault.kind == "garble" for fault in sent):
            raise ValueError("garble: a channel sends only messages; garble what the other end receives")
        self.name = channel.name
        self._channel = channel
        self._received = _Direction(tuple(received))
        self._sent = _Direction(tuple(sent))
        self._arrived: deque[Incoming] = deque()
        """Received messages that are not delivered yet."""
        self._head: _Outcome | None = None
        """The outcome of the next message to deliver, once its faults have been determined."""
        self._head_due = 0.0
        self._end: Fault | None = self._received.cut_at_start() or self._sent.cut_at_start()
        """The fault that has cut the channel."""
        self._waiting = trio.CancelScope()
        """Surrounds the wait in :meth:`receive`, which ends when the channel is cut."""

    async def receive(self) -> list[Incoming]:
        """Receive messages; see :class:`mcptrio.abc.MessageChannel`.

        Raises:
            trio.EndOfChannel, ConnectionClosed: As the wrapped channel, or because of a fault.
        """
        while True:
            await trio.lowlevel.checkpoint()
            if ready := self._take_due():
                return ready
            if self._end is not None:
                await self._close_wrapped()
                if self._end.clean:
                    raise trio.EndOfChannel
                raise self._cut_error()
            with trio.CancelScope() as self._waiting:
                if self._head is not None:
                    await trio.sleep_until(self._head_due)
                else:
                    self._arrived.extend(await self._channel.receive())

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """Send messages; see :class:`mcptrio.abc.MessageChannel`.

        Raises:
            ConnectionClosed: As the wrapped channel, or because of a fault.
        """
        await trio.lowlevel.checkpoint()
        if self._end is not None:
            await self._close_wrapped()
            raise self._cut_error()
        outgoing: list[Any] = []
        end: Fault | None = None
        for message in messages:
            self._received.note_requests(message)
            outcome = self._sent.apply(message)
            # Messages before the delayed one are sent first.
            if outcome.seconds:
                await self._send_wrapped(outgoing)
                outgoing = []
                await trio.sleep(outcome.seconds)
            outgoing += outcome.items
            end = outcome.end
            if end is not None:
                # The other messages are lost without an error, as on a pipe whose reader has just closed it.
                break
        await self._send_wrapped(outgoing)
        if end is not None:
            self._cut(end)
            await self._close_wrapped()

    async def aclose(self) -> None:
        """Close the wrapped channel."""
        await self._channel.aclose()

    # Private

    def _take_due(self) -> list[Incoming]:
        """Return the messages that are due, up to the first one that is delayed."""
        ready: list[Incoming] = []
        while self._end is None and (self._head is not None or self._arrived):
            if self._head is None:
                message = self._arrived.popleft()
                self._sent.note_requests(message)
                self._head = self._received.apply(message)
                self._head_due = trio.current_time() + self._head.seconds
            if trio.current_time() < self._head_due:
                break
            ready += self._head.items
            if self._head.end is not None:
                self._cut(self._head.end)
            self._head = None
        return ready

    def _cut(self, fault: Fault) -> None:
        self._end = fault
        self._waiting.cancel()

    def _cut_error(self) -> ConnectionClosed:
        assert self._end is not None
        after = f"{self._end.after} messages" if self._end.after is not None else f"{self._end.after_bytes} bytes"
        return ConnectionClosed(f"the test has cut the channel after {after}")

    async def _send_wrapped(self, messages: Sequence[Any]) -> None:
        if messages:
            await self._channel.send(messages)

    async def _close_wrapped(self) -> None:
        with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
            await self._channel.aclose()


@frozen(kw_only=True)
class _Outcome:
    """The effect of all faults of a direction on one message.

    Args:
        items: The messages to deliver instead.
        seconds: The delay.
        end: The fault that cuts the channel after the message.
    """

    items: list[Any]
    seconds: float = 0.0
    end: Fault | None = None


@define(eq=False)
class _Direction:
    """The faults of one direction, with the numbers and methods of the messages that they select."""

    faults: tuple[Fault, ...]
    _messages: int = 0
    """The number of messages so far."""
    _bytes: int = 0
    """The number of bytes so far, if a fault depends on it."""
    _methods_by_id: dict[RequestId, str] = field(factory=dict)
    """The methods of requests in the other direction, whose answers pass in this one. When full, the oldest is removed.
    """

    def cut_at_start(self) -> Fault | None:
        """Return the fault that cuts the channel before the first message."""
        return next((fault for fault in self.faults if 0 in (fault.after, fault.after_bytes)), None)

    def note_requests(self, item: Incoming | Sequence[Message]) -> None:
        """Store the methods of the requests in a message of the other direction."""
        for message in _messages_of(item):
            if isinstance(message, Request):
                self._methods_by_id[message.id] = message.method
                if len(self._methods_by_id) > _MAX_REQUESTS:
                    del self._methods_by_id[next(iter(self._methods_by_id))]

    def apply(self, item: Incoming | Sequence[Message]) -> _Outcome:
        """Count a message, and apply the faults to it."""
        self._messages += 1
        if any(fault.after_bytes is not None for fault in self.faults):
            # With the line feed of the stdio framing.
            self._bytes += len(_bytes_of(item)) + 1
        items: list[Any] = [item]
        seconds = 0.0
        end: Fault | None = None
        for fault in self.faults:
            if fault.kind == "cut":
                if end is None:
                    end, items = self._cut_by(fault, items)
            elif self._matches(fault.which, item):
                if fault.kind == "delay":
                    seconds += fault.seconds
                elif fault.kind == "drop":
                    items = []
                else:
                    items = [_garble(each) if fault.kind == "garble" else each for each in items * fault.times]
        return _Outcome(items=items, seconds=seconds, end=end)

    def _cut_by(self, fault: Fault, items: list[Any]) -> tuple[Fault | None, list[Any]]:
        """Return the fault if it cuts the channel at this message, and the messages that are still delivered."""
        if fault.after is not None:
            return (fault if self._messages >= fault.after else None), items
        assert fault.after_bytes is not None
        if self._bytes < fault.after_bytes:
            return None, items
        return fault, items if self._bytes == fault.after_bytes else []

    def _matches(self, which: Which, item: Incoming | Sequence[Message]) -> bool:
        if which is None:
            return True
        if isinstance(which, int):
            return which == self._messages
        if isinstance(which, str):
            return any(fnmatchcase(self._method(message), which) for message in _messages_of(item))
        return any(which(message) for message in _messages_of(item))

    def _method(self, message: Message) -> str:
        """Return the method of a message, or of the request that a response answers; empty if unknown."""
        if isinstance(message, Request | Notification):
            return message.method
        return self._methods_by_id.get(message.id, "") if message.id is not None else ""


def _messages_of(item: Incoming | Sequence[Message]) -> list[Message]:
    if isinstance(item, Malformed):
        return []
    if isinstance(item, Request | Notification | Response | ErrorResponse):
        return [item]
    return [each for each in (item.messages if isinstance(item, Batch) else item) if not isinstance(each, Malformed)]


def _bytes_of(item: Incoming | Sequence[Message]) -> bytes:
    """Return the encoded message or batch; empty for a malformed one."""
    messages = _messages_of(item)
    if not messages:
        return b""
    return encode(item if isinstance(item, Request | Notification | Response | ErrorResponse) else messages)


def _garble(item: Incoming) -> Incoming:
    data = _bytes_of(item)
    return decode(data[: len(data) // 2] + b"\xff" * (len(data) - len(data) // 2))
