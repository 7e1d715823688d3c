"""URLs of the stores, TLS, users and rights, and what ``mcptrio store check`` reports."""

from __future__ import annotations

from collections.abc import Iterator
from importlib.metadata import entry_points
from pathlib import Path

import pytest
from mcptrio_store_redis.address import RedisAddress, Topology, is_local, read_address
from mcptrio_store_redis.tools import acl_line, check, migrate

from mcptrio.abc import SessionRecord
from mcptrio.errors import ConfigError, StoreFailed
from mcptrio.stores import Check, StoreSettings, open_stores
from tests.engines.redis_server import RedisServer

from .conftest import opened

__all__: list[str] = []

PLAIN = StoreSettings()
OPEN = StoreSettings(insecure=True)


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("redis://localhost", RedisAddress(kind=Topology.SINGLE, hosts=(("localhost", 6379),))),
        ("valkey://127.0.0.1:7000/3", RedisAddress(kind=Topology.SINGLE, hosts=(("127.0.0.1", 7000),), database=3)),
        ("redis://[::1]:7000", RedisAddress(kind=Topology.SINGLE, hosts=(("::1", 7000),))),
        (
            "rediss://ann:a%40b@db.example/1",
            RedisAddress(
                kind=Topology.SINGLE, hosts=(("db.example", 6379),), user="ann", password="a@b", is_tls=True, database=1
            ),
        ),
        ("redis:///run/redis.sock?db=2", RedisAddress(kind=Topology.SINGLE, path="/run/redis.sock", database=2)),
        (
            "redis+sentinel://:pw@a.example,b.example:1/main/2?tls=1&sentinel_auth=1",
            RedisAddress(
                kind=Topology.SENTINEL,
                hosts=(("a.example", 26379), ("b.example", 1)),
                service="main",
                database=2,
                password="pw",
                is_tls=True,
                has_sentinel_auth=True,
            ),
        ),
        (
            "redis+cluster://127.0.0.1:1,localhost:2",
            RedisAddress(kind=Topology.CLUSTER, hosts=(("127.0.0.1", 1), ("localhost", 2))),
        ),
    ],
)  # fmt: skip
def test_url_says_where_the_engine_is(url: str, expected: RedisAddress) -> None:
    found = read_address(url, PLAIN)
    assert found == expected
    assert "a@b" not in repr(found)
    assert "pw" not in found.label


@pytest.mark.parametrize(
    ("url", "error"),
    [
        ("redis://db.example", "expected TLS for the connection to db.example, .* use rediss://"),
        ("redis+cluster://127.0.0.1,db.example", "expected TLS .* add \\?tls=1"),
        ("redis:127.0.0.1", "got a URL without //"),
        ("redis://127.0.0.1:port", "expected HOST or HOST:PORT, got '127.0.0.1:port'"),
        ("redis://127.0.0.1:65536", "expected a port from 1 to 65535, got 65536"),
        ("rediss://a..b", "expected the name of a host, got 'a..b'"),
        ("redis://127.0.0.1,127.0.0.1", "expected one host in a redis URL, got 2"),
        ("redis://127.0.0.1/a", "expected the number of a database, got 'a'"),
        ("redis://127.0.0.1?ssl=1", "expected one of db, sentinel_auth, tls .* got 'ssl'"),
        ("redis+sentinel://127.0.0.1", "got no name of a service"),
        ("redis+cluster://127.0.0.1/1", "expected database 0 of a cluster, got 1"),
    ],
)
def test_invalid_url_is_refused(url: str, error: str) -> None:
    with pytest.raises(ConfigError, match=error):
        read_address(url, PLAIN)


def test_another_machine_needs_tls_unless_the_operator_allows_it() -> None:
    assert read_address("redis://db.example", OPEN).hosts == (("db.example", 6379),)
    assert [is_local(host) for host in ("localhost", "127.1.2.3", "::1", "10.0.0.1", "localhost.example")] == [
        *(True, True, True),
        *(False, False),
    ]


def test_prefix_is_checked_and_a_password_may_be_in_a_file(tmp_path: Path) -> None:
    with pytest.raises(ConfigError, match=r"stores\.prefix: expected 1 to 64 letters"):
        read_address("redis://localhost", StoreSettings(prefix="a{b}"))
    file = tmp_path / "password"
    file.write_text("secret\n")
    settings = StoreSettings(password_file=file)
    assert read_address("redis://ann@localhost", settings).password == "secret"
    with pytest.raises(ConfigError, match="password_file"):
        read_address("redis://localhost", StoreSettings(password_file=tmp_path / "missing"))


def test_every_scheme_has_an_opener_and_tools() -> None:
    schemes = {"redis", "rediss", "valkey", "valkeys", "redis+sentinel", "redis+cluster"}
    assert schemes <= {each.name for each in entry_points(group="mcptrio.stores")}
    for each in entry_points(group="mcptrio.store_tools"):
        if each.name in schemes:
            tools = each.load()
            assert (tools.check, tools.migrate) == (check, migrate)


@pytest.fixture
def guarded(tmp_path: Path, prefix: str) -> Iterator[RedisServer]:
    """A server whose user ``mcptrio`` has the rights that the documentation names."""
    folder = tmp_path / "redis"
    folder.mkdir()
    acl = folder / "users.acl"
    acl.write_text("user default on >admin ~* &* +@all\n" + acl_line(prefix).replace("PASSWORD", "s3cret") + "\n")
    server = RedisServer(folder, "--aclfile", str(acl), "--appendonly", "yes")
    server.password = "admin"
    with server:
        yield server


