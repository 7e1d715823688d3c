"""``mcptrio store check`` and ``mcptrio store migrate`` for Redis and Valkey."""

from __future__ import annotations

import secrets
import statistics
import time
from collections.abc import Callable, Iterator
from contextlib import suppress
from typing import Any, Final

import trio
from redis.exceptions import NoPermissionError, ResponseError

from mcptrio.errors import StoreFailed
from mcptrio.stores import MAX_LISTED, Check, StoreSettings, check_replicas, list_replicas
from mcptrio_store_redis.address import RedisAddress, Topology, read_address
from mcptrio_store_redis.batches import failure, is_final
from mcptrio_store_redis.keys import RedisKeys
from mcptrio_store_redis.leases import read_replicas
from mcptrio_store_redis.links import ERRORS, RedisLink, RedisNode, open_link
from mcptrio_store_redis.opening import SCHEMA

__all__ = ["acl_line", "check", "migrate"]

COMMANDS: Final = (
    "get", "set", "getex", "del", "unlink", "exists", "pttl", "pexpire", "hget", "hset", "hmget", "hincrby", "lrange",
    "llen", "rpush", "ltrim", "sadd", "srem", "scard", "srandmember", "zadd", "zrem", "zcard", "zscore", "zrange",
    "zrangebyscore", "publish", "subscribe", "unsubscribe", "evalsha", "script|load", "wait", "time", "ping",
    "info", "select",
)  # fmt: skip
"""The commands that the stores use, as an ACL names them."""
# The commands with which redis-py finds the nodes of a cluster.
_CLUSTER_COMMANDS: Final = ("cluster|slots", "command")
# Redis 6.2 introduced GETEX.
_MINIMUM_VERSION: Final = (6, 2)
_SAMPLES: Final = 20
# Seconds.
_MAX_LATENCY: Final = 0.01
_MAX_SKEW: Final = 2.0


def acl_line(prefix: str, *, is_cluster: bool = False) -> str:
    """Return the line of an ACL file for a user that may do what the stores need, and nothing else.

    Args:
        prefix: The setting ``stores.prefix``.
        is_cluster: True if the engine is a cluster.
    """
    commands = " ".join(f"+{each}" for each in COMMANDS + (_CLUSTER_COMMANDS if is_cluster else ()))
    return f"user mcptrio on >PASSWORD resetkeys ~{prefix}:* resetchannels &{prefix}:* -@all {commands}"


async def check(url: str, settings: StoreSettings) -> list[Check]:
    """Check whether an engine is suitable. The only changes are keys that expire at once.

    Raises:
        ConfigError: The URL or a setting is invalid.
    """
    address = read_address(url, settings)
    return await trio.to_thread.run_sync(_check, address, settings)


async def migrate(url: str, settings: StoreSettings) -> list[str]:
    """Migrate the data to this version, of which there is only one so far.

    Returns:
        The changes, one line each.

    Raises:
        ConfigError: The URL or a setting is invalid.
        StoreFailed: The engine cannot be used, or has data of a newer version.
    """
    address = read_address(url, settings)
    return await trio.to_thread.run_sync(_migrate, address, settings)


def _migrate(address: RedisAddress, settings: StoreSettings) -> list[str]:
    link, key = open_link(address, settings), RedisKeys(settings.prefix).schema
    try:
        version = _ask(link.node(key), "GET", key)
        if version is None:
            _ask(link.node(key), "SET", key, SCHEMA, "NX")
            return [f"{link.label}: set the version of the data to {SCHEMA.decode()}"]
    except ERRORS as error:
        raise failure(link.label, error, settings.timeout) from error
    finally:
        link.reset()
    if version != SCHEMA:
        raise StoreFailed(f"{link.label}: expected data of version {SCHEMA.decode()}, got {version.decode()}")
    return []


def _check(address: RedisAddress, settings: StoreSettings) -> list[Check]:
    link = open_link(address, settings)
    try:
        try:
            nodes = link.nodes()
            for node in nodes:
                _ask(node, "PING")
        except ERRORS as error:
            problem = str(failure(link.label, error, settings.timeout))
            wrong = "correct the URL, stores.ca_file or the password"
            advice = wrong if is_final(error) else f"start the engine, or {wrong}"
            return [Check("reachable", False, problem, advice)]
        checks = [Check("reachable", True, f"{link.label}, {len(nodes)} node{'s' * (len(nodes) > 1)}")]
        checks.append(_check_tls(address))
        checks += _check_all(link, nodes, address, settings)
        return checks
    finally:
        link.reset()


