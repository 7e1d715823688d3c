"""Statements that change the streams of a batch together.

They enforce the limits in the same transaction: above a limit the oldest events are dropped, first those of complete
streams.
"""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable, Sequence
from typing import Any, Final

from attrs import frozen

from mcptrio.abc import INBOX_MESSAGE, wake_message
from mcptrio.errors import ConnectionClosed
from mcptrio.stores import INBOX, StoreBounds
from mcptrio_store_postgres.event_reads import READ_SECONDS
from mcptrio_store_postgres.operations import OperationBatch, Results

__all__ = ["EVENT_COST", "Append", "EventWrites"]

EVENT_COST: Final = 160
"""Bytes that an event costs in addition to its data, as in the other stores."""
# Events above the limit of a stream are deleted once they exceed the limit by 1/8 of it.
_SLACK: Final = 8
# Sessions whose remaining bytes this process knows.
_MAX_KNOWN: Final = 20_000
# Seconds. PostgreSQL has no timestamps for much larger ages.
_MAX_AGE: Final = 1e9
# Streams of an ended replica that are completed in one transaction.
_MAX_SETTLED: Final = 200

# An INSERT even for existing streams: an UPDATE with a join may get a plan that compares each stream with each append.
_APPEND: Final = """
INSERT INTO streams AS s (session, name, writer, next, bytes, is_complete, will, token, ends)
SELECT session, name, CASE WHEN name <> %(inbox)s THEN %(replica)s END, count, size, is_last, will, token,
       CASE WHEN is_last THEN now() + %(age)s * interval '1 s' END
FROM unnest(%(sessions)b::text[], %(streams)b::text[], %(counts)b::bigint[], %(sizes)b::bigint[], %(last)b::bool[],
            %(wills)b::bytea[], %(tokens)b::bigint[]) AS w (session, name, count, size, is_last, will, token)
ON CONFLICT (session, name) DO UPDATE
    SET next = s.next + excluded.next, bytes = s.bytes + excluded.bytes, is_complete = excluded.is_complete,
        will = coalesce(excluded.will, s.will), token = excluded.token, touched = now(), ends = excluded.ends
    WHERE NOT s.is_complete AND s.token <> excluded.token AND s.writer IS NOT DISTINCT FROM excluded.writer
RETURNING token, number, first, next
"""
# A separate statement, which costs less than joining the events with the streams above.
_STORE: Final = """
INSERT INTO events (stream, position, data) SELECT * FROM unnest(%s::bigint[], %s::bigint[], %b::bytea[])
"""

_STATE: Final = """
SELECT s.session, s.name, s.next, s.token FROM streams AS s
JOIN unnest(%s::text[], %s::text[]) AS w (session, name) USING (session, name)
"""

# The braces stand for a query of the streams, _OWN or _OF_WRITER.
_SETTLE: Final = """
WITH ended AS (
    UPDATE streams AS s
    SET is_complete = true, next = s.next + 1, bytes = s.bytes + %(cost)s + coalesce(octet_length(s.will), 0),
        token = w.token, touched = now(), ends = now() + %(age)s * interval '1 s'
    FROM ({}) AS w
    WHERE s.number = w.number AND NOT s.is_complete
    RETURNING s.session, s.name, s.number, s.first, s.next, s.will
), stored AS (
    INSERT INTO events (stream, position, data) SELECT number, next - 1, coalesce(will, '') FROM ended
)
SELECT session, name, number, first, next, %(cost)s + coalesce(octet_length(will), 0) FROM ended
"""
_OWN: Final = """
    SELECT number, w.token FROM streams
    JOIN unnest(%(sessions)s::text[], %(streams)s::text[], %(tokens)s::bigint[]) AS w (session, name, token)
        USING (session, name)
    -- coalesce() avoids the index of writers, with which each stream of the writer is compared with each of these.
    WHERE coalesce(writer, '') = %(replica)s
"""
# One stream of each session, because the limits of a session are enforced after each event.
_OF_WRITER: Final = """
    SELECT number, 0::bigint AS token FROM streams WHERE NOT is_complete AND number IN (
        SELECT DISTINCT ON (session) number FROM streams WHERE writer = %(writer)s AND NOT is_complete
        ORDER BY session, number LIMIT %(most)s)
    ORDER BY number FOR UPDATE
"""

_TRIM: Final = """
WITH w AS (SELECT * FROM unnest(%s::bigint[], %s::bigint[]) AS w (number, first)), gone AS (
    DELETE FROM events AS e USING w WHERE e.stream = w.number AND e.position < w.first
    RETURNING e.stream, octet_length(e.data) + %s AS size
)
UPDATE streams AS s
SET first = w.first, bytes = s.bytes - coalesce((SELECT sum(size) FROM gone WHERE gone.stream = w.number), 0)
FROM w WHERE s.number = w.number
"""

_SUMS: Final = "SELECT session, sum(bytes)::bigint FROM streams WHERE session = ANY(%s) GROUP BY session"