async def test_documented_rights_are_enough(guarded: RedisServer, prefix: str) -> None:
    url = f"redis://mcptrio:s3cret@127.0.0.1:{guarded.port}"
    settings = StoreSettings(prefix=prefix, lease=2)
    found = await check(url, settings)
    assert [each.name for each in found if not each.is_ok] == ["memory"], found
    async with open_stores(url, settings) as stores:
        assert stores.quotas is not None
        assert stores.effects is not None
        assert stores.replays is not None
        saved = await stores.sessions.save(SessionRecord(id="s", revision="a revision"))
        assert saved is not None
        event = await stores.events.append("s", "x", b"1", last=True)
        assert await stores.events.after("s", event.id) == ("x", [], True)
        assert await stores.events.completed_after("s", "x") == []
        await stores.events.put("s", b"1")
        await stores.effects.claim("call", "a")
        await stores.effects.finish("call", "a", b"1")
        assert await stores.quotas.take("q", count=1, seconds=1, burst=1) == 0
        assert await stores.replays.use("proof", 1)
        assert await stores.sessions.expire() == []
        await stores.events.drop("s")
        assert await stores.sessions.delete("s")


async def test_missing_rights_and_wrong_passwords_are_named(guarded: RedisServer, prefix: str) -> None:
    url = f"redis://mcptrio:wr0ng@127.0.0.1:{guarded.port}"
    with pytest.raises(StoreFailed, match="refuses the user or the password") as raised:
        async with open_stores(url, StoreSettings(prefix=prefix)):
            raise AssertionError("it is wrong")
    assert "wr0ng" not in str(raised.value)
    (found,) = await check(url, StoreSettings(prefix=prefix))
    assert (found.name, found.is_ok) == ("reachable", False)
    guarded.command("ACL", "SETUSER", "mcptrio", "-zadd", "-publish")
    checks = await check(f"redis://mcptrio:s3cret@127.0.0.1:{guarded.port}", StoreSettings(prefix=prefix))
    rights = next(each for each in checks if each.name == "rights")
    assert rights == Check("rights", False, f"the user may not run publish, zadd on {prefix}:*", acl_line(prefix))
    with pytest.raises(StoreFailed, match="lacks a right"):
        async with open_stores(
            f"redis://mcptrio:s3cret@127.0.0.1:{guarded.port}", StoreSettings(prefix=prefix, start_timeout=0)
        ):
            raise AssertionError("a right is missing")


async def test_check_reports_unsafe_redis_settings(own_redis: RedisServer, prefix: str) -> None:
    settings = StoreSettings(prefix=prefix)
    own_redis.command("CONFIG", "SET", "maxmemory", "100mb", "maxmemory-policy", "allkeys-lru", "appendonly", "no")
    found = {each.name: each for each in await check(own_redis.url, settings)}
    assert [name for name, each in found.items() if not each.is_ok] == ["memory", "durability"]
    assert "noeviction" in found["memory"].advice
    assert "appendonly" in found["durability"].advice
    own_redis.command("CONFIG", "SET", "maxmemory-policy", "noeviction", "appendonly", "yes")
    assert all(each.is_ok for each in await check(own_redis.url, settings))
    # A check leaves nothing.
    assert own_redis.command("DBSIZE") == 0
    unconfirmed = {each.name: each for each in await check(own_redis.url, StoreSettings(prefix=prefix, confirm=1))}
    assert not unconfirmed["durability"].is_ok


async def test_data_of_another_version_is_not_touched(redis: RedisServer, prefix: str) -> None:
    settings = StoreSettings(prefix=prefix)
    assert await migrate(redis.url, settings) == [f"redis 127.0.0.1:{redis.port}: set the version of the data to 1"]
    assert await migrate(redis.url, settings) == []
    redis.command("SET", f"{prefix}:{{schema}}", "2")
    with pytest.raises(StoreFailed, match="expected data of version 1, got 2"):
        await migrate(redis.url, settings)
    with pytest.raises(StoreFailed, match=r"expected data of version 1 at .*, got 2"):
        async with opened(redis, prefix):
            raise AssertionError("it is newer")
    found = next(each for each in await check(redis.url, settings) if each.name == "data version")
    assert not found.is_ok


async def test_no_key_shows_an_id_of_a_session(redis: RedisServer, prefix: str) -> None:
    async with opened(redis, prefix) as stores:
        assert stores.bus is not None
        stores.bus.follow("session:very-secret", lambda _: None)
        await stores.sessions.save(SessionRecord(id="very-secret", revision="a revision"))
        await stores.events.append("very-secret", "x", b"1")
        await stores.events.put("very-secret", b"1")
        for key in redis.command("KEYS", f"{prefix}*"):
            assert b"very-secret" not in key
            kind = redis.command("TYPE", key)
            value = redis.command("DUMP", key) if kind != b"none" else b""
            assert b"very-secret" not in value


def test_readme_has_the_line_of_rights() -> None:
    readme = (Path(__file__).parent.parent / "README.md").read_text("utf-8")
    assert acl_line("mcptrio") in readme