def _check_all(
    link: RedisLink, nodes: list[RedisNode], address: RedisAddress, settings: StoreSettings
) -> Iterator[Check]:
    keys = RedisKeys(settings.prefix)
    parts: list[tuple[str, Callable[[], Check]]] = [
        ("version", lambda: _check_version(nodes)),
        ("latency", lambda: _check_latency(nodes)),
        ("rights", lambda: _check_rights(link, keys, settings)),
        ("memory", lambda: _check_memory(nodes)),
        ("durability", lambda: _check_durability(nodes, settings)),
        ("clock", lambda: _check_clock(nodes)),
        ("data version", lambda: _check_schema(link, keys, address)),
        ("replicas", lambda: _check_replicas(link, keys, settings.lease)),
    ]
    for name, part in parts:
        try:
            yield part()
        except ERRORS as error:
            problem = str(failure(link.label, error, settings.timeout))
            line = acl_line(settings.prefix, is_cluster=not link.is_single_node)
            yield Check(name, False, problem, f"give the user its rights: {line}")


def _check_tls(address: RedisAddress) -> Check:
    if address.is_tls:
        return Check("TLS", True, "the connection is encrypted, and the certificate was checked")
    if address.path:
        return Check("TLS", True, "not needed: a Unix socket")
    return Check("TLS", True, "none: the engine is on this machine, or stores.insecure allows it")


def _check_version(nodes: list[RedisNode]) -> Check:
    versions = []
    is_ok = True
    for node in nodes:
        info = _info(node, "server")
        name = "Valkey" if "valkey_version" in info else "Redis"
        version = info.get("valkey_version") or info.get("redis_version", "0")
        versions.append(f"{name} {version}")
        if name == "Redis":
            is_ok &= tuple(int(part) for part in version.split(".")[:2]) >= _MINIMUM_VERSION
    advice = "" if is_ok else f"use Redis {_MINIMUM_VERSION[0]}.{_MINIMUM_VERSION[1]} or later, or Valkey"
    return Check("version", is_ok, ", ".join(sorted(set(versions))), advice)


def _check_latency(nodes: list[RedisNode]) -> Check:
    seconds = []
    for at in range(_SAMPLES):
        began = time.perf_counter()
        _ask(nodes[at % len(nodes)], "PING")
        seconds.append(time.perf_counter() - began)
    median = statistics.median(seconds)
    advice = "" if median < _MAX_LATENCY else "run the engine near the servers: each event waits for a round trip"
    return Check("latency", median < _MAX_LATENCY, f"{median * 1000:.2f} ms, the median of {_SAMPLES}", advice)


def _check_rights(link: RedisLink, keys: RedisKeys, settings: StoreSettings) -> Check:
    """Run each command on a test key that expires at once. Only missing rights count, so other errors are ignored."""
    key = f"{keys.prefix}:{{check-{secrets.token_hex(4)}}}"
    node = link.node(key)
    missing: set[str] = set()
    tries: dict[str, tuple[Any, ...]] = {
        "get": ("GET", key), "set": ("SET", key, "1", "PX", 1), "getex": ("GETEX", key, "PX", 1),
        "unlink": ("UNLINK", key), "exists": ("EXISTS", key), "pttl": ("PTTL", key), "pexpire": ("PEXPIRE", key, 1),
        "hget": ("HGET", key, "a"), "hset": ("HSET", key, "a", "1"), "hmget": ("HMGET", key, "a"),
        "hincrby": ("HINCRBY", key, "a", 1), "del": ("DEL", key), "rpush": ("RPUSH", key, "1"),
        "lrange": ("LRANGE", key, 0, 0), "llen": ("LLEN", key), "ltrim": ("LTRIM", key, 1, 0),
        "sadd": ("SADD", key, "1"), "scard": ("SCARD", key), "srandmember": ("SRANDMEMBER", key, 1),
        "srem": ("SREM", key, "1"), "zadd": ("ZADD", key, 1, "1"), "zcard": ("ZCARD", key),
        "zscore": ("ZSCORE", key, "1"), "zrange": ("ZRANGE", key, 0, 0),
        "zrangebyscore": ("ZRANGEBYSCORE", key, 0, 0), "zrem": ("ZREM", key, "1"),
        "publish": ("PUBLISH", key, "1"), "script|load": ("SCRIPT LOAD", "return 1"),
        "evalsha": ("EVALSHA", "e0e1f9fabfc9d4800c877a703b823ac0578ff8db", 1, key), "time": ("TIME",),
    }  # fmt: skip
    if settings.confirm:
        tries["wait"] = ("WAIT", 0, 1)
    for name, answer in zip(tries, node.send(list(tries.values())), strict=True):
        if isinstance(answer, NoPermissionError):
            missing.add(name)
    pubsub = node.client.pubsub()
    try:
        pubsub.subscribe(key)
        pubsub.get_message(timeout=settings.timeout)
    except NoPermissionError:
        missing.add("subscribe")
    finally:
        with suppress(ResponseError, *ERRORS):
            pubsub.close()
    if missing:
        problem = f"the user may not run {', '.join(sorted(missing))} on {keys.prefix}:*"
        return Check("rights", False, problem, acl_line(keys.prefix, is_cluster=not link.is_single_node))
    return Check("rights", True, f"every command that is needed works on {keys.prefix}:*")


