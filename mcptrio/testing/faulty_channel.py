"""A channel on which things go wrong, as often and as late as a test says.

Wraps any channel of messages, on either end. What arrives passes one list of faults, what is sent another one.
The one rule: messages keep their order, as on a pipe. Behind one that is delayed the others wait, and so does whoever
sends them.
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
"""Seconds for closing the channel below when it is cut."""
_MAX_REQUESTS: Final = 10_000
"""Requests without an answer, whose methods are known."""


class FaultyChannel:
    """A :class:`mcptrio.abc.MessageChannel` over another one.

    Args:
        received: the faults that what arrives meets, in this order.
        sent: those of what is sent.

    Raises:
        ValueError: ``sent`` has a fault that only what arrives can meet.
    """

    def __init__(self, channel: MessageChannel, *, received: Sequence[Fault] = (), sent: Sequence[Fault] = ()) -> None:
        if any(fault.kind == "garble" for fault in sent):
            raise ValueError("garble: a channel sends only messages; garble what the other end receives")
        self.name = channel.name
        self._channel = channel
        self._received = _Way(tuple(received))
        self._sent = _Way(tuple(sent))
        self._arrived: deque[Incoming] = deque()
        """What the channel below has given in one go and has not been passed on."""
        self._head: _Passed | None = None
        self._head_due = 0.0
        self._end: Fault | None = self._received.cut_at_once() or self._sent.cut_at_once()
        self._waiting = trio.CancelScope()
        """Around whoever is in ``receive``, who must not go on waiting when the channel is cut."""

    async def receive(self) -> list[Incoming]:
        """See :class:`mcptrio.abc.MessageChannel`.

        Raises:
            trio.EndOfChannel, ConnectionClosed: as the channel below, or by a fault.
        """
        while True:
            await trio.lowlevel.checkpoint()
            if ready := self._pass_on():
                return ready
            if self._end is not None:
                await self._close_below()
                if self._end.clean:
                    raise trio.EndOfChannel
                raise self._broken()
            with trio.CancelScope() as self._waiting:
                if self._head is not None:
                    await trio.sleep_until(self._head_due)
                else:
                    self._arrived.extend(await self._channel.receive())

    async def send(self, messages: Sequence[Message | Sequence[Message]]) -> None:
        """See :class:`mcptrio.abc.MessageChannel`.

        Raises:
            ConnectionClosed: as the channel below, or by a fault.
        """
        await trio.lowlevel.checkpoint()
        if self._end is not None:
            await self._close_below()
            raise self._broken()
        going: list[Any] = []
        end: Fault | None = None
        for message in messages:
            self._received.learn(message)
            passed = self._sent.meet(message)
            if passed.seconds:
                await self._send_below(going)
                going = []
                await trio.sleep(passed.seconds)
            going += passed.items
            end = passed.end
            if end is not None:
                # The rest goes into a pipe with nobody at its other end; that is no error yet.
                break
        await self._send_below(going)
        if end is not None:
            self._cut(end)
            await self._close_below()

    async def aclose(self) -> None:
        """Close the channel below."""
        await self._channel.aclose()

    # Private

    def _pass_on(self) -> list[Incoming]:
        """Whatever is due."""
        ready: list[Incoming] = []
        while self._end is None and (self._head is not None or self._arrived):
            if self._head is None:
                message = self._arrived.popleft()
                self._sent.learn(message)
                self._head = self._received.meet(message)
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

    def _broken(self) -> ConnectionClosed:
        assert self._end is not None
        after = f"{self._end.after} messages" if self._end.after is not None else f"{self._end.after_bytes} bytes"
        return ConnectionClosed(f"the test has cut the channel after {after}")

    async def _send_below(self, messages: Sequence[Any]) -> None:
        if messages:
            await self._channel.send(messages)

    async def _close_below(self) -> None:
        with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
            await self._channel.aclose()


@frozen(kw_only=True)
class _Passed:
    """What became of one message."""

    items: list[Any]
    seconds: float = 0.0
    end: Fault | None = None


@define(eq=False)
class _Way:
    """One direction of a channel."""

    faults: tuple[Fault, ...]
    _messages: int = 0
    _bytes: int = 0
    _asked: dict[RequestId, str] = field(factory=dict)
    """Requests that went the other way, whose answers pass here. Of very many the oldest are forgotten."""

    def cut_at_once(self) -> Fault | None:
        return next((fault for fault in self.faults if 0 in (fault.after, fault.after_bytes)), None)

    def learn(self, item: Incoming | Sequence[Message]) -> None:
        """Note what has gone the other way."""
        for message in _messages_of(item):
            if isinstance(message, Request):
                self._asked[message.id] = message.method
                if len(self._asked) > _MAX_REQUESTS:
                    del self._asked[next(iter(self._asked))]

    def meet(self, item: Incoming | Sequence[Message]) -> _Passed:
        self._messages += 1
        if any(fault.after_bytes is not None for fault in self.faults):
            self._bytes += len(_bytes_of(item)) + 1
        items: list[Any] = [item]
        seconds = 0.0
        end: Fault | None = None
        for fault in self.faults:
            if fault.kind == "cut":
                if end is None:
                    end, items = self._cut_by(fault, items)
            elif self._meets(fault.which, item):
                if fault.kind == "delay":
                    seconds += fault.seconds
                elif fault.kind == "drop":
                    items = []
                else:
                    items = [_garbled(each) if fault.kind == "garble" else each for each in items * fault.times]
        return _Passed(items=items, seconds=seconds, end=end)

    def _cut_by(self, fault: Fault, items: list[Any]) -> tuple[Fault | None, list[Any]]:
        if fault.after is not None:
            return (fault if self._messages >= fault.after else None), items
        assert fault.after_bytes is not None
        if self._bytes < fault.after_bytes:
            return None, items
        return fault, items if self._bytes == fault.after_bytes else []

    def _meets(self, which: Which, item: Incoming | Sequence[Message]) -> bool:
        if which is None:
            return True
        if isinstance(which, int):
            return which == self._messages
        if isinstance(which, str):
            return any(fnmatchcase(self._method(message), which) for message in _messages_of(item))
        return any(which(message) for message in _messages_of(item))

    def _method(self, message: Message) -> str:
        if isinstance(message, Request | Notification):
            return message.method
        return self._asked.get(message.id, "") if message.id is not None else ""


def _messages_of(item: Incoming | Sequence[Message]) -> list[Message]:
    if isinstance(item, Malformed):
        return []
    if isinstance(item, Request | Notification | Response | ErrorResponse):
        return [item]
    return [each for each in (item.messages if isinstance(item, Batch) else item) if not isinstance(each, Malformed)]


def _bytes_of(item: Incoming | Sequence[Message]) -> bytes:
    messages = _messages_of(item)
    if not messages:
        return b""
    return encode(item if isinstance(item, Request | Notification | Response | ErrorResponse) else messages)


def _garbled(item: Incoming) -> Incoming:
    data = _bytes_of(item)
    return decode(data[: len(data) // 2] + b"\xff" * (len(data) - len(data) // 2))
