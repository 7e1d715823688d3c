"""Merges the changes that two replicas have made to the record of one session.

The local parts of sessions use it when the store has a newer record than the one that they have changed.
"""

from __future__ import annotations

from attrs import evolve

from mcptrio.abc import SessionRecord

__all__ = ["merge_records"]


def merge_records(mine: SessionRecord, *, base: SessionRecord, theirs: SessionRecord) -> SessionRecord:
    """Return the stored record with the changes that were made here.

    If both replicas have changed the log level or the GET stream, the change made here wins, because it is stored
    later.

    Args:
        mine: The record of this process.
        base: The stored record from which ``mine`` was made.
        theirs: The record that is stored now.
    """
    if mine is base or mine == base:
        return theirs
    return evolve(
        theirs,
        initialized=mine.initialized or theirs.initialized,
        log_level=theirs.log_level if mine.log_level == base.log_level else mine.log_level,
        subscriptions=(theirs.subscriptions | (mine.subscriptions - base.subscriptions))
        - (base.subscriptions - mine.subscriptions),
        get_stream=theirs.get_stream if mine.get_stream == base.get_stream else mine.get_stream,
    )