def _check_memory(nodes: list[RedisNode]) -> Check:
    for node in nodes:
        info = _info(node, "memory")
        policy, limit = info.get("maxmemory_policy", "noeviction"), int(info.get("maxmemory", "0"))
        if policy != "noeviction":
            advice = "set maxmemory-policy noeviction: otherwise the engine deletes sessions and events that are in use"
            return Check("memory", False, f"{node.label}: maxmemory-policy is {policy}", advice)
        if not limit:
            advice = "set maxmemory below the memory of the machine: a full engine then refuses, and does not end"
            return Check("memory", False, f"{node.label}: there is no maxmemory", advice)
    return Check("memory", True, "maxmemory is set, with noeviction")


def _check_durability(nodes: list[RedisNode], settings: StoreSettings) -> Check:
    for node in nodes:
        persistence, replication = _info(node, "persistence"), _info(node, "replication")
        replicas = int(replication.get("connected_slaves", "0"))
        if replicas < settings.confirm:
            advice = "start the missing replicas, or lower stores.confirm: no write counts until then"
            return Check("durability", False, f"{node.label}: {replicas} replicas, {settings.confirm} wanted", advice)
        if replicas and not settings.confirm:
            advice = "set stores.confirm = 1: otherwise a failover loses writes that clients were told of"
            return Check("durability", False, f"{node.label}: {replicas} replicas, writes are not confirmed", advice)
        if not replicas and persistence.get("aof_enabled") != "1":
            advice = "set appendonly yes: otherwise a restart of the engine ends all sessions"
            return Check("durability", False, f"{node.label}: no append-only file and no replica", advice)
    return Check("durability", True, "an append-only file, or replicas that confirm each write")


def _check_clock(nodes: list[RedisNode]) -> Check:
    worst = 0.0
    for node in nodes:
        began = time.time()
        seconds, micros = _ask(node, "TIME")
        middle = (began + time.time()) / 2
        worst = max(worst, abs(int(seconds) + int(micros) / 1e6 - middle))
    advice = "" if worst < _MAX_SKEW else "synchronize the clocks (NTP); leases and expiry use that of the engine"
    return Check("clock", worst < _MAX_SKEW, f"{worst:.2f} s from the clock of this machine", advice)


def _check_schema(link: RedisLink, keys: RedisKeys, address: RedisAddress) -> Check:
    version = _ask(link.node(keys.schema), "GET", keys.schema)
    where = f"{'the cluster' if address.kind is Topology.CLUSTER else f'database {address.database}'}, {keys.prefix}:*"
    if version is None:
        return Check("data version", True, f"no data yet in {where}")
    advice = "" if version == SCHEMA else "use another stores.prefix, or the version that has written the data"
    return Check("data version", version == SCHEMA, f"{version.decode('utf-8', 'replace')} in {where}", advice)


def _check_replicas(link: RedisLink, keys: RedisKeys, lease: float) -> Check:
    node = link.node(keys.replicas)
    replicas = _ask(node, "ZRANGE", keys.replicas, 0, -1, "WITHSCORES")
    last = [name.decode() for name in replicas[::2]][: -MAX_LISTED - 1 : -1]
    entries = node.send([("GET", keys.entry(name)) for name in last])
    for entry in entries:
        if isinstance(entry, Exception):
            raise entry
    seconds, micros = _ask(node, "TIME")
    seen = read_replicas(int(seconds) * 1000 + int(micros) / 1000, replicas, entries, lease)
    return check_replicas(list_replicas(seen), len(replicas) // 2)


def _info(node: RedisNode, section: str) -> dict[str, str]:
    return {str(name): str(value) for name, value in node.client.info(section).items()}


def _ask(node: RedisNode, *words: Any) -> Any:
    (answer,) = node.send([words])
    if isinstance(answer, Exception):
        raise answer
    return answer
