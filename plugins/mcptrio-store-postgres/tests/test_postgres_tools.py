"""URLs and settings, the tables and their versions, and the two commands for operators."""

from __future__ import annotations

import pytest
import trio
from mcptrio_store_postgres import tools, versions
from mcptrio_store_postgres.address import read_address
from mcptrio_store_postgres.links import Connection

from mcptrio.abc import SessionRecord
from mcptrio.errors import ConfigError, StoreFailed
from mcptrio.stores import MemoryBus, StoreSettings, open_stores
from tests.engines.postgres_server import PostgresServer
from tests.stores.shared_contract import TopicListener, eventually

from .conftest import opened

__all__: list[str] = []


@pytest.mark.parametrize(
    ("url", "mode"),
    [
        ("postgresql://u@localhost/d", "prefer"),
        ("postgresql://u@127.0.0.1:5433/d", "prefer"),
        ("postgresql://u@[::1]/d", "prefer"),
        ("postgresql:///d?host=/run/postgresql", "prefer"),
        ("postgres://u@db.example/d", "verify-full"),
        ("postgresql://u@db.example/d?sslmode=require", "require"),
        ("postgresql://u@localhost,db.example/d", "verify-full"),
        ("postgresql:///d?hostaddr=192.0.2.1&host=localhost", "verify-full"),
        ("postgresql:///d?service=production", "verify-full"),
    ],
)
def test_other_machines_are_reached_with_tls(url: str, mode: str) -> None:
    assert read_address(url, StoreSettings()).parameters["sslmode"] == mode


@pytest.mark.parametrize("mode", ["disable", "allow", "prefer"])
def test_connection_without_tls_to_another_machine_is_refused(mode: str) -> None:
    url = f"postgresql://u@db.example/d?sslmode={mode}"
    with pytest.raises(ConfigError, match=f"expected sslmode require.*got sslmode {mode}"):
        read_address(url, StoreSettings())
    assert read_address(url, StoreSettings(insecure=True)).parameters["sslmode"] == mode


def test_connections_begin_without_options_which_pgbouncer_refuses() -> None:
    address = read_address("postgresql://u@localhost/d", StoreSettings(prefix="own"))
    assert "options" not in address.connection_parameters()
    assert b"SET search_path = own; SET statement_timeout = 2000" in address.session_statements(statement_timeout=2)


@pytest.mark.parametrize("prefix", ["", "A", "1a", "a-b", 'a"b', "a" * 41, "ä"])
def test_prefix_that_is_no_plain_identifier_is_refused(prefix: str) -> None:
    with pytest.raises(ConfigError, match="prefix: expected a lower-case letter"):
        read_address("postgresql:///d", StoreSettings(prefix=prefix))


async def test_engine_compiles_no_statement(postgres: PostgresServer, prefix: str) -> None:
    """Compiling takes much longer than any of them. The planner takes the scan of a table for expensive."""
    async with opened(postgres, prefix):
        pass
    address = read_address(postgres.url, StoreSettings(prefix=prefix))

    def plan(connection: Connection) -> list[str]:
        return [
            str(line)
            for (line,) in connection.execute(
                "EXPLAIN ANALYZE SELECT max(number) + max(compatible_from) FROM migrations"
            )
        ]

    lines = await tools.run_in_thread(address, plan, seconds=10)

    assert any("Seq Scan" in line for line in lines)
    assert not [line for line in lines if "JIT" in line]


async def test_passwords_are_in_no_error(postgres: PostgresServer) -> None:
    secret = "s3cret-w0rd"
    with pytest.raises(ConfigError) as malformed:
        read_address(f"postgresql://u:{secret}:@[host/d", StoreSettings())
    assert secret not in str(malformed.value)
    assert secret not in read_address(f"postgresql://u:{secret}@localhost/d", StoreSettings()).url
    url = f"postgresql://u:{secret}@127.0.0.1:{postgres.port}/missing"
    with pytest.raises(StoreFailed, match="postgresql at 127") as failed:
        async with open_stores(url, StoreSettings(start_timeout=0)):
            raise AssertionError("the database does not exist")
    assert secret not in str(failed.value)


async def test_server_never_makes_tables(postgres: PostgresServer, prefix: str) -> None:
    settings = StoreSettings(prefix=prefix)
    with pytest.raises(StoreFailed, match=f"run mcptrio store migrate postgresql://mcptrio@127.0.0.1:{postgres.port}"):
        async with open_stores(postgres.url, settings):
            raise AssertionError("there are no tables")
    assert not postgres.run("SELECT FROM pg_namespace WHERE nspname = %s", prefix)


async def test_migrations_run_once_however_many_processes_start_them(postgres: PostgresServer, prefix: str) -> None:
    settings, done = StoreSettings(prefix=prefix), []

    async def migrate() -> None:
        done.append(await tools.migrate(postgres.url, settings))

    async with trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(migrate)
    expected = ["applied 0001 tables", "applied 0002 tasks", f"created the schema {prefix}"]
    assert sorted(line for lines in done for line in lines) == expected