_DROP_EXCESS: Final = """
WITH costs AS (
    SELECT s.number, e.position, octet_length(e.data) + %(cost)s AS size,
           sum(octet_length(e.data) + %(cost)s)
               OVER (ORDER BY s.is_complete DESC, s.touched, s.number, e.position) AS freed
    FROM streams AS s JOIN events AS e ON e.stream = s.number
    WHERE s.session = %(session)s AND e.position >= s.first AND NOT EXISTS (
        SELECT FROM unnest(%(newest)s::bigint[], %(positions)s::bigint[]) AS n (number, position)
        WHERE n.number = s.number AND n.position = e.position)
), sums AS (
    SELECT number, max(position) + 1 AS first, sum(size) AS size FROM costs
    WHERE freed - size < %(excess)s GROUP BY number
), due AS (
    -- SKIP LOCKED: another replica that appends to one of these streams may wait for this transaction.
    SELECT sums.* FROM sums JOIN streams USING (number) FOR UPDATE OF streams SKIP LOCKED
), gone AS (
    DELETE FROM events AS e USING due WHERE e.stream = due.number AND e.position < due.first
)
UPDATE streams AS s SET first = due.first, bytes = s.bytes - due.size FROM due WHERE s.number = due.number
"""
_DROP_EMPTY: Final = """
DELETE FROM streams WHERE number IN (
    SELECT number FROM streams WHERE session = %s AND is_complete AND first >= next FOR UPDATE SKIP LOCKED)
"""

_DROP: Final = """
WITH due AS (SELECT number FROM streams WHERE session = ANY(%s) ORDER BY number FOR UPDATE),
     gone AS (DELETE FROM streams USING due WHERE streams.number = due.number RETURNING due.number)
DELETE FROM events USING gone WHERE stream = gone.number
"""


@frozen(kw_only=True)
class Append:
    """One append to a stream.

    Args:
        session: The key of the session.
        token: Identifies the append, so that a repeated one is recognized.
        is_begun: True if this process has begun the stream, so that it must exist.
    """

    session: str
    stream: str
    data: tuple[bytes, ...]
    last: bool
    will: bytes | None
    token: int
    is_begun: bool

    @property
    def size(self) -> int:
        return sum(map(len, self.data)) + EVENT_COST * len(self.data)


@frozen
class _Changed:
    session: str
    stream: str
    number: int
    first: int
    next: int
    size: int


