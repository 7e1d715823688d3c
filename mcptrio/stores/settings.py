"""Limits and settings of stores, for every engine. The table ``[stores]`` is read into :class:`StoreSettings`."""

from __future__ import annotations

from pathlib import Path
from typing import Final

from attrs import field, frozen

from mcptrio.ground.expected import PROGRAM_ONLY, integer, number

__all__ = ["MAX_EVENT_PAGE", "MAX_EVENT_PAGE_BYTES", "StoreBounds", "StoreSettings"]

MAX_EVENT_PAGE: Final = 768
"""Events in one page of a stream: by default as many as a reader may be behind, so one read returns them all."""
MAX_EVENT_PAGE_BYTES: Final = 4 * 1024 * 1024
"""Bytes in one page of a stream; a page has at least one event."""


@frozen(kw_only=True)
class StoreBounds:
    """The limits of sessions, events and tasks.

    Above a limit on events the oldest are dropped; above a limit on sessions or tasks a new one is refused.

    Args:
        idle_timeout: Seconds without use after which a session expires.
        max_sessions: The number of sessions.
        stream_events: Events of one stream.
        session_bytes: Bytes of the events of one session.
        total_bytes: Bytes of all events; those of the least recently active session are dropped first. Engines that
            have their own limit (``maxmemory`` of Redis, the disk of PostgreSQL) use that.
        event_timeout: Seconds without a new event after which the events of a stream are dropped.
        max_tasks: The number of tasks, ended ones included.
        tasks_per_owner: Tasks of one owner that have not ended.
        task_bytes: Bytes of the data of one task.
        task_timeout: Seconds after its creation for which a task without an expiry is kept.
    """

    idle_timeout: float = field(default=1800.0, validator=number(1), metadata=PROGRAM_ONLY)
    max_sessions: int = field(default=100_000, validator=integer(1), metadata=PROGRAM_ONLY)
    stream_events: int = field(default=1000, validator=integer(1), metadata=PROGRAM_ONLY)
    session_bytes: int = field(default=16 * 1024 * 1024, validator=integer(1), metadata=PROGRAM_ONLY)
    total_bytes: int = field(default=256 * 1024 * 1024, validator=integer(1), metadata=PROGRAM_ONLY)
    event_timeout: float = field(default=3600.0, validator=number(1), metadata=PROGRAM_ONLY)
    max_tasks: int = field(default=10_000, validator=integer(1))
    tasks_per_owner: int = field(default=1000, validator=integer(1))
    task_bytes: int = field(default=4 * 1024 * 1024, validator=integer(1))
    task_timeout: float = field(default=86_400.0, validator=number(1))


@frozen(kw_only=True)
class StoreSettings(StoreBounds):
    """How to use an engine that other machines share.

    Args:
        prefix: The first part of every key, table or channel, so that several services can share one engine.
        lease: Seconds after which a replica that does not renew its lease counts as ended.
        timeout: Seconds that one command may take.
        start_timeout: Seconds for which the start waits for an engine that is not reachable yet.
        confirm: Redis: how many replicas of the engine must have a write before it counts (``WAIT``).
        unlogged: PostgreSQL: True to keep sessions and events in unlogged tables, which a crash of the engine empties.
        insecure: True to allow a connection without TLS to another machine.
        ca_file: A file of authorities for TLS, instead of the system's.
        password_file: A file with the password, which then need not be in the URL.
    """

    prefix: str = "mcptrio"
    lease: float = field(default=10.0, validator=number(1))
    timeout: float = field(default=2.0, validator=number(0.1))
    start_timeout: float = field(default=30.0, validator=number(0))
    confirm: int = field(default=0, validator=integer(0))
    unlogged: bool = False
    insecure: bool = False
    ca_file: Path | None = None
    password_file: Path | None = None
