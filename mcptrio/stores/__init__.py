"""Stores of sessions, events and bus messages, and of a client's tokens: in memory, in SQLite, in other engines.

Programs open them with :func:`open_stores`; distributions for other engines implement the ports of :mod:`mcptrio.abc`
with the parts that are listed here. Each name is imported on first use.
"""

from typing import TYPE_CHECKING

from mcptrio.ground.lazy_names import lazy_names

if TYPE_CHECKING:
    from mcptrio.stores.batch_writer import BatchWriter as BatchWriter
    from mcptrio.stores.checks import Check as Check
    from mcptrio.stores.common_tasks import MAX_TASK_PAGE as MAX_TASK_PAGE
    from mcptrio.stores.common_tasks import MAX_TASK_PAGE_BYTES as MAX_TASK_PAGE_BYTES
    from mcptrio.stores.common_tasks import CommonTaskStore as CommonTaskStore
    from mcptrio.stores.common_tasks import TaskChange as TaskChange
    from mcptrio.stores.common_tasks import TaskEngine as TaskEngine
    from mcptrio.stores.common_tasks import check_task_state as check_task_state
    from mcptrio.stores.event_ids import INBOX as INBOX
    from mcptrio.stores.event_ids import event_id as event_id
    from mcptrio.stores.event_ids import position_of as position_of
    from mcptrio.stores.event_ids import read_event_id as read_event_id
    from mcptrio.stores.followers import Followers as Followers
    from mcptrio.stores.memory import MemoryBus as MemoryBus
    from mcptrio.stores.memory import MemoryEventStore as MemoryEventStore
    from mcptrio.stores.memory import MemorySessionStore as MemorySessionStore
    from mcptrio.stores.memory import memory_stores as memory_stores
    from mcptrio.stores.opening import StoreOpener as StoreOpener
    from mcptrio.stores.opening import StoreTools as StoreTools
    from mcptrio.stores.opening import open_stores as open_stores
    from mcptrio.stores.records import read_record as read_record
    from mcptrio.stores.records import write_record as write_record
    from mcptrio.stores.replicas import MAX_LISTED as MAX_LISTED
    from mcptrio.stores.replicas import SeenReplica as SeenReplica
    from mcptrio.stores.replicas import check_replicas as check_replicas
    from mcptrio.stores.replicas import list_replicas as list_replicas
    from mcptrio.stores.settings import MAX_EVENT_PAGE as MAX_EVENT_PAGE
    from mcptrio.stores.settings import MAX_EVENT_PAGE_BYTES as MAX_EVENT_PAGE_BYTES
    from mcptrio.stores.settings import StoreBounds as StoreBounds
    from mcptrio.stores.settings import StoreSettings as StoreSettings
    from mcptrio.stores.sqlite import SQLiteBounds as SQLiteBounds
    from mcptrio.stores.sqlite import open_sqlite_stores as open_sqlite_stores
    from mcptrio.stores.sqlite_file import run_pragma as run_pragma
    from mcptrio.stores.sqlite_file import store_failed as store_failed
    from mcptrio.stores.wall_clock import WallClock as WallClock

_HOMES = {
    # Opening
    "StoreSettings": "mcptrio.stores.settings",
    "StoreBounds": "mcptrio.stores.settings",
    "open_stores": "mcptrio.stores.opening",
    "StoreOpener": "mcptrio.stores.opening",
    "StoreTools": "mcptrio.stores.opening",
    "Check": "mcptrio.stores.checks",
    "SQLiteBounds": "mcptrio.stores.sqlite",
    "open_sqlite_stores": "mcptrio.stores.sqlite",
    "WallClock": "mcptrio.stores.wall_clock",
    # In memory
    "MemoryBus": "mcptrio.stores.memory",
    "MemoryEventStore": "mcptrio.stores.memory",
    "MemorySessionStore": "mcptrio.stores.memory",
    "memory_stores": "mcptrio.stores.memory",
    # For other engines
    "BatchWriter": "mcptrio.stores.batch_writer",
    "Followers": "mcptrio.stores.followers",
    "CommonTaskStore": "mcptrio.stores.common_tasks",
    "TaskChange": "mcptrio.stores.common_tasks",
    "TaskEngine": "mcptrio.stores.common_tasks",
    "MAX_TASK_PAGE": "mcptrio.stores.common_tasks",
    "MAX_TASK_PAGE_BYTES": "mcptrio.stores.common_tasks",
    "check_task_state": "mcptrio.stores.common_tasks",
    "MAX_EVENT_PAGE": "mcptrio.stores.settings",
    "MAX_EVENT_PAGE_BYTES": "mcptrio.stores.settings",
    "INBOX": "mcptrio.stores.event_ids",
    "event_id": "mcptrio.stores.event_ids",
    "position_of": "mcptrio.stores.event_ids",
    "read_event_id": "mcptrio.stores.event_ids",
    "read_record": "mcptrio.stores.records",
    "write_record": "mcptrio.stores.records",
    "SeenReplica": "mcptrio.stores.replicas",
    "MAX_LISTED": "mcptrio.stores.replicas",
    "list_replicas": "mcptrio.stores.replicas",
    "check_replicas": "mcptrio.stores.replicas",
    "run_pragma": "mcptrio.stores.sqlite_file",
    "store_failed": "mcptrio.stores.sqlite_file",
}
"""Every public name and the module that defines it."""

__all__ = list(_HOMES)  # pyright: ignore[reportUnsupportedDunderAll] - the imports above define them for type checkers

__getattr__, __dir__ = lazy_names(__name__, _HOMES)