@pytest.mark.parametrize(("compatible_from", "works"), [(1, True), (versions.NEWEST + 1, False)])
async def test_tables_of_the_next_version_are_used_if_they_are_compatible(
    postgres: PostgresServer, prefix: str, compatible_from: int, works: bool
) -> None:
    async with opened(postgres, prefix):
        pass
    postgres.run(f"INSERT INTO {prefix}.migrations VALUES ({versions.NEWEST + 1}, 'later', {compatible_from})")
    if works:
        async with opened(postgres, prefix) as stores:
            assert await stores.sessions.save(SessionRecord(id="a", revision="a revision"))
        return
    with pytest.raises(StoreFailed, match="needs a newer mcptrio-store-postgres"):
        async with opened(postgres, prefix):
            raise AssertionError("the tables are too new")


async def test_version_before_works_with_the_tables_of_this_one(
    postgres: PostgresServer, prefix: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    async with opened(postgres, prefix) as new:
        monkeypatch.setattr(versions, "NEWEST", versions.NEWEST - 1)
        async with opened(postgres, prefix) as old:
            assert await old.sessions.save(SessionRecord(id="a", revision="a revision"))
            assert await new.sessions.load("a") is not None


async def test_tables_of_sessions_and_events_become_unlogged_and_back(postgres: PostgresServer, prefix: str) -> None:
    def unlogged() -> list[str]:
        rows = postgres.run(
            "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(%s) AND relkind = 'r'"
            " AND relpersistence = 'u' ORDER BY 1",
            prefix,
        )
        return [name for (name,) in rows]

    await tools.migrate(postgres.url, StoreSettings(prefix=prefix, unlogged=True))
    assert unlogged() == ["events", "sessions", "streams"]
    assert len(await tools.migrate(postgres.url, StoreSettings(prefix=prefix))) == 3
    assert unlogged() == []


async def test_check_reports_missing_schema_with_advice(postgres: PostgresServer, prefix: str) -> None:
    settings = StoreSettings(prefix=prefix)
    before = {check.name: check for check in await tools.check(postgres.url, settings)}
    assert before["reachable"].is_ok
    assert not before["schema"].is_ok
    assert before["schema"].advice.startswith("run: mcptrio store migrate postgresql://")

    await tools.migrate(postgres.url, settings)
    role = f"r{prefix}"
    postgres.run(f"CREATE ROLE {role} LOGIN")
    postgres.run(f"GRANT USAGE ON SCHEMA {prefix} TO {role}")
    postgres.run(f"GRANT SELECT ON ALL TABLES IN SCHEMA {prefix} TO {role}")
    url = postgres.url.replace("mcptrio@", f"{role}@")
    found = {check.name: check for check in await tools.check(url, settings)}
    assert not found["rights"].is_ok
    assert "INSERT on sessions" in found["rights"].found
    postgres.run(found["rights"].advice)
    found = {check.name: check for check in await tools.check(url, settings)}
    # The tests' server does not wait for its disk.
    assert [name for name, check in found.items() if not check.is_ok] == ["durability"]
    # These rights are enough.
    async with open_stores(url, settings) as stores:
        await stores.events.append("s", "x", b"1", last=True)
        assert await stores.sessions.save(SessionRecord(id="a", revision="a revision"))

    unreachable = await tools.check("postgresql://mcptrio@127.0.0.1:1/postgres", settings)
    assert [(check.name, check.is_ok) for check in unreachable] == [("reachable", False)]


async def test_dump_has_no_session_id(postgres: PostgresServer, prefix: str) -> None:
    id = "credential-like-id"
    async with opened(postgres, prefix) as stores:
        await stores.sessions.save(SessionRecord(id=id, revision="a revision"))
        await stores.events.append(id, "x", b"1")
        await stores.events.put(id, b"message")
        loaded = await stores.sessions.load(id)
        assert loaded is not None
        assert loaded.id == id
        for (table,) in postgres.run("SELECT tablename FROM pg_tables WHERE schemaname = %s", prefix):
            for (row,) in postgres.run(f"SELECT t::text FROM {prefix}.{table} AS t"):
                assert id not in row
                assert id.encode().hex() not in row


async def test_another_bus_is_woken_instead(postgres: PostgresServer, prefix: str) -> None:
    bus = MemoryBus()
    await tools.migrate(postgres.url, StoreSettings(prefix=prefix))
    async with open_stores(postgres.url, StoreSettings(prefix=prefix), bus=bus) as stores:
        assert stores.bus is bus
        listener = TopicListener(stores, "session:s")
        await stores.events.append("s", "x", b"1")
        await stores.events.put("s", b"message")
        await eventually(lambda: listener.messages == [b"wake x", b"inbox"], "both are announced")


async def test_expired_rows_are_deleted(postgres: PostgresServer, prefix: str) -> None:
    async with opened(postgres, prefix, event_timeout=1) as stores:
        assert stores.replays is not None
        assert stores.quotas is not None
        await stores.events.append("s", "done", b"1", last=True)
        await stores.events.append("s", "open", b"1")
        await stores.replays.use("name", 0.1)
        await stores.quotas.take("name", count=10, seconds=1, burst=1)
        await trio.sleep(1.5)
        with trio.fail_after(30):
            while True:
                rows = [
                    postgres.run(f"SELECT count(*) FROM {prefix}.{table}")[0][0]
                    for table in ("events", "streams", "replays", "quotas")
                ]
                if rows == [0, 1, 0, 0]:
                    return
                await trio.sleep(0.2)
