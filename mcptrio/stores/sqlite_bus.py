"""A bus in the SQLite file, through which the processes that share the file find each other's messages and events.

:func:`mcptrio.stores.sqlite.open_sqlite_stores` uses it if no other bus connects the processes. It polls while another
process has the file open, so a message takes up to a quarter of a second.
"""

from __future__ import annotations

import logging
import sqlite3
from collections.abc import Callable
from functools import partial
from typing import Final

import trio
from attrs import frozen

from mcptrio.abc import INBOX_MESSAGE, session_topic, wake_message
from mcptrio.errors import StoreFailed
from mcptrio.stores.event_ids import INBOX
from mcptrio.stores.followers import Followers
from mcptrio.stores.sqlite_database import Database
from mcptrio.stores.wall_clock import WallClock

__all__ = ["Newest", "SQLiteBus", "newest_ids"]

# Seconds between two polls.
_POLL_INTERVAL: Final = 0.25
# Seconds until the next poll after one that failed.
_RETRY_INTERVAL: Final = 2.0
# Seconds for which messages are kept. A process that polls less often is notified that it has lost some.
_MAX_MESSAGE_SECONDS: Final = 60.0
# Messages, and streams with new events, in the result of one poll. If there are more, all followers are told that
# messages may have been lost.
_MAX_FOUND: Final = 10_000

# The topic of a message to all followers: messages may be missing.
_LOST_TOPIC: Final = ""

_log = logging.getLogger("mcptrio.stores")


@frozen
class Newest:
    """The newest ids in the file."""

    event: int
    message: int


class SQLiteBus:
    """A bus whose messages are rows of a SQLite file.

    Args:
        clock: The clock for the age of messages.
        writer: The id of this process among those that use the file.
    """

    def __init__(self, database: Database, clock: WallClock, writer: str) -> None:
        self._database = database
        self._clock = clock
        self._writer = writer
        self._followers = Followers()
        self._is_alone = True
        # The newest ids that this process has polled, or that existed before it began to poll.
        self._seen = Newest(0, 0)

    def publish(self, topic: str, message: bytes) -> None:
        self._followers.deliver(topic, message)
        # Also while this process seems to be alone: a process that is opening the file now is noticed later.
        self._database.post(partial(self._insert, topic=topic, message=message, now=self._clock.now()))

    def report_lost(self) -> None:
        """Tell the followers in all processes that messages may have been lost."""
        self._followers.report_lost()
        self._database.post(self.insert_lost)

    def insert_lost(self, connection: sqlite3.Connection) -> None:
        """Tell the followers in the other processes that messages may have been lost. Called in a thread."""
        self.insert(connection, _LOST_TOPIC, b"")

    def insert(self, connection: sqlite3.Connection, topic: str, message: bytes) -> None:
        """Add a message for the other processes to a transaction. Called in a thread."""
        self._insert(connection, topic=topic, message=message, now=self._clock.now())

    def follow(self, topic: str, receive: Callable[[bytes | None], None]) -> Callable[[], None]:
        return self._followers.add(topic, receive)

    def set_alone(self, is_alone: bool, newest: Newest) -> None:
        """Stop or start polling, because this process has become the only one, or another one has opened the file.

        Args:
            newest: The newest ids from before the processes were counted. If this process is alone, no other process
                has stored anything up to them.
        """
        self._is_alone = is_alone
        if is_alone:
            self._seen = newest

    async def run(self) -> None:
        """Deliver messages of other processes. Runs until cancelled."""
        while True:
            await trio.sleep(_POLL_INTERVAL)
            if self._is_alone:
                continue
            try:
                await self._poll()
            except StoreFailed as error:
                _log.error("%s", error)
                await trio.sleep(_RETRY_INTERVAL)

    async def _poll(self) -> None:
        seen = self._seen
        self._seen, streams, messages, is_complete = await self._database.read(
            partial(_read_new_entries, seen=seen, writer=self._writer)
        )
        for topic, message in messages:
            if topic != _LOST_TOPIC:
                self._followers.deliver(topic, message)
        for session, stream in streams:
            self._followers.deliver(session_topic(session), INBOX_MESSAGE if stream == INBOX else wake_message(stream))
        if not is_complete or any(topic == _LOST_TOPIC for topic, _ in messages):
            self._followers.report_lost()

    def _insert(self, connection: sqlite3.Connection, *, topic: str, message: bytes, now: float) -> None:
        connection.execute(
            "INSERT INTO messages (topic, message, writer, sent) VALUES (?, ?, ?, ?)",
            (topic, message, self._writer, now),
        )
        connection.execute(
            "DELETE FROM messages WHERE id = (SELECT min(id) FROM messages) AND sent < ?", (now - _MAX_MESSAGE_SECONDS,)
        )
        connection.execute("DELETE FROM messages WHERE id <= (SELECT max(id) FROM messages) - ?", (_MAX_FOUND,))


def newest_ids(connection: sqlite3.Connection) -> Newest:
    rows = dict(connection.execute("SELECT name, seq FROM sqlite_sequence WHERE name IN ('events', 'messages')"))
    return Newest(rows.get("events", 0), rows.get("messages", 0))


def _read_new_entries(
    connection: sqlite3.Connection, *, seen: Newest, writer: str
) -> tuple[Newest, list[tuple[str, str]], list[tuple[str, bytes]], bool]:
    """Return the newest ids, the streams and the messages after ``seen``, and True if none of these is missing."""
    streams = connection.execute(
        "SELECT DISTINCT session, name FROM streams JOIN events ON events.stream = streams.key"
        " WHERE events.id > ? LIMIT ?",
        (seen.event, _MAX_FOUND),
    ).fetchall()
    messages = connection.execute(
        "SELECT topic, message FROM messages WHERE id > ? AND writer != ? ORDER BY id", (seen.message, writer)
    ).fetchall()
    oldest = connection.execute("SELECT min(id) FROM messages").fetchone()[0]
    newest = newest_ids(connection)
    has_lost = newest.message > seen.message and (oldest is None or oldest > seen.message + 1)
    return newest, streams, messages, len(streams) < _MAX_FOUND and not has_lost
