"""The bus: ``NOTIFY`` with each transaction that has something to announce, and one connection that listens.

A notification names topics by their keys, so that other roles of the database read no session ids. Followers in this
process get messages without the engine.

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
from mcptrio_store_postgres.works import DatabaseWork, WorkBatch

__all__ = ["ForeignWakes", "PostgresBus"]

_PAYLOAD_BYTES: Final = 7900
# Bytes. A longer message is not sent; other replicas deliver None instead.
_MAX_MESSAGE: Final = 5000
# Messages, and their bytes, that wait for the next transaction.
_MAX_WAITING: Final = 4096
_MAX_WAITING_BYTES: Final = 4 * 1024 * 1024
# Notifications delivered at once; after more, followers look for themselves.
_MAX_RECEIVED: Final = 1000
# Seconds after which a silent connection is checked.
_PING_INTERVAL: Final = 5.0
_FIRST_PAUSE: Final = 0.1
_MAX_PAUSE: Final = 2.0

_log = logging.getLogger("mcptrio.stores")


class PostgresBus:
    """
    Args:
        database: Sends the notifications.
        replica: The id of this process.
        timeout: Seconds that a command of the listener may take.
    """

    def __init__(self, database: PostgresDatabase, *, replica: str, timeout: float) -> None:
        self._database = database
        self._replica = replica
        self._channel = database.address.schema
        self._followers = Followers(self._first, self._last)
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
            # If the queue is full, the next transaction of another work takes the message along.
            self._database.post(DatabaseWork(no_statement, None))

    def follow(self, topic: str, receive: Callable[[bytes | None], None]) -> Callable[[], None]:
        return self._followers.add(topic, receive)

    def report_lost(self) -> None:
        """Make the followers on all replicas look for themselves."""
        self._followers.report_lost()
        self._has_lost = True
        self._database.post(DatabaseWork(no_statement, None))

    async def run(self) -> None:
        """Listen until cancelled."""
        pause = 0.0
        try:
            while True:
                try:
                    await self._in_thread(_nothing)
                    # Also the first time: followers may be older than the connection.
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

    def take(self) -> list[str]:
        with self._lock:
            waiting, self._waiting, self._waiting_bytes = self._waiting, [], 0
            has_lost, self._has_lost = self._has_lost, False
        return self._payloads(waiting, has_lost=has_lost)

    def lost(self) -> None:
        self._has_lost = True

    def send(self, batch: WorkBatch, taken: Sequence[str]) -> None:
        payloads = [*taken, *self._payloads(batch.wakes, has_lost=False)]
        if payloads:
            batch.connection.execute(
                "SELECT pg_notify(%s, payload) FROM unnest(%b::text[]) AS payload", (self._channel, payloads)
            )

    def committed(self, wakes: Sequence[tuple[str, bytes | None]]) -> None:
        if wakes:
            self._token.run_sync_soon(self._deliver, wakes)

    # In the event loop

    def _first(self, topic: str) -> None:
        self._topics[topic_key(topic)] = topic
        if self._is_listening:
            # The follower may have missed messages, so it reads the store once. Delivered later: it does not expect a
            # call before follow() has returned.
            self._token.run_sync_soon(self._followers.deliver, topic, None)

    def _last(self, topic: str) -> None:
        self._topics.pop(topic_key(topic), None)

    def _deliver(self, wakes: Sequence[tuple[str, bytes | None]]) -> None:
        for key, message in wakes:
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
        payloads = await self._in_thread(partial(_received, is_silent=is_silent))
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
            sender, has_lost, wakes = orjson.loads(payload)
            decoded = [
                (str(key), None if text is None else base64.b64decode(text, validate=True)) for key, text in wakes
            ]
        except (ValueError, TypeError, binascii.Error):
            # Any role of the database may send notifications.
            _log.warning("bus: expected a notification of mcptrio on channel %s, got %.40r", self._channel, payload)
            return
        if sender == self._replica:
            # Its followers have got these messages already.
            return
        self._deliver(decoded)
        if has_lost:
            self._followers.report_lost()

    def _listen(self, connection: Connection) -> None:
        # The prefix is a checked identifier.
        connection.execute(f"LISTEN {self._channel}".encode())

    def _payloads(self, wakes: Sequence[tuple[str, bytes | None]], *, has_lost: bool) -> list[str]:
        found: list[str] = []
        items: list[tuple[str, str | None]] = []
        size = 0
        for key, message in wakes:
            text = None if message is None or len(message) > _MAX_MESSAGE else base64.b64encode(message).decode()
            cost = len(key) + len(text or "") + 16
            if items and size + cost > _PAYLOAD_BYTES - 100:
                found.append(self._payload(has_lost, items))
                items, size, has_lost = [], 0, False
            items.append((key, text))
            size += cost
        if items or has_lost:
            found.append(self._payload(has_lost, items))
        return found

    def _payload(self, has_lost: bool, items: list[tuple[str, str | None]]) -> str:
        return orjson.dumps((self._replica, has_lost, items)).decode()


class ForeignWakes:
    """Announces the changes of streams on the bus of another engine.

    Args:
        keys: The ids of sessions. A session that this process has not used is not announced.
    """

    def __init__(self, bus: Bus, keys: SessionKeys) -> None:
        self._bus = bus
        self._keys = keys
        self._token = trio.lowlevel.current_trio_token()

    def take(self) -> list[str]:
        return []

    def lost(self) -> None:
        pass

    def send(self, batch: WorkBatch, taken: Sequence[str]) -> None:
        pass

    def committed(self, wakes: Sequence[tuple[str, bytes | None]]) -> None:
        if wakes:
            self._token.run_sync_soon(self._publish, wakes)

    def _publish(self, wakes: Sequence[tuple[str, bytes | None]]) -> None:
        for key, message in wakes:
            id = self._keys.id(key)
            if id is not None and message is not None:
                self._bus.publish(session_topic(id), message)


def _nothing(_: Connection) -> list[str]:
    return []


def _received(connection: Connection, *, is_silent: bool) -> list[str]:
    if is_silent:
        # Finds out that the server has gone without a word.
        connection.execute("SELECT 1")
    return [each.payload for each in connection.notifies(timeout=0)]
