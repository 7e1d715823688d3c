"""The bus: ``NOTIFY`` in the transactions of the writer, and one connection that listens.

A notification names topics by their keys, so that other roles of the database cannot read session ids. Followers in
this process get messages directly.

Source: PostgreSQL 15 documentation, "NOTIFY": a payload has fewer than 8000 bytes.
"""

from __future__ import annotations

import base64
import binascii
import logging
import threading
from collections.abc import Callable, Sequence
from functools import partial
from typing import Final

import orjson
import psycopg
import trio

from mcptrio.abc import Bus, session_topic
from mcptrio.errors import StoreFailed
from mcptrio.stores import Followers
from mcptrio_store_postgres.database import PostgresDatabase, no_statement
from mcptrio_store_postgres.keys import SessionKeys, topic_key
from mcptrio_store_postgres.links import Connection, PostgresLink
from mcptrio_store_postgres.operations import DatabaseOperation, OperationBatch

__all__ = ["OtherBusPublisher", "PostgresBus"]

_MAX_PAYLOAD_BYTES: Final = 7900
# Bytes. In place of a longer message, other replicas deliver None.
_MAX_MESSAGE_BYTES: Final = 5000
# Messages, and their bytes, that wait for the next transaction.
_MAX_WAITING: Final = 4096
_MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
# Notifications that are delivered together. If more have arrived, followers are told that messages may be lost.
_MAX_RECEIVED: Final = 1000
# Seconds after which a silent connection is checked.
_PING_INTERVAL: Final = 5.0
_FIRST_PAUSE: Final = 0.1
_MAX_PAUSE: Final = 2.0

_log = logging.getLogger("mcptrio.stores")


