"""Opens the stores of a server in Redis or Valkey. The entry points of the group ``mcptrio.stores`` name it."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from functools import partial
from typing import Any, Final

import trio

from mcptrio.abc import Bus, Stores, StoreStatus
from mcptrio.errors import StoreFailed
from mcptrio.stores import CommonTaskStore, StoreSettings, list_replicas
from mcptrio_store_redis.address import RedisAddress, read_address
from mcptrio_store_redis.batches import failure, is_final
from mcptrio_store_redis.bus import RedisBus
from mcptrio_store_redis.commands import RedisRefused
from mcptrio_store_redis.effects import RedisEffectStore
from mcptrio_store_redis.engine import RedisEngine
from mcptrio_store_redis.events import RedisEventStore
from mcptrio_store_redis.leases import RedisLeases
from mcptrio_store_redis.limits import RedisQuotaStore, RedisReplayStore
from mcptrio_store_redis.links import ERRORS, RedisLink, open_link
from mcptrio_store_redis.sessions import RedisSessionStore
from mcptrio_store_redis.shutdown import leave
from mcptrio_store_redis.tasks import RedisTasks

__all__ = ["SCHEMA", "open_redis_stores"]

SCHEMA: Final = b"1"
"""The version of the keys and their values."""
# Seconds between two attempts to connect at the start.
_RETRY_SECONDS: Final = 0.25


@asynccontextmanager
async def open_redis_stores(url: str, settings: StoreSettings, *, bus: Bus | None = None) -> AsyncIterator[Stores]:
    """Open the stores, and close them at the end of the block.

    At the end, the streams that this replica has not completed are completed with their fallback events.

    Args:
        url: ``redis://HOST:PORT/DATABASE``, ``rediss://…``, ``redis+sentinel://HOST,HOST/SERVICE`` or
            ``redis+cluster://HOST,HOST``.
        settings: The limits of the stores, and settings of the engine.
        bus: Sends messages to the other replicas, in place of the engine.

    Raises:
        ConfigError: The URL or a setting is invalid.
        StoreFailed: The engine cannot be used.
    """
    address = read_address(url, settings)
    link = open_link(address, settings)
    engine = RedisEngine(link, settings)
    # A limiter of its own, so these threads never wait for threads of other parts of the program.
    limiter = trio.CapacityLimiter(2)
    give_up = trio.current_time() + settings.start_timeout
    try:
        await _connect(engine, address, limiter, give_up)
        messages = RedisBus(engine) if bus is None else None
        stores, events, leases, tasks = _make_stores(engine, bus, messages)
        async with _open_quiet_nursery() as listening:
            try:
                if messages is not None:
                    listener_link = open_link(address, settings)
                    listening.start_soon(partial(_listen, messages, listener_link, limiter))
                async with _open_quiet_nursery() as serving:
                    serving.start_soon(engine.run)
                    await _register(leases, give_up)
                    serving.start_soon(leases.run)
                    if messages is not None:
                        with trio.move_on_after(settings.timeout):
                            await messages.is_ready.wait()
                    yield stores
            finally:
                # The writer has ended, so no stream can begin after this replica was removed.
                if messages is not None:
                    messages.listener.stop()
                with trio.CancelScope(shield=True):
                    open_streams = events.open_streams()
                    released = await trio.to_thread.run_sync(leave, engine, open_streams, limiter=limiter)
                    events.wake_readers(open_streams)
                    if messages is None:
                        tasks.announce_released(released)
    finally:
        link.reset()


def _make_stores(
    engine: RedisEngine, bus: Bus | None, messages: RedisBus | None
) -> tuple[Stores, RedisEventStore, RedisLeases, CommonTaskStore]:
    publish: Callable[[str, bytes], None] = _ignore
    if messages is not None:
        publish = messages.deliver_here
    elif bus is not None:
        publish = bus.publish
    events = RedisEventStore(engine, publish, is_announced=messages is not None)
    effects = RedisEffectStore(engine)

    async def release_tasks() -> None:
        tasks.announce_released(await steps.release_ended())
        await tasks.take_back_unacknowledged()

    leases = RedisLeases(engine, events, effects, messages, release_tasks)
    steps = RedisTasks(engine, leases.renewals)
    tasks = CommonTaskStore(steps, engine.settings, bus or messages)

    def status() -> StoreStatus:
        since = engine.failing_since
        return StoreStatus(
            kind="redis",
            is_reachable=since is None,
            failing_since=since,
            waiting=engine.writer.waiting,
            replicas=leases.replicas,
            live=list_replicas(leases.live),
        )

    stores = Stores(
        sessions=RedisSessionStore(engine),
        events=events,
        bus=bus or messages,
        effects=effects,
        replays=RedisReplayStore(engine),
        quotas=RedisQuotaStore(engine),
        tasks=tasks,
        is_shared=True,
        status=status,
    )
    return stores, events, leases, tasks


async def _register(leases: RedisLeases, give_up: float) -> None:
    """Take a lease. Retry, because the engine may have failed again since the first connection.

    Args:
        give_up: Trio clock time of the last attempt.

    Raises:
        StoreFailed: All attempts failed, or the engine refuses the lease.
    """
    while True:
        try:
            await leases.renew()
            return
        except RedisRefused:
            raise
        except StoreFailed:
            if trio.current_time() >= give_up:
                raise
        await trio.sleep(_RETRY_SECONDS)


async def _connect(engine: RedisEngine, address: RedisAddress, limiter: trio.CapacityLimiter, give_up: float) -> None:
    """Connect to the engine, and retry while it is unreachable.

    Args:
        give_up: Trio clock time of the last attempt.

    Raises:
        StoreFailed: The engine was not reachable in time, refuses the user, or has data of another version.
    """
    settings = engine.settings
    while True:
        error = await trio.to_thread.run_sync(_try, engine, limiter=limiter)
        if error is None:
            return
        if isinstance(error, StoreFailed):
            raise error
        if is_final(error) or trio.current_time() >= give_up:
            raise failure(engine.label, error, settings.timeout) from error
        await trio.sleep(_RETRY_SECONDS)


def _try(engine: RedisEngine) -> Exception | None:
    """Connect, load the scripts and compare versions. Runs in a thread."""
    link = engine.batches.link
    try:
        for node in link.nodes():
            node.load_scripts()
        return _check_schema(link, engine.keys.schema)
    except ERRORS as error:
        link.reset()
        return error


def _check_schema(link: RedisLink, key: str) -> StoreFailed | None:
    node = link.node(key)
    answers: list[Any] = node.send([("SET", key, SCHEMA, "NX"), ("GET", key)])
    for answer in answers:
        if isinstance(answer, Exception):
            raise answer
    if answers[1] != SCHEMA:
        version = bytes(answers[1] or b"").decode("utf-8", "replace")
        return StoreFailed(
            f"{node.label}: expected data of version {SCHEMA.decode()} at {key}, got {version};"
            " use another prefix, or the version of mcptrio-store-redis that has written it"
        )
    return None


async def _listen(messages: RedisBus, link: RedisLink, limiter: trio.CapacityLimiter) -> None:
    # Not abandoned on cancellation: the thread ends after listener.stop().
    await trio.to_thread.run_sync(messages.listener.run, link, limiter=limiter)


def _ignore(topic: str, message: bytes) -> None:
    pass


@asynccontextmanager
async def _open_quiet_nursery() -> AsyncIterator[trio.Nursery]:
    """Open a nursery whose tasks are cancelled at the end of the block. An exception of the block is raised without
    a group."""
    raised: BaseException | None = None
    try:
        async with trio.open_nursery() as nursery:
            try:
                yield nursery
            finally:
                nursery.cancel_scope.cancel()
    except BaseExceptionGroup as group:
        raised = group
        while isinstance(raised, BaseExceptionGroup) and len(raised.exceptions) == 1:
            raised = raised.exceptions[0]
        if raised is group:
            raise
    if raised is not None:
        # Outside the handler, so the group does not become its context.
        raise raised
