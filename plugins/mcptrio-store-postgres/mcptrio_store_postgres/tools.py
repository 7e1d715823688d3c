"""``mcptrio store check URL`` and ``mcptrio store migrate URL`` for PostgreSQL."""

from __future__ import annotations

import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from functools import partial
from typing import Any, Final, TypeVar

import psycopg
import trio

from mcptrio.errors import StoreFailed
from mcptrio.stores import Check, StoreSettings, check_replicas, list_replicas
from mcptrio_store_postgres.address import Address, read_address
from mcptrio_store_postgres.failures import store_failed
from mcptrio_store_postgres.leases import read_replicas
from mcptrio_store_postgres.links import Connection, PostgresLink, enforce_deadlines
from mcptrio_store_postgres.versions import MIN_SERVER, NEWEST, migrate_tables, missing_grant, stored_version

__all__ = ["check", "migrate", "run_in_thread"]

T = TypeVar("T")

_LATENCY_SAMPLES: Final = 20
_MAX_LATENCY: Final = 0.005
_MAX_SKEW: Final = 1.0
# Connections of one replica: the writer, two readers, the listener, and one while it starts.
_CONNECTIONS: Final = 5
_TABLES: Final = ("sessions", "streams", "events", "leases", "effects", "replays", "quotas", "tasks")
_RIGHTS: Final = ("SELECT", "INSERT", "UPDATE", "DELETE")
# Seconds for all checks, and for all migrations.
_CHECK_SECONDS: Final = 30.0
_MIGRATE_SECONDS: Final = 3600.0
# Seconds in which a notification must arrive.
_NOTIFY_TIMEOUT: Final = 2.0


async def check(url: str, settings: StoreSettings) -> list[Check]:
    """Check whether the database is suitable for a replica.

    Raises:
        ConfigError: The URL or a setting is invalid.
    """
    address = read_address(url, settings)
    second = PostgresLink(address, timeout=_CHECK_SECONDS)
    try:
        work = partial(_checks, second=second, lease=settings.lease)
        return await run_in_thread(address, work, second, seconds=_CHECK_SECONDS)
    except StoreFailed as error:
        advice = "check host, port, user, password and pg_hba.conf, and that the server runs"
        return [Check("reachable", False, str(error), advice)]


async def migrate(url: str, settings: StoreSettings) -> list[str]:
    """Create or update the tables. Return the changes, one line each.

    Raises:
        ConfigError: The URL or a setting is invalid.
        StoreFailed: The database cannot be reached, or refuses a change.
    """
    address = read_address(url, settings)
    work = partial(migrate_tables, address=address, unlogged=settings.unlogged)
    return await run_in_thread(address, work, seconds=_MIGRATE_SECONDS)


async def run_in_thread(address: Address, work: Callable[[Connection], T], *others: PostgresLink, seconds: float) -> T:
    """Run ``work`` in a thread with a new connection, and return its result.

    Args:
        address: The address of the database.
        work: A function called with the connection.
        others: Further connections that ``work`` uses; closed at the end.
        seconds: Seconds that ``work`` may take.

    Raises:
        StoreFailed: The database cannot be reached, refused a statement, or took too long.
    """
    links = [PostgresLink(address, timeout=seconds), *others]
    async with trio.open_nursery() as nursery:
        nursery.start_soon(enforce_deadlines, links)
        done = await trio.to_thread.run_sync(_run, links, work, limiter=trio.CapacityLimiter(1))
        nursery.cancel_scope.cancel()
    if isinstance(done, StoreFailed):
        raise done
    return done


def _run(links: list[PostgresLink], work: Callable[[Connection], T]) -> T | StoreFailed:
    try:
        return links[0].use(work)
    except StoreFailed as error:
        return error
    except psycopg.Error as error:
        return store_failed(links[0].address, error)
    finally:
        for link in links:
            link.close()


def _checks(connection: Connection, *, second: PostgresLink, lease: float) -> list[Check]:
    address = second.address
    reachable = Check("reachable", True, f"{address.label}, database {connection.info.dbname}")
    return [
        reachable,
        _tls(connection),
        _version(connection),
        _latency(connection),
        *_schema(connection, address),
        *_durability(connection),
        _clock(connection),
        _notifications(connection, second),
        _connections(connection),
        *_replicas(connection, lease),
    ]


def _tls(connection: Connection) -> Check:
    version, cipher = _row(connection, "SELECT version, cipher FROM pg_stat_ssl WHERE pid = pg_backend_pid()")
    if version:
        return Check("TLS", True, f"{version}, {cipher}")
    host = connection.info.host
    is_local = host.startswith("/") or host in ("localhost", "127.0.0.1", "::1")
    advice = "" if is_local else "use sslmode=verify-full, and turn `insecure` off"
    return Check("TLS", is_local, f"none, to {host}", advice)


def _version(connection: Connection) -> Check:
    version = connection.info.parameter_status("server_version") or "unknown"
    is_ok = connection.info.server_version >= MIN_SERVER
    return Check("version", is_ok, f"PostgreSQL {version}", "" if is_ok else "upgrade to PostgreSQL 14 or later")