class PostgresBus:
    """Implements :class:`mcptrio.abc.Bus`, and publishes the messages of transactions.

    Args:
        database: Sends the notifications.
        replica: The id of this process.
        timeout: Seconds that a command of the listener may take.
    """

    def __init__(self, database: PostgresDatabase, *, replica: str, timeout: float) -> None:
        self._database = database
        self._replica = replica
        self._channel = database.address.schema
        self._followers = Followers(self._on_first, self._on_last)
        self._topics: dict[str, str] = {}
        self._token = trio.lowlevel.current_trio_token()
        self._link = PostgresLink(database.address, timeout=timeout, on_connect=self._listen)
        database.links.append(self._link)
        self._limiter = trio.CapacityLimiter(1)
        self._is_listening = False
        # Shared with the writer's thread.
        self._lock = threading.Lock()
        self._waiting: list[tuple[str, bytes | None]] = []
        self._waiting_bytes = 0
        self._has_lost = False

    def publish(self, topic: str, message: bytes) -> None:
        self._followers.deliver(topic, message)
        with self._lock:
            is_first = not self._waiting
            if len(self._waiting) >= _MAX_WAITING or self._waiting_bytes + len(message) > _MAX_WAITING_BYTES:
                self._has_lost = True
            else:
                self._waiting.append((topic_key(topic), message))
                self._waiting_bytes += len(message)
        if is_first:
            # If the queue of the writer is full, its next transaction sends the message.
            self._database.post(DatabaseOperation(no_statement, None))

    def follow(self, topic: str, receive: Callable[[bytes | None], None]) -> Callable[[], None]:
        return self._followers.add(topic, receive)

    def report_lost(self) -> None:
        """Tell the followers on all replicas that messages may have been lost."""
        self._followers.report_lost()
        self._has_lost = True
        self._database.post(DatabaseOperation(no_statement, None))

    async def run(self) -> None:
        """Listen until cancelled."""
        pause = 0.0
        try:
            while True:
                try:
                    await self._in_thread(_nothing)
                    # Also after the first connection, because there may already be followers.
                    self._is_listening = True
                    self._followers.report_lost()
                    pause = 0.0
                    while True:
                        await self._receive()
                except (StoreFailed, psycopg.Error, OSError) as error:
                    if not pause:
                        _log.warning("bus: not connected: %s", error)
                self._is_listening = False
                pause = min(_MAX_PAUSE, pause * 2 or _FIRST_PAUSE)
                await trio.sleep(pause)
        finally:
            self._link.close()

    # Called by the writer's thread

    def take_payloads(self) -> list[str]:
        with self._lock:
            waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            has_lost, self._has_lost = self._has_lost, False
        return self._payloads(waiting, has_lost=has_lost)

    def note_lost(self) -> None:
        self._has_lost = True

    def send(self, batch: OperationBatch, taken: Sequence[str]) -> None:
        payloads = [*taken, *self._payloads(batch.messages, has_lost=False)]
        if payloads:
            batch.connection.execute(
                "SELECT pg_notify(%s, payload) FROM unnest(%b::text[]) AS payload", (self._channel, payloads)
            )

    def committed(self, messages: Sequence[tuple[str, bytes | None]]) -> None:
        if messages:
            self._token.run_sync_soon(self._deliver, messages)

    # In the event loop

    def _on_first(self, topic: str) -> None:
        self._topics[topic_key(topic)] = topic
        if self._is_listening:
            # The follower may have missed messages, so it reads the store once. Not at once, because the follower does
            # not expect a call before follow() has returned.
            self._token.run_sync_soon(self._followers.deliver, topic, None)

    def _on_last(self, topic: str) -> None:
        self._topics.pop(topic_key(topic), None)

    def _deliver(self, messages: Sequence[tuple[str, bytes | None]]) -> None:
        for key, message in messages:
            topic = self._topics.get(key)
            if topic is not None:
                self._followers.deliver(topic, message)

    async def _receive(self) -> None:
        connection = self._link.connection
        if connection is None:
            raise StoreFailed(f"{self._database.address.label}: the connection is closed")
        is_silent = True
        with trio.move_on_after(_PING_INTERVAL):
            await trio.lowlevel.wait_readable(connection.fileno())
            is_silent = False
        payloads = await self._in_thread(partial(_received_payloads, is_silent=is_silent))
        if len(payloads) > _MAX_RECEIVED:
            self._followers.report_lost()
            return
        for payload in payloads:
            self._read(payload)
            await trio.lowlevel.checkpoint()

    async def _in_thread(self, work: Callable[[Connection], list[str]]) -> list[str]:
        return await trio.to_thread.run_sync(self._link.use, work, limiter=self._limiter)

    def _read(self, payload: str) -> None:
        try:
            sender, has_lost, messages = orjson.loads(payload)
            decoded = [
                (str(key), None if text is None else base64.b64decode(text, validate=True)) for key, text in messages
            ]
        except (ValueError, TypeError, binascii.Error):
            # Any role of the database may send notifications.
            _log.warning("bus: expected a notification of mcptrio on channel %s, got %.40r", self._channel, payload)
            return
        if sender == self._replica:
            # The followers of this process have got these messages directly.
            return
        self._deliver(decoded)
        if has_lost:
            self._followers.report_lost()

    def _listen(self, connection: Connection) -> None:
        # The prefix is a checked identifier.
        connection.execute(f"LISTEN {self._channel}".encode())

    def _payloads(self, messages: Sequence[tuple[str, bytes | None]], *, has_lost: bool) -> list[str]:
        payloads: list[str] = []
        items: list[tuple[str, str | None]] = []
        size = 0
        for key, message in messages:
            text = None if message is None or len(message) > _MAX_MESSAGE_BYTES else base64.b64encode(message).decode()
            cost = len(key) + len(text or "") + 16
            if items and size + cost > _MAX_PAYLOAD_BYTES - 100:
                payloads.append(self._payload(has_lost, items))
                items, size, has_lost = [], 0, False
            items.append((key, text))
            size += cost
        if items or has_lost:
            payloads.append(self._payload(has_lost, items))
        return payloads

    def _payload(self, has_lost: bool, items: list[tuple[str, str | None]]) -> str:
        return orjson.dumps((self._replica, has_lost, items)).decode()


class OtherBusPublisher:
    """Publishes the messages about sessions on the bus of another engine.

    Args:
        keys: The ids of sessions. Messages about a session that this process has not used are not published.
    """

    def __init__(self, bus: Bus, keys: SessionKeys) -> None:
        self._bus = bus
        self._keys = keys
        self._token = trio.lowlevel.current_trio_token()

    def take_payloads(self) -> list[str]:
        return []

    def note_lost(self) -> None:
        pass

    def send(self, batch: OperationBatch, taken: Sequence[str]) -> None:
        pass

    def committed(self, messages: Sequence[tuple[str, bytes | None]]) -> None:
        if messages:
            self._token.run_sync_soon(self._publish, messages)

    def _publish(self, messages: Sequence[tuple[str, bytes | None]]) -> None:
        for key, message in messages:
            id = self._keys.id(key)
            if id is not None and message is not None:
                self._bus.publish(session_topic(id), message)


def _nothing(_: Connection) -> list[str]:
    return []


def _received_payloads(connection: Connection, *, is_silent: bool) -> list[str]:
    if is_silent:
        # Detects a server that has disappeared without closing the connection.
        connection.execute("SELECT 1")
    return [each.payload for each in connection.notifies(timeout=0)]
