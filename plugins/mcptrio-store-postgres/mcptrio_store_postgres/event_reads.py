"""Statements that read streams."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any, Final

from attrs import frozen

from mcptrio.stores import MAX_EVENT_PAGE, MAX_EVENT_PAGE_BYTES
from mcptrio_store_postgres.operations import OperationBatch, Results

__all__ = ["READ_SECONDS", "Page", "completed_after", "page"]

READ_SECONDS: Final = 60.0
"""Seconds for which a complete stream is kept after it was read to the end."""

_PAGE: Final = """
SELECT s.number, s.first, s.next, s.is_complete, s.ends > now() + %(read)s * interval '1 s' AS is_unread,
       e.position, e.data
FROM (
    SELECT number, next, is_complete, ends,
           -- Events above the limit may be stored for some time.
           CASE WHEN touched <= now() - %(age)s * interval '1 s' THEN next
                ELSE greatest(first, next - %(most)s) END AS first
    FROM streams
    WHERE session = %(session)s AND name = %(stream)s AND (ends IS NULL OR ends > now())
) AS s
LEFT JOIN LATERAL (
    SELECT position, data
    FROM (
        SELECT position, data, sum(octet_length(data)) OVER (ORDER BY position) - octet_length(data) AS bytes_before
        FROM (
            SELECT position, data FROM events
            WHERE stream = s.number AND position >= greatest(s.first, %(position)s)
            ORDER BY position LIMIT %(events)s
        ) AS found
    ) AS summed
    WHERE bytes_before < %(bytes)s
) AS e ON true
ORDER BY e.position
"""

_COMPLETED: Final = """
SELECT later.name FROM streams AS one JOIN streams AS later USING (session)
WHERE session = %s AND one.name = %s AND later.number > one.number AND later.is_complete AND later.ends > now()
ORDER BY later.number
"""


@frozen
class Page:
    """One page of events of a stream.

    Attributes:
        first: The position of the first stored event.
        next: The position of the next event.
        is_last: True if the stream ends with these events.
        is_unread: True if the stream was not read to its end before.
    """

    number: int
    first: int
    next: int
    is_last: bool
    is_unread: bool
    events: list[tuple[int, bytes]]


def page(batch: OperationBatch, items: Sequence[tuple[str, str, int, int, float]]) -> Results:
    """Read pages of events. Items are ``(session, stream, position, most, age)``; the result is ``None`` for an unknown
    stream."""
    cursors = [
        batch.connection.execute(
            _PAGE,
            {
                "session": session,
                "stream": stream,
                "position": min(position, 2**62),
                "most": most,
                "age": age,
                "read": READ_SECONDS,
                "events": MAX_EVENT_PAGE,
                "bytes": MAX_EVENT_PAGE_BYTES,
            },
            binary=True,
        )
        for session, stream, position, most, age in items
    ]
    yield
    return [_page(cursor.fetchall(), position) for cursor, (_, _, position, _, _) in zip(cursors, items, strict=True)]


def completed_after(batch: OperationBatch, items: Sequence[tuple[str, str]]) -> Results:
    """Read the complete streams that began after a stream. Items are ``(session, stream)``."""
    cursors = [batch.connection.execute(_COMPLETED, item) for item in items]
    yield
    return [[name for (name,) in cursor.fetchall()] for cursor in cursors]


def _page(rows: list[tuple[Any, ...]], position: int) -> Page | None:
    if not rows:
        return None
    number, first, following, is_complete, is_unread = rows[0][:5]
    events = [(at, bytes(data)) for *_, at, data in rows if at is not None]
    reached = events[-1][0] + 1 if events else max(position, first)
    return Page(number, first, following, is_complete and reached >= following, bool(is_unread), events)