class EventWrites:
    """The kinds of operations that change streams. Only the writer's thread uses their state.

    Args:
        bounds: The limits of streams and sessions.
        replica: The id of this process.
    """

    def __init__(self, bounds: StoreBounds, replica: str) -> None:
        self.bounds = bounds
        self.age = min(bounds.event_timeout, _MAX_AGE)
        self._replica = replica
        # Bytes that may be added to each session before its sum is read again.
        self._free_bytes: OrderedDict[str, int] = OrderedDict()
        self.replicas = 1

    def append(self, batch: OperationBatch, items: Sequence[Append]) -> Results:
        # All transactions lock rows in the same order, which avoids deadlocks.
        order = sorted(range(len(items)), key=lambda at: (items[at].session, items[at].stream))
        appends = [items[at] for at in order]
        cursor = batch.connection.execute(_APPEND, self._append_parameters(appends))
        yield
        rows: dict[Any, tuple[Any, ...]] = {row[0]: row[1:] for row in cursor.fetchall()}
        results: dict[int, Any] = {}
        changed: list[_Changed] = []
        missing: list[int] = []
        again: list[int] = []
        numbers: list[int] = []
        positions: list[int] = []
        data: list[bytes] = []
        for at, each in zip(order, appends, strict=True):
            row = rows.get(each.token)
            if row is None:
                missing.append(at)
                continue
            number, first, following = row
            if each.is_begun and following == len(each.data):
                # The stream was completed and deleted, so this append must not begin it again.
                again.append(number)
                results[at] = ConnectionClosed("the stream is complete, and has been deleted")
                continue
            results[at] = following - 1
            changed.append(_Changed(each.session, each.stream, number, first, following, each.size))
            numbers += [number] * len(each.data)
            positions += range(following - len(each.data), following)
            data += each.data
        if again:
            batch.connection.execute("DELETE FROM streams WHERE number = ANY(%s)", (again,))
        if data:
            batch.connection.execute(_STORE, (_array(numbers), _array(positions), data))
        if missing:
            self._explain(batch, items, missing, results)
        self._keep_bounds(batch, changed)
        self._wake(batch, changed)
        return [results[at] for at in range(len(items))]

    def settle(self, batch: OperationBatch, items: Sequence[tuple[str, str, int]]) -> Results:
        """Complete streams of this process with their fallback events. Items are ``(session, stream, token)``."""
        sorted_items = sorted(items)
        parameters = {
            "cost": EVENT_COST,
            "age": self.age,
            "replica": self._replica,
            "sessions": [session for session, _, _ in sorted_items],
            "streams": [stream for _, stream, _ in sorted_items],
            "tokens": [token for _, _, token in sorted_items],
        }
        cursor = batch.connection.execute(_SETTLE.format(_OWN), parameters)
        yield
        self._finish_write(batch, cursor.fetchall())
        return [None] * len(items)

    def settle_writer(self, batch: OperationBatch, writer: str) -> bool:
        """Complete some streams of a replica with their fallback events. Return True if there may be more."""
        parameters = {"cost": EVENT_COST, "age": self.age, "writer": writer, "most": _MAX_SETTLED}
        rows = batch.connection.execute(_SETTLE.format(_OF_WRITER), parameters).fetchall()
        self._finish_write(batch, rows)
        return bool(rows)

    def mark_read(self, batch: OperationBatch, items: Sequence[int]) -> Results:
        """Note that complete streams were read to the end. Items are numbers of streams."""
        batch.connection.execute(
            "UPDATE streams SET ends = least(ends, now() + %s * interval '1 s') WHERE number IN"
            " (SELECT number FROM streams WHERE number = ANY(%s) AND is_complete ORDER BY number FOR UPDATE)",
            (READ_SECONDS, sorted(set(items))),
        )
        yield
        return [None] * len(items)

    def drop(self, batch: OperationBatch, items: Sequence[str]) -> Results:
        """Delete the streams of sessions. Items are keys of sessions."""
        batch.connection.execute(_DROP, (sorted(items),))
        yield
        for session in items:
            self._free_bytes.pop(session, None)
        return [None] * len(items)

    def _append_parameters(self, appends: Sequence[Append]) -> dict[str, Any]:
        return {
            "sessions": [each.session for each in appends],
            "streams": [each.stream for each in appends],
            "counts": [len(each.data) for each in appends],
            "sizes": [each.size for each in appends],
            "last": [each.last for each in appends],
            "wills": [each.will for each in appends],
            "tokens": [each.token for each in appends],
            "inbox": INBOX,
            "replica": self._replica,
            "age": self.age,
        }

    def _explain(
        self, batch: OperationBatch, items: Sequence[Append], missing: Sequence[int], results: dict[int, Any]
    ) -> None:
        """Add the results of appends that changed no stream: the stream is complete, or has the append already."""
        missing_appends = [items[at] for at in missing]
        rows = batch.connection.execute(
            _STATE, ([each.session for each in missing_appends], [each.stream for each in missing_appends])
        ).fetchall()
        stored_streams = {(session, name): (following, token) for session, name, following, token in rows}
        for at, each in zip(missing, missing_appends, strict=True):
            following, token = stored_streams.get((each.session, each.stream), (0, None))
            if token == each.token:
                results[at] = int(str(following)) - 1
            else:
                results[at] = ConnectionClosed("the stream is complete, or another replica writes it")

    def _finish_write(self, batch: OperationBatch, rows: Iterable[tuple[Any, ...]]) -> None:
        changed = [_Changed(*row) for row in rows]
        self._keep_bounds(batch, changed)
        self._wake(batch, changed)

    def _wake(self, batch: OperationBatch, changed: Sequence[_Changed]) -> None:
        for each in changed:
            batch.messages.append((each.session, INBOX_MESSAGE if each.stream == INBOX else wake_message(each.stream)))

    def _keep_bounds(self, batch: OperationBatch, changed: Sequence[_Changed]) -> None:
        most = self.bounds.stream_events
        long = [each for each in changed if each.next - each.first > most + most // _SLACK]
        if long:
            batch.connection.execute(
                _TRIM, ([each.number for each in long], [each.next - most for each in long], EVENT_COST)
            )
        due: dict[str, list[_Changed]] = {}
        for each in changed:
            free_bytes = self._free_bytes.get(each.session, 0) - each.size
            self._free_bytes[each.session] = free_bytes
            if free_bytes < 0:
                due[each.session] = []
        if not due:
            return
        for each in changed:
            if each.session in due:
                due[each.session].append(each)
        for session, size in batch.connection.execute(_SUMS, (sorted(due),)).fetchall():
            free_bytes = self.bounds.session_bytes - int(str(size))
            if free_bytes < 0:
                self._drop_oldest(batch, str(session), -free_bytes, due[str(session)])
            # The other replicas may add the same amount in the meantime.
            self._free_bytes[str(session)] = max(0, free_bytes) // max(1, self.replicas)
            self._free_bytes.move_to_end(str(session))
        while len(self._free_bytes) > _MAX_KNOWN:
            self._free_bytes.popitem(last=False)

    def _drop_oldest(self, batch: OperationBatch, session: str, excess: int, newest: Sequence[_Changed]) -> None:
        parameters = {
            "cost": EVENT_COST,
            "session": session,
            "excess": excess,
            "newest": [each.number for each in newest],
            "positions": [each.next - 1 for each in newest],
        }
        batch.connection.execute(_DROP_EXCESS, parameters)
        batch.connection.execute(_DROP_EMPTY, (session,))


def _array(numbers: Iterable[int]) -> str:
    """Return an array as text, because psycopg converts each number of a list separately in Python."""
    return f"{{{','.join(map(str, numbers))}}}"
