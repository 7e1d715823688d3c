"""The inbox of a stream of HTTP with SSE, for messages whose POST has reached another replica than the stream.

:mod:`mcptrio.http.server.legacy_sse` uses it if there are other replicas. The session store has a record of each
stream, with its principal. The replica that gets a POST puts the message into the inbox of that record. The replica
with the stream reads the inbox.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import Final

import trio

from mcptrio.abc import Principal, SessionRecord
from mcptrio.errors import ConnectionClosed, StoreFailed
from mcptrio.http.server.decoder import MessageDecoder
from mcptrio.http.server.legacy_channel import LegacyChannel
from mcptrio.http.server.replicas import Notice
from mcptrio.http.server.session import SharedSessionState
from mcptrio.protocol.messages import Incoming

__all__ = ["LegacyInbox", "belongs_to", "put_message"]

_POLL_INTERVAL: Final = 5.0
"""Seconds after which the inbox is read without an announcement, because the bus may lose messages."""
_TOUCH_INTERVAL: Final = 60.0
"""Seconds between two reports to the store that the stream is open. Stores expire sessions after much longer."""
_CLOSE_TIMEOUT: Final = 1.0
"""Seconds for deleting the record. A record that is not deleted expires."""

_log = logging.getLogger("mcptrio.http.sessions")


class LegacyInbox:
    """The inbox of one stream of this process.

    All messages of the session pass through it in order: the messages in the inbox precede one that has reached this
    process. So if the client sends a message after another one was acknowledged, the session receives them in order.

    Args:
        id: The id of the session.
        channel: The channel that gets the messages.
    """

    def __init__(self, id: str, channel: LegacyChannel, shared: SharedSessionState, decoder: MessageDecoder) -> None:
        self._key = _key(id)
        self._channel = channel
        self._shared = shared
        self._decoder = decoder
        self._position = 0
        """The number of messages of the inbox that the session has received."""
        self._delivering = trio.Lock()
        self._announced = trio.Event()
        self._next_touch = 0.0
        self._unfollow: Callable[[], None] | None = None

    async def open(self) -> None:
        """Let other replicas find the stream.

        Raises:
            StoreFailed: The record could not be stored.
            Overloaded: The store has too many records.
        """
        self._next_touch = trio.current_time() + _TOUCH_INTERVAL
        self._unfollow = self._shared.replicas.follow(self._key, self._handle_notice)
        # The record has no revision, so a request of another transport cannot continue the session.
        await self._shared.store.save(SessionRecord(id=self._key, revision="", principal=self._channel.principal))

    async def run(self) -> None:
        """Pass messages of other replicas to the session until it ends. Breaks the channel if the record was
        deleted."""
        failed = False
        while True:
            # Replaced before the inbox is read, so that an announcement during the read leads to another read.
            announced = self._announced = trio.Event()
            try:
                async with self._delivering:
                    await self._deliver_stored()
                await self._touch()
                failed = False
            except StoreFailed as error:
                if not failed:
                    _log.error("inbox of an SSE session not read: %s", error)
                failed = True
            except ConnectionClosed:
                return
            with trio.move_on_after(_POLL_INTERVAL):
                await announced.wait()

    async def deliver(self, incoming: Incoming) -> None:
        """Deliver the message of a POST that has reached this process; see :meth:`LegacyChannel.deliver`.

        Raises:
            ConnectionClosed: The session has ended.
            StoreFailed: The inbox, whose messages come first, could not be read. The message was not delivered.
        """
        async with self._delivering:
            await self._deliver_stored()
            await self._channel.deliver(incoming)

    async def close(self) -> None:
        """Delete the record, so that no replica accepts messages. Takes at most a second, also when cancelled."""
        if self._unfollow is not None:
            self._unfollow()
        with trio.move_on_after(_CLOSE_TIMEOUT, shield=True):
            try:
                # The record is deleted first. A message that another replica puts before that is dropped below.
                await self._shared.store.delete(self._key)
                await self._shared.events.drop(self._key)
            except StoreFailed as error:
                _log.error("SSE session not deleted: %s", error)

    def _handle_notice(self, notice: Notice, what: str) -> None:
        if notice is Notice.END:
            self._next_touch = 0.0
        if notice in (Notice.INBOX, Notice.LOST, Notice.END):
            self._announced.set()

    async def _deliver_stored(self) -> None:
        """Pass the messages of the inbox to the session.

        Raises:
            StoreFailed: The inbox could not be read.
            ConnectionClosed: The session has ended.
        """
        while True:
            messages, following = await self._shared.events.inbox(self._key, self._position)
            if following - len(messages) > self._position:
                # The client got a 202 for each of them. Only the end of its stream can tell it about the loss.
                self._channel.end("the inbox was full: the client sends more than it reads")
                raise ConnectionClosed("messages of the inbox were dropped")
            if not messages:
                return
            for message in messages:
                await self._channel.deliver(self._decoder.decode_now(message, self._channel.owner))
                self._position += 1

    async def _touch(self) -> None:
        now = trio.current_time()
        if now < self._next_touch:
            return
        # Loading a record tells the store that the session is in use.
        if await self._shared.store.load(self._key) is None:
            self._channel.end("the session has expired")
            raise ConnectionClosed("the session has expired")
        self._next_touch = now + _TOUCH_INTERVAL


async def belongs_to(shared: SharedSessionState, id: str, principal: Principal | None) -> bool:
    """Return whether a replica has a stream with this id, which this principal has opened with the same scopes.

    Raises:
        StoreFailed: The record cannot be read.
    """
    record = await shared.store.load(_key(id))
    return record is not None and record.principal == principal


async def put_message(shared: SharedSessionState, id: str, message: bytes) -> None:
    """Store a message for the replica with the stream.

    Raises:
        StoreFailed: The store has failed. Whether it has stored the message is not known.
        ConnectionClosed: The session has ended.
    """
    key = _key(id)
    await shared.events.put(key, message)
    try:
        is_open = await shared.store.load(key) is not None
    except StoreFailed:
        # The message is stored, so a refusal would be wrong.
        is_open = True
    if not is_open:
        # The session has ended, and its replica may have dropped the inbox before the message was put into it.
        await shared.events.drop(key)
        raise ConnectionClosed("the session has ended")


def _key(id: str) -> str:
    """Return the id of the record, which differs from all ids of sessions of Streamable HTTP."""
    return f"sse:{id}"
