"""The shutdown of a replica: completes its streams, queues its tasks, and removes it from the set of replicas."""

from __future__ import annotations

import logging
import time
from collections.abc import Sequence
from typing import Any, Final

from mcptrio.abc import TASK_CHANGED, TASK_QUEUED, TASKS_TOPIC, task_topic, wake_message
from mcptrio.errors import StoreFailed
from mcptrio_store_redis.commands import OpenStream, RedisCommand, RedisOperation, command, run
from mcptrio_store_redis.engine import RedisEngine
from mcptrio_store_redis.events import settle_command
from mcptrio_store_redis.keys import tag_of
from mcptrio_store_redis.lease_scripts import REMOVE_REPLICA
from mcptrio_store_redis.task_scripts import HELD_TASKS, RELEASE_TASKS
from mcptrio_store_redis.tasks import MAX_RELEASED

__all__ = ["leave"]

# Streams that are completed in one round trip.
_MAX_SETTLED: Final = 200
# Seconds for the whole shutdown. The other replicas do the rest, once the lease has expired.
_GIVE_UP_SECONDS: Final = 5.0

_log = logging.getLogger("mcptrio.stores")


def leave(engine: RedisEngine, streams: Sequence[tuple[str, str]]) -> list[str]:
    """Complete the open streams of this replica, queue its tasks, and remove it. Blocks; called in a thread.

    Args:
        streams: The sessions and names of the streams, oldest first.

    Returns:
        The ids of the queued tasks.
    """
    released: list[str] = []
    keys = engine.keys
    deadline = time.monotonic() + _GIVE_UP_SECONDS
    key = keys.open_streams(engine.replica)
    try:
        for at in range(0, len(streams), _MAX_SETTLED):
            _send(engine, [_settle(engine, tag_of(session), name) for session, name in streams[at : at + _MAX_SETTLED]])
            if time.monotonic() > deadline:
                break
        released += _release_tasks(engine, deadline)
        while time.monotonic() < deadline:
            (names,) = _send(engine, [command(key, "SRANDMEMBER", key, _MAX_SETTLED)])
            if not names:
                _send(engine, [run(REMOVE_REPLICA, keys.replicas, engine.replica, 1, keys=(key,))])
                break
            # Also streams that are not in ``streams``, because their first append got no answer.
            open_streams = [OpenStream.read(name) for name in names]
            _send(engine, [_settle(engine, each.tag, each.stream) for each in open_streams])
            _send(engine, [command(key, "SREM", key, *names)])
        # Wake the listener, so that it notices that it is stopped.
        wake = keys.wake(engine.replica)
        _send(engine, [command(wake, "PUBLISH", wake, b"")])
    except StoreFailed as error:
        _log.error("%s; the open streams and tasks of this replica are left to the others", error)
    return released


def _release_tasks(engine: RedisEngine, deadline: float) -> list[str]:
    key, replica = engine.keys.tasks, engine.replica
    released: list[str] = []
    while time.monotonic() < deadline:
        (held,) = _send(engine, [run(HELD_TASKS, key, replica, MAX_RELEASED)])
        ids = [id.decode() for id in _send(engine, [run(RELEASE_TASKS, key, replica, *held)])[0]] if held else []
        if not ids:
            break
        released += ids
        _send(engine, [_publish(engine, task_topic(id), TASK_CHANGED) for id in ids])
    if released:
        _send(engine, [_publish(engine, TASKS_TOPIC, TASK_QUEUED)])
    return released


def _publish(engine: RedisEngine, topic: str, message: bytes) -> RedisCommand:
    channel = engine.keys.channel(topic)
    return command(channel, "PUBLISH", channel, engine.replica.encode() + message)


def _settle(engine: RedisEngine, tag: str, stream: str) -> RedisCommand:
    bounds = engine.settings
    announcement = engine.keys.channel_of(tag), engine.replica.encode() + wake_message(stream)
    limits = bounds.stream_events, bounds.session_bytes, round(bounds.event_timeout * 1000)
    return settle_command(engine.keys.base(tag), stream, engine.replica, announcement, limits)


def _send(engine: RedisEngine, commands: Sequence[RedisCommand]) -> list[Any]:
    """Send commands and return their replies.

    Raises:
        StoreFailed: One of the commands has failed.
    """
    return [each.unwrap()[0] for each in engine.batches([RedisOperation((one,), is_write=True) for one in commands])]
