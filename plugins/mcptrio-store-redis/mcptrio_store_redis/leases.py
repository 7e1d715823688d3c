"""Leases of replicas. Each replica renews its own, and completes the streams of replicas that have ended.

The engine's clock decides if a lease has expired. After that a replica waits for another whole lease, by its own clock
and while it is connected, before it completes the streams: after a restart of the engine all leases have expired,
although all replicas run.
"""

from __future__ import annotations

import logging
import os
import socket
import time
from collections.abc import Awaitable, Callable, Sequence
from typing import Any, Final

import trio

from mcptrio.abc import wake_message
from mcptrio.errors import StoreFailed
from mcptrio.stores import MAX_LISTED, SeenReplica
from mcptrio_store_redis.bus import RedisBus
from mcptrio_store_redis.commands import OpenStream, RedisCommand, RedisRefused, command, run
from mcptrio_store_redis.effects import RedisEffectStore
from mcptrio_store_redis.engine import RedisEngine
from mcptrio_store_redis.events import RedisEventStore, settle_command
from mcptrio_store_redis.lease_scripts import REMOVE_REPLICA, RENEW_LEASE

__all__ = ["RedisLeases", "read_replicas"]

# Streams that are completed in one step.
_MAX_SETTLED: Final = 200

_log = logging.getLogger("mcptrio.stores")


class RedisLeases:
    """Renews the lease of this replica, and does the work that replicas do regularly.

    Args:
        events: Completes the streams whose completion failed before, and keeps positions.
        effects: Releases the claims whose release failed before, and renews claims.
        release: Queues the tasks of replicas that have ended, and takes back unacknowledged changes of tasks.
        bus: Wakes readers; ``None`` if another bus does that.
    """

    def __init__(
        self,
        engine: RedisEngine,
        events: RedisEventStore,
        effects: RedisEffectStore,
        bus: RedisBus | None,
        release: Callable[[], Awaitable[None]],
    ) -> None:
        self._engine = engine
        self._events = events
        self._effects = effects
        self._bus = bus
        self._release = release
        self._lease = engine.settings.lease
        self._renewed_at = float("-inf")
        # Replicas with expired leases, and the Trio clock times at which this replica first noticed that.
        self._missing: dict[str, float] = {}
        self.replicas = 1
        """The number of replicas that have not ended. After a failure of the engine, a replica with an expired lease
        may still run."""
        self.live: list[SeenReplica] = []
        self._began = time.monotonic()

    async def run(self) -> None:
        """Renew the lease until cancelled."""
        is_failing = False
        while True:
            failed = await self._work()
            if failed is not None and not is_failing:
                _log.error("%s", failed)
            elif failed is None and is_failing:
                _log.warning("%s: the engine answers again", self._engine.label)
            is_failing = failed is not None
            await trio.sleep(min(self._lease / 3, 1.0) if is_failing else self._lease / 3)

    async def _work(self) -> StoreFailed | None:
        """Do all regular work, and return the first error."""
        failed: StoreFailed | None = None
        events, effects = self._events, self._effects
        for task in (
            *(self.renew, events.keep_positions, effects.keep_claims),
            *(effects.retry_releases, events.retry_settlements, self._release),
        ):
            try:
                await task()
            except RedisRefused as error:
                # Continue: a full engine refuses to complete streams, but still renews claims.
                failed = failed or error
            except StoreFailed as error:
                return failed or error
        if self._bus is not None:
            self._bus.publish_lost()
        return failed

    def renewals(self) -> Sequence[RedisCommand]:
        """Return the renewal of the lease if it is due, since the engine may no longer know a suspended replica."""
        if trio.current_time() - self._renewed_at <= self._lease * 2 / 3:
            return ()
        return (self._renewal(),)

    async def renew(self) -> None:
        """Renew the lease of this replica, and take over the streams of replicas that have ended.

        Raises:
            StoreFailed: The engine does not answer.
        """
        engine = self._engine
        clock, found, entries = await engine.write(self._renewal())
        now = trio.current_time()
        if now - self._renewed_at > self._lease * 2 / 3:
            # This replica was suspended or the engine failed, so the others may have been unable to renew their leases.
            self._missing.clear()
        self._renewed_at = now
        ended = []
        for name, ends in zip(found[::2], found[1::2], strict=True):
            replica = name.decode()
            if float(ends) >= float(clock):
                self._missing.pop(replica, None)
            elif now - self._missing.setdefault(replica, now) >= self._lease:
                ended.append(replica)
        self.replicas = max(1, len(found) // 2 - len(ended))
        replicas = read_replicas(float(clock), found, entries, self._lease)
        self.live = [each for each in replicas if each.id not in ended]
        for replica in ended:
            await self._take_over(replica)
            self._missing.pop(replica, None)

    def _renewal(self) -> RedisCommand:
        engine = self._engine
        age = round((time.monotonic() - self._began) * 1000)
        where = f"{os.getpid()} {socket.gethostname()}"
        return run(RENEW_LEASE, engine.keys.replicas, engine.replica, round(self._lease * 1000), age, where)

    async def _take_over(self, replica: str) -> None:
        """Complete the streams of a replica that has ended, and remove it. Several replicas may do it concurrently."""
        engine, key = self._engine, self._engine.keys.open_streams(replica)
        count = 0
        while names := await engine.read(command(key, "SRANDMEMBER", key, _MAX_SETTLED)):
            for name in names:
                count += await self._settle(OpenStream.read(name), replica)
            await engine.write(command(key, "SREM", key, *names))
        keys = engine.keys
        if await engine.write(run(REMOVE_REPLICA, keys.replicas, replica, 0, keys=(key,))):
            _log.warning("%s: replica %s has ended; %d of its streams were open", engine.label, replica, count)
            if self._bus is not None:
                # The replica may have acknowledged a change before it published the message about it.
                self._bus.report_lost()

    async def _settle(self, left: OpenStream, replica: str) -> int:
        engine, message = self._engine, wake_message(left.stream)
        channel = engine.keys.channel_of(left.tag)
        announcement = (channel, engine.replica.encode() + message) if self._bus is not None else ("", b"")
        limits = self._events.limits
        is_settled: int = await engine.write(
            settle_command(engine.keys.base(left.tag), left.stream, replica, announcement, limits)
        )
        if is_settled and self._bus is not None:
            self._bus.deliver_channel(channel, message)
        elif is_settled and left.session:
            self._events.wake_readers([(left.session, left.stream)])
        return is_settled


def read_replicas(
    clock: float, found: Sequence[Any], entries: Sequence[bytes | None], lease: float
) -> list[SeenReplica]:
    """Return the replicas whose leases end last.

    Args:
        clock: The time of the engine, in milliseconds.
        found: The ids of all replicas, each followed by the end of its lease, sorted by that time.
        entries: The entries of the replicas, from the last one backwards.
        lease: Seconds of a lease.
    """
    now = time.monotonic()
    replicas = []
    last = list(zip(found[::2], found[1::2], strict=True))[: -MAX_LISTED - 1 : -1]
    for (name, ends), entry in zip(last, entries, strict=False):
        began, _, where = (entry or b"").decode("utf-8", "replace").partition(" ")
        process, _, host = where.partition(" ")
        age = (clock - float(began)) / 1000 if began else None
        heartbeat = max(0.0, lease - (float(ends) - clock) / 1000)
        replicas.append(SeenReplica(name.decode(), host, int(process or 0), age, heartbeat, now))
    return replicas
