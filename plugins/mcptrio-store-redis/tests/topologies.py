"""Redis with replicas, behind sentinels, and as a cluster."""

from __future__ import annotations

import subprocess
from collections.abc import Callable, Iterator, Sequence
from contextlib import ExitStack, contextmanager
from pathlib import Path

from attrs import frozen

from tests.engines.redis_server import RedisServer, free_port, until

__all__ = ["Place", "clustered", "is_linked", "replicated", "sentinels_of", "watched"]


@frozen
class Place:
    """What :func:`opened` takes instead of a server."""

    url: str


def is_linked(replica: RedisServer) -> bool:
    return bool(replica.command("INFO", "replication")["master_link_status"] == "up")


@contextmanager
def replicated(folder: Path) -> Iterator[tuple[RedisServer, RedisServer]]:
    with RedisServer(folder / "master", "--repl-diskless-sync-delay", "0") as master:
        with RedisServer(folder / "replica", "--replicaof", "127.0.0.1", str(master.port)) as replica:
            until(lambda: is_linked(replica), "the replica follows its master")
            yield master, replica


@contextmanager
def watched(folder: Path) -> Iterator[tuple[RedisServer, RedisServer, Place]]:
    """A master with a replica, and three sentinels."""
    with replicated(folder) as (master, replica), sentinels_of(folder, master, replicas=1) as place:
        yield master, replica, place


@contextmanager
def sentinels_of(folder: Path, master: RedisServer, *, replicas: int) -> Iterator[Place]:
    with ExitStack() as stack:
        sentinels = []
        for at in range(3):
            config = folder / f"sentinel{at}.conf"
            config.write_text(
                f"sentinel monitor main 127.0.0.1 {master.port} 2\n"
                "sentinel down-after-milliseconds main 500\nsentinel failover-timeout main 3000\n"
            )
            sentinel = RedisServer(folder / f"sentinel{at}", "--sentinel", config=config)
            sentinels.append(stack.enter_context(sentinel))
        for sentinel in sentinels:
            until(lambda each=sentinel: knows_all(each, replicas), "the sentinels know each other and the replicas")  # type: ignore[misc]
        hosts = ",".join(f"127.0.0.1:{each.port}" for each in sentinels)
        yield Place(f"redis+sentinel://{hosts}/main")


def knows_all(sentinel: RedisServer, replicas: int) -> bool:
    flat = sentinel.command("SENTINEL", "MASTER", "main")
    state = flat if isinstance(flat, dict) else dict(zip(flat[::2], flat[1::2], strict=True))
    found = {str(name.decode() if isinstance(name, bytes) else name): value for name, value in state.items()}
    return int(found["num-other-sentinels"]) == 2 and int(found["num-slaves"]) == replicas


@contextmanager
def clustered(
    folder: Path, options_of: Callable[[int], Sequence[str]] = lambda at: ()
) -> Iterator[tuple[list[RedisServer], Place]]:
    """Three masters, each with further options."""
    with ExitStack() as stack:
        nodes = []
        for at in range(3):
            bus = str(free_port())
            options = "--cluster-enabled", "yes", "--cluster-port", bus, "--cluster-node-timeout", "2000"
            nodes.append(stack.enter_context(RedisServer(folder / f"node{at}", *options, *options_of(at))))
        hosts = [f"127.0.0.1:{each.port}" for each in nodes]
        subprocess.run(
            ["redis-cli", "--cluster", "create", *hosts, "--cluster-yes"], check=True, capture_output=True, timeout=60
        )
        for node in nodes:
            until(lambda each=node: b"cluster_state:ok" in raw(each), "the cluster is ready")  # type: ignore[misc]
        yield nodes, Place(f"redis+cluster://{hosts[0]},{hosts[1]}")


def raw(node: RedisServer) -> bytes:
    found = node.command("CLUSTER", "INFO")
    if isinstance(found, dict):
        return b"".join(f"{name}:{value}\n".encode() for name, value in found.items())
    return found if isinstance(found, bytes) else str(found).encode()
