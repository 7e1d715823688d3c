"""The engine is restarted, killed, stalled and loses connections; callers are cancelled."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from pathlib import Path

import outcome
import psycopg
import pytest
import trio

from mcptrio.abc import SessionRecord, Stores
from mcptrio.errors import StoreFailed
from mcptrio.stores import StoreSettings, open_stores
from tests.engines.postgres_fixtures import new_prefix
from tests.engines.postgres_server import PostgresServer, data_folder, server_at
from tests.stores.concurrent_checks import entered, run_concurrently
from tests.stores.shared_contract import TopicListener, eventually

from .conftest import opened

__all__: list[str] = []

Fault = Callable[[PostgresServer, str], Awaitable[None]]


def record(id: str) -> SessionRecord:
    return SessionRecord(id=id, revision="a revision")


async def numbers(stores: Stores) -> list[bytes]:
    found: list[bytes] = []
    while True:
        events, is_last = await stores.events.read("s", "x", len(found))
        found += [event.data for event in events]
        if is_last or not events:
            return found


async def until_readable(stores: Stores) -> None:
    """Attempts to connect that began during a stall still fail."""
    with trio.fail_after(10):
        while True:
            if isinstance(await outcome.acapture(stores.sessions.load, "a"), outcome.Value):
                return
            await trio.sleep(0.1)


async def a_restart_of_the_engine_loses_and_repeats_no_event(
    own_postgres: PostgresServer, prefix: str, how: signal.Signals
) -> None:
    count = 200
    async with opened(own_postgres, prefix, lease=1.0) as stores, opened(own_postgres, prefix, lease=1.0) as reader:
        listener = TopicListener(reader, "topic")
        await listener.begin()
        finished = trio.Event()

        async def write() -> None:
            for at in range(count):
                await stores.events.append("s", "x", b"%d" % at, last=at == count - 1)
                if at == count // 2:
                    finished.set()

        async with trio.open_nursery() as nursery:
            nursery.start_soon(write)
            await finished.wait()
            await trio.to_thread.run_sync(own_postgres.stop, how)
            with pytest.raises(StoreFailed, match=r"127\.0\.0\.1"):
                await stores.sessions.save(record("a"))
            assert not stores.status().is_reachable
            # Longer than a lease: the replicas do not end each other when the engine is back.
            await trio.sleep(1.5)
            await trio.to_thread.run_sync(own_postgres.start)

        assert await numbers(reader) == [b"%d" % at for at in range(count)]
        await eventually(lambda: None in listener.messages, "the reader is told that messages may be lost")
        await eventually(lambda: stores.status().is_reachable and stores.status().replicas == 2, "both are back")


async def replicas_count_each_other_after_a_failure_for_longer_than_a_lease(
    own_postgres: PostgresServer, prefix: str
) -> None:
    lease = 1.0
    async with opened(own_postgres, prefix, lease=lease) as one, opened(own_postgres, prefix, lease=lease) as two:
        both = (one, two)
        await eventually(lambda: all(each.status().replicas == 2 for each in both), "they see each other")
        await trio.to_thread.run_sync(own_postgres.stop, signal.SIGQUIT)
        await trio.sleep(1.5 * lease)
        counted = set[int]()

        async def count() -> None:
            while True:
                counted.update(each.status().replicas for each in both)
                await trio.sleep(0.005)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(count)
            await trio.to_thread.run_sync(own_postgres.start)
            await eventually(lambda: all(each.status().is_reachable for each in both), "the engine is reachable again")
            # Each of them renews its lease in this time.
            await trio.sleep(lease)
            nursery.cancel_scope.cancel()
        assert counted == {2}


async def a_stalled_engine_fails_in_time_and_loses_no_append(own_postgres: PostgresServer, prefix: str) -> None:
    async with opened(own_postgres, prefix, lease=2.0, timeout=1.0) as stores:
        await stores.events.append("s", "x", b"0")
        async with trio.open_nursery() as nursery:
            with own_postgres.stalled():
                nursery.start_soon(stores.events.append, "s", "x", b"1")
                began = trio.current_time()
                for attempt in (stores.sessions.save(record("a")), stores.sessions.load("a")):
                    with pytest.raises(StoreFailed):
                        await attempt
                assert trio.current_time() - began < 4
                await trio.sleep(1)
        await stores.events.append("s", "x", b"2", last=True)
        await until_readable(stores)
        assert await numbers(stores) == [b"0", b"1", b"2"]


async def test_ended_connections_disturb_no_caller(postgres: PostgresServer, prefix: str) -> None:
    async with opened(postgres, prefix) as stores:
        listener = TopicListener(stores, "topic")
        await listener.begin()
        for at in range(5):
            postgres.run(
                "SELECT pg_terminate_backend(pid) FROM pg_stat_activity WHERE application_name = %s",
                f"mcptrio {prefix}",
            )
            await stores.events.append("s", "x", b"%d" % at)
            assert len(await numbers(stores)) == at + 1
        await eventually(lambda: None in listener.messages, "the listener is back")
        assert stores.status().is_reachable


async def a_lock_that_another_holds_is_waited_for(postgres: PostgresServer, prefix: str) -> None:
    async with opened(postgres, prefix, timeout=1.0) as stores:
        await stores.events.append("s", "x", b"0")
        with psycopg.connect(postgres.socket_url) as holder:
            holder.execute(f"LOCK TABLE {prefix}.streams IN EXCLUSIVE MODE".encode())
            async with trio.open_nursery() as nursery:
                nursery.start_soon(stores.events.append, "s", "x", b"1")
                # Reading needs no lock.
                assert await numbers(stores) == [b"0"]
                with pytest.raises(StoreFailed):
                    await stores.events.put("s", b"message")
                await trio.sleep(1)
                holder.rollback()
        assert await numbers(stores) == [b"0", b"1"]


async def tables_that_are_locked_for_five_leases_lose_no_append_and_end_no_replica(
    postgres: PostgresServer, prefix: str
) -> None:
    tables = ", ".join(f"{prefix}.{name}" for name in ("leases", "sessions", "streams", "events"))
    own = {"lease": 1.0, "timeout": 1.0}
    async with opened(postgres, prefix, **own) as stores, opened(postgres, prefix, **own) as other:
        await stores.sessions.save(record("a"))
        await stores.events.append("s", "x", b"0")
        with psycopg.connect(postgres.socket_url) as holder:
            holder.execute(f"LOCK TABLE {tables}".encode())
            async with trio.open_nursery() as nursery:
                for at in range(20):
                    nursery.start_soon(stores.events.append, "s", f"y{at}", b"1")
                nursery.start_soon(stores.events.append, "s", "x", b"1")
                began = trio.current_time()
                # Readers wait too, and fail in time.
                with pytest.raises(StoreFailed, match=r"within 1 s|statement timeout"):
                    await other.sessions.load("a")
                assert trio.current_time() - began < 4
                await trio.sleep(5 * own["lease"] - (trio.current_time() - began))
                holder.rollback()
        await until_readable(other)
        assert await numbers(other) == [b"0", b"1"]
        for at in range(20):
            events, is_last = await other.events.read("s", f"y{at}", 0)
            assert ([event.data for event in events], is_last) == ([b"1"], False)
        await eventually(lambda: other.status().is_reachable and other.status().replicas == 2, "both are there")


async def test_cancelled_commands_leave_nothing_behind(postgres: PostgresServer, prefix: str) -> None:
    async with opened(postgres, prefix) as stores:
        assert stores.effects is not None
        await stores.sessions.save(record("a"))

        def held() -> tuple[int, int, int]:
            connections = postgres.run(
                "SELECT count(*) FROM pg_stat_activity WHERE application_name = %s", f"mcptrio {prefix}"
            )
            return len(os.listdir("/proc/self/fd")), threading.active_count(), connections[0][0]

        async def command(at: int) -> None:
            assert stores.effects is not None
            match at % 4:
                case 0:
                    await stores.events.append("s", f"{at % 16}", b"data")
                case 1:
                    await stores.sessions.load("a")
                case 2:
                    await stores.effects.claim("call", f"{at % 400}")
                case _:
                    await stores.events.put("t", b"message")

        before: tuple[int, int, int] | None = None
        for burst in range(100):
            async with trio.open_nursery() as nursery:
                for at in range(100):
                    nursery.start_soon(command, at + burst)
                # Some are done, some are under way and some wait.
                with trio.move_on_after(0.001 * (burst % 5)):
                    await trio.sleep_forever()
                nursery.cancel_scope.cancel()
            if burst == 20:
                before = held()
        assert before is not None
        after = held()
        assert (after[0] <= before[0], after[1] <= before[1] + 2, after[2]) == (True, True, before[2]), (before, after)

        await stores.events.append("s", "last", b"1")


async def a_cancelled_claim_is_given_back(postgres: PostgresServer, prefix: str) -> None:
    async with opened(postgres, prefix) as stores:
        assert stores.effects is not None
        with psycopg.connect(postgres.socket_url) as holder:
            holder.execute(f"LOCK TABLE {prefix}.effects IN EXCLUSIVE MODE".encode())
            with trio.move_on_after(0.3):
                await stores.effects.claim("call", "key")
            holder.rollback()
        with trio.fail_after(10):
            while (await stores.effects.claim("call", "key")).state.value != "claimed":  # noqa: ASYNC110
                await trio.sleep(0.05)


async def closing_is_bounded_while_the_engine_is_stalled(own_postgres: PostgresServer, prefix: str) -> None:
    scope, closed = trio.CancelScope(), trio.Event()

    async def serve(*, task_status: trio.TaskStatus[None]) -> None:
        with scope:
            async with opened(own_postgres, prefix, timeout=1.0) as stores:
                await stores.events.append("s", "x", b"1", will=b"gone")
                task_status.started()
                await trio.sleep_forever()
        closed.set()

    async with trio.open_nursery() as nursery:
        await nursery.start(serve)
        with own_postgres.stalled():
            scope.cancel()
            with trio.fail_after(12):
                await closed.wait()


async def the_start_waits_for_the_engine(own_postgres: PostgresServer, prefix: str) -> None:
    async with opened(own_postgres, prefix):
        pass
    await trio.to_thread.run_sync(own_postgres.stop)
    with pytest.raises(StoreFailed, match=f"127.0.0.1:{own_postgres.port}"):
        async with open_stores(own_postgres.url, StoreSettings(prefix=prefix, start_timeout=0.5)):
            raise AssertionError("it is not there")
    async with trio.open_nursery() as nursery:

        async def start() -> None:
            await trio.sleep(0.5)
            await trio.to_thread.run_sync(own_postgres.start)

        nursery.start_soon(start)
        async with open_stores(own_postgres.url, StoreSettings(prefix=prefix, start_timeout=20)) as stores:
            await stores.sessions.save(record("a"))


async def the_start_survives_an_engine_that_stalls_again(postgres: PostgresServer, prefix: str) -> None:
    """The tables can be read, but the lease cannot be written yet."""
    async with opened(postgres, prefix):
        pass
    with psycopg.connect(postgres.socket_url) as other:
        other.execute(f"LOCK TABLE {prefix}.leases IN SHARE MODE".encode())
        async with trio.open_nursery() as nursery:

            async def unlock() -> None:
                await trio.sleep(1.5)
                other.rollback()

            nursery.start_soon(unlock)
            async with opened(postgres, prefix, timeout=0.5) as stores:
                await stores.sessions.save(record("a"))


async def a_quota_whose_row_expires_during_a_take_is_full(postgres: PostgresServer, prefix: str) -> None:
    """The row is deleted after the take has found it, as the sweeper of another replica may do."""
    async with opened(postgres, prefix) as stores:
        assert stores.quotas is not None
        take = partial(stores.quotas.take, "q", count=1, seconds=0.1, burst=1)
        assert await take() == 0
        with psycopg.connect(postgres.socket_url) as other:
            # A locked row delays the take, and unlike a deleted one it is not inserted again.
            other.execute(f"SELECT FROM {prefix}.quotas FOR UPDATE".encode())
            waits: list[float] = []
            async with trio.open_nursery() as nursery:

                async def take_again() -> None:
                    waits.append(await take())

                nursery.start_soon(take_again)
                waiting = (
                    "SELECT FROM pg_stat_activity WHERE application_name = %s AND wait_event_type = 'Lock'",
                    f"mcptrio {prefix}",
                )
                await eventually(lambda: bool(postgres.run(*waiting)), "the take waits for the row")
                other.execute(f"DELETE FROM {prefix}.quotas".encode())
                other.commit()
        assert waits == [0]


async def an_unsent_message_becomes_a_loss(postgres: PostgresServer, prefix: str) -> None:
    async with opened(postgres, prefix, timeout=1.0) as one, opened(postgres, prefix) as two:
        assert one.bus is not None
        there = TopicListener(two, "topic")
        await there.begin()
        # Stop the backends of the first only: the second keeps its connection and would not know.
        pids = postgres.run(
            "SELECT pid FROM pg_stat_activity WHERE application_name = %s ORDER BY backend_start LIMIT 1",
            f"mcptrio {prefix}",
        )
        for (pid,) in pids:
            os.kill(pid, signal.SIGSTOP)
        try:
            one.bus.publish("topic", b"1")
            await trio.sleep(2)
        finally:
            for (pid,) in pids:
                os.kill(pid, signal.SIGCONT)
        await eventually(lambda: bool(there.messages), "the loss is known")
        assert there.messages == [None] or there.messages == [b"1"]


ON_ONE_SERVER: Mapping[str, Fault] = {
    each.__name__: each
    for each in (
        a_lock_that_another_holds_is_waited_for,
        a_cancelled_claim_is_given_back,
        the_start_survives_an_engine_that_stalls_again,
        a_quota_whose_row_expires_during_a_take_is_full,
        an_unsent_message_becomes_a_loss,
        tables_that_are_locked_for_five_leases_lose_no_append_and_end_no_replica,
    )
}
ON_OWN_SERVERS: Mapping[str, Fault] = {
    each.__name__: each
    for each in (
        replicas_count_each_other_after_a_failure_for_longer_than_a_lease,
        a_stalled_engine_fails_in_time_and_loses_no_append,
        closing_is_bounded_while_the_engine_is_stalled,
        the_start_waits_for_the_engine,
    )
} | {
    f"a_restart_of_the_engine_by_{how.name}": partial(a_restart_of_the_engine_loses_and_repeats_no_event, how=how)
    for how in (signal.SIGINT, signal.SIGQUIT)
}


async def test_faults(postgres: PostgresServer, cluster: Path, subtests: pytest.Subtests) -> None:
    """The cases run at once, because leases and timeouts take most of the time."""

    async def hold_on_own(fault: Fault) -> None:
        async with entered(data_folder(cluster)) as folder, entered(server_at(folder)) as server:
            await fault(server, new_prefix())

    checks = {name: partial(fault, postgres, new_prefix()) for name, fault in ON_ONE_SERVER.items()}
    checks |= {name: partial(hold_on_own, fault) for name, fault in ON_OWN_SERVERS.items()}
    await run_concurrently(checks, subtests)