def _latency(connection: Connection) -> Check:
    samples = []
    for _ in range(_LATENCY_SAMPLES):
        began = time.perf_counter()
        connection.execute("SELECT 1")
        samples.append(time.perf_counter() - began)
    median = statistics.median(samples)
    is_ok = median <= _MAX_LATENCY
    advice = "" if is_ok else "place the replicas near the database; each event waits for one or two round trips"
    return Check("latency", is_ok, f"{median * 1000:.2f} ms, the median of {_LATENCY_SAMPLES}", advice)


def _schema(connection: Connection, address: Address) -> Iterator[Check]:
    number, compatible_from = stored_version(connection)
    command = f"run: mcptrio store migrate {address.url}"
    if not number and (statement := missing_grant(connection, address)) is not None:
        yield Check("rights", False, f"role {connection.info.user} may not use the schema {address.schema}", statement)
        return
    if not number:
        yield Check("schema", False, f"no tables in schema {address.schema}", command)
        return
    is_ok = number >= NEWEST and compatible_from <= NEWEST
    advice = "" if is_ok else command if number < NEWEST else "upgrade mcptrio-store-postgres"
    yield Check("schema", is_ok, f"{address.schema}, version {number}; this program has {NEWEST}", advice)
    missing = [
        f"{right} on {table}"
        for table in _TABLES
        for right in _RIGHTS
        if not _row(connection, "SELECT has_table_privilege(%s, %s)", f"{address.schema}.{table}", right)[0]
    ]
    role = connection.info.user
    grant = f"GRANT {', '.join(_RIGHTS)} ON ALL TABLES IN SCHEMA {address.schema} TO {role}"
    yield Check(
        "rights",
        not missing,
        f"role {role} has all" if not missing else f"no {', '.join(missing)}",
        grant if missing else "",
    )


def _durability(connection: Connection) -> Iterator[Check]:
    settings = {
        name: _row(connection, f"SHOW {name}")[0] for name in ("fsync", "full_page_writes", "synchronous_commit")
    }
    is_ok = settings["fsync"] == "on" and settings["full_page_writes"] == "on"
    current_values = ", ".join(f"{name} {value}" for name, value in settings.items())
    yield Check(
        "durability",
        is_ok,
        current_values,
        "" if is_ok else "a crash of the machine may damage the database: turn both on",
    )
    rows = connection.execute(
        "SELECT relname FROM pg_class WHERE relnamespace = to_regnamespace(current_schema()) AND relpersistence = 'u'"
        " AND relkind = 'r' ORDER BY relname"
    ).fetchall()
    names = ", ".join(str(name) for (name,) in rows)
    yield Check(
        "kept after a crash",
        True,
        f"all tables but {names}: sessions end with a crash or failover of the engine" if names else "all tables",
    )
    vacuum = _row(connection, "SHOW autovacuum")[0]
    is_ok = vacuum == "on"
    yield Check("autovacuum", is_ok, str(vacuum), "" if is_ok else "turn it on: the tables change all the time")


def _clock(connection: Connection) -> Check:
    before = time.time()
    (server,) = _row(connection, "SELECT extract(epoch FROM clock_timestamp())::float8")
    skew = float(server) - (before + time.time()) / 2
    is_ok = abs(skew) <= _MAX_SKEW
    # All expiry uses the engine's clock, so a difference only matters to operators who compare logs.
    advice = (
        "" if is_ok else "synchronize both machines with NTP; mcptrio uses the engine's clock, but logs will differ"
    )
    return Check("clock", is_ok, f"the engine's is {skew:+.3f} s from ours", advice)


def _notifications(connection: Connection, second: PostgresLink) -> Check:
    """Detect a proxy that pools transactions, through which LISTEN does not work."""
    channel = f"{second.address.schema}_check"
    connection.execute(f"LISTEN {channel}".encode())
    # Sent on another connection, while this one has no transaction: during one, such a proxy would forward the
    # notification.
    second.use(lambda other: other.execute("SELECT pg_notify(%s, 'check')", (channel,)))
    payloads = [each.payload for each in connection.notifies(timeout=_NOTIFY_TIMEOUT, stop_after=1)]
    connection.execute(f"UNLISTEN {channel}".encode())
    is_ok = "check" in payloads
    return Check(
        "notifications",
        is_ok,
        "LISTEN and NOTIFY work" if is_ok else "a notification did not come back",
        "" if is_ok else "connect directly or through a pool of sessions: a pool of transactions loses LISTEN",
    )


def _connections(connection: Connection) -> Check:
    most, used = _row(
        connection,
        "SELECT current_setting('max_connections')::int - current_setting('superuser_reserved_connections')::int,"
        " (SELECT count(*) FROM pg_stat_activity WHERE backend_type = 'client backend')",
    )
    is_ok = most - used >= _CONNECTIONS
    advice = "" if is_ok else f"raise max_connections: a replica uses {_CONNECTIONS - 1}"
    return Check("connections", is_ok, f"{used} of {most} in use", advice)


def _replicas(connection: Connection, lease: float) -> Iterator[Check]:
    # Other checks report missing tables and missing rights.
    with suppress(psycopg.errors.UndefinedTable, psycopg.errors.InsufficientPrivilege):
        seen, total = read_replicas(connection, lease)
        yield check_replicas(list_replicas(seen), total)


def _row(connection: Connection, statement: str, *parameters: Any) -> tuple[Any, ...]:
    row: tuple[Any, ...] | None = connection.execute(statement.encode(), parameters or None).fetchone()
    assert row is not None
    return row
