"""Connections to the engine through redis-py: to one server, to the master that sentinels name, or to a cluster.

A link belongs to one thread. It connects on first use, and again after :meth:`RedisLink.reset`. The retries of redis-py
are off, so it repeats no command, and each call returns within the timeouts of its sockets.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any, Final, Protocol

from redis import Redis, RedisCluster, RedisError
from redis.backoff import NoBackoff
from redis.cluster import ClusterNode
from redis.credentials import CredentialProvider
from redis.exceptions import ConnectionError as RedisConnectionError
from redis.exceptions import RedisClusterException, ResponseError
from redis.retry import Retry
from redis.sentinel import Sentinel

from mcptrio.stores import StoreSettings
from mcptrio_store_redis.address import RedisAddress, Topology, is_local
from mcptrio_store_redis.commands import Argument
from mcptrio_store_redis.lease_scripts import LEASE_SCRIPTS
from mcptrio_store_redis.scripts import STORE_SCRIPTS
from mcptrio_store_redis.task_scripts import TASK_SCRIPTS

__all__ = ["ERRORS", "RedisLink", "RedisNode", "open_link"]

ERRORS: Final = (RedisError, RedisClusterException, OSError)
"""The exceptions that redis-py raises if a connection or a command fails."""

# Nodes of a cluster that are remembered.
_MAX_SEEN: Final = 30
# Seconds between two queries for the nodes of a cluster while a node is down.
_TOPOLOGY_INTERVAL: Final = 0.5
# redis-py has no types for these.
_SENTINEL: Any = Sentinel
_CLUSTER_NODE: Any = ClusterNode


class RedisNode:
    """One server, with one connection."""

    def __init__(self, label: str, client: Redis) -> None:
        self.label = label
        # redis-py has no types for many of its methods.
        self.client: Any = client

    def send(self, commands: Sequence[tuple[Argument, ...]]) -> list[Any]:
        """Send commands in one round trip, and return their answers. An answer may be an exception.

        Raises:
            RedisError: There is no connection, or it has failed; commands may have been executed.
        """
        # Not with a pipeline of redis-py, which takes 25 µs more.
        connection = self.client.connection_pool.get_connection()
        is_complete = False
        try:
            connection.send_packed_command(connection.pack_commands(commands))
            answers = [_answer(connection) for _ in commands]
            is_complete = True
            return answers
        finally:
            if not is_complete:
                # The connection has unread answers, which would be taken for those of later commands.
                connection.disconnect()
            self.client.connection_pool.release(connection)

    def load_scripts(self) -> None:
        """Load all scripts.

        Raises:
            RedisError: The connection has failed.
        """
        for answer in self.send(
            [("SCRIPT LOAD", script.text) for script in (*STORE_SCRIPTS, *LEASE_SCRIPTS, *TASK_SCRIPTS)]
        ):
            if isinstance(answer, Exception):
                raise answer

    def close(self) -> None:
        self.client.close()
        self.client.connection_pool.disconnect()


def _answer(connection: Any) -> Any:
    try:
        return connection.read_response()
    except ResponseError as error:
        return error


class RedisLink(Protocol):
    """The connections to the engine.

    Attributes:
        label: The engine's address, for errors.
        is_single_node: True if all keys are on one node.
    """

    label: str
    is_single_node: bool

    def node(self, key: str) -> RedisNode:
        """Return the node that has a key.

        Raises:
            RedisError: The node cannot be found.
        """
        ...

    def nodes(self) -> list[RedisNode]:
        """Return all nodes that accept writes.

        Raises:
            RedisError: The nodes cannot be found.
        """
        ...

    def reset(self) -> None:
        """Close all connections. The next use finds the nodes again."""
        ...

    def fail(self) -> None:
        """Close all connections after a failure, but in a cluster not more often than twice a second."""
        ...


def open_link(address: RedisAddress, settings: StoreSettings) -> RedisLink:
    """Return a link that is not connected yet."""
    if address.kind is Topology.CLUSTER:
        return _Cluster(address, settings)
    if address.kind is Topology.SENTINEL:
        return _SentinelMaster(address, settings)
    return _SingleServer(address, settings)


class _SingleServer:
    is_single_node = True

    def __init__(self, address: RedisAddress, settings: StoreSettings) -> None:
        self.label = address.label
        self._options = _options(address, settings)
        self._address = address
        self._node: RedisNode | None = None

    def node(self, key: str) -> RedisNode:
        if self._node is None:
            self._node = RedisNode(self.label, self._connect())
        return self._node

    def nodes(self) -> list[RedisNode]:
        return [self.node("")]

    def reset(self) -> None:
        node, self._node = self._node, None
        if node is not None:
            node.close()

    def fail(self) -> None:
        self.reset()

    def _connect(self) -> Redis:
        if self._address.path:
            return Redis(unix_socket_path=self._address.path, db=self._address.database, **self._options)
        host, port = self._address.hosts[0]
        return Redis(host=host, port=port, db=self._address.database, **self._options)


class _SentinelMaster(_SingleServer):
    """The master of a service that sentinels watch."""

    def __init__(self, address: RedisAddress, settings: StoreSettings) -> None:
        super().__init__(address, settings)
        self._allows_any_host = settings.insecure or address.is_tls
        options = dict(self._options)
        if not address.has_sentinel_auth:
            options["credential_provider"] = None
        self._sentinel: Any = _SENTINEL(list(address.hosts), sentinel_kwargs=options)

    def reset(self) -> None:
        super().reset()
        for each in self._sentinel.sentinels:
            each.connection_pool.disconnect()

    def _connect(self) -> Redis:
        host, port = self._sentinel.discover_master(self._address.service)
        host = host.decode() if isinstance(host, bytes) else host
        self.label = f"redis {host}:{port} ({self._address.service})"
        _check_host(host, self._allows_any_host)
        return Redis(host=host, port=port, db=self._address.database, **self._options)


class _Cluster:
    is_single_node = False

    def __init__(self, address: RedisAddress, settings: StoreSettings) -> None:
        self.label = address.label
        self._hosts = address.hosts
        self._options = _options(address, settings)
        self._allows_any_host = settings.insecure or address.is_tls
        self._cluster: Any = None
        self._nodes: dict[str, RedisNode] = {}
        # The nodes that the cluster named last, because all nodes of the URL may be down.
        self._seen: dict[tuple[str, int], None] = {}
        self._last_failure_at = float("-inf")

    def node(self, key: str) -> RedisNode:
        cluster_node = self._open_cluster().get_node_from_key(key)
        if cluster_node is None:
            raise RedisClusterException(f"no node has the slot of {key}")
        return self._node(cluster_node)

    def nodes(self) -> list[RedisNode]:
        return [self._node(each) for each in self._open_cluster().get_primaries()]

    def reset(self) -> None:
        nodes, self._nodes = self._nodes, {}
        for node in nodes.values():
            node.close()
        cluster, self._cluster = self._cluster, None
        if cluster is not None:
            self._seen = dict.fromkeys([(each.host, each.port) for each in cluster.get_nodes()][:_MAX_SEEN])
            cluster.close()

    def fail(self) -> None:
        # While one node is down, not every batch should connect to all others again. redis-py has closed the connection
        # that failed.
        now = time.monotonic()
        if now - self._last_failure_at >= _TOPOLOGY_INTERVAL:
            self._last_failure_at = now
            self.reset()

    def _open_cluster(self) -> Any:
        if self._cluster is None:
            self._cluster = RedisCluster(
                startup_nodes=[_CLUSTER_NODE(host, port) for host, port in (*self._hosts, *self._seen)],
                **self._options,
            )
        return self._cluster

    def _node(self, cluster_node: ClusterNode) -> RedisNode:
        node = self._nodes.get(cluster_node.name)
        if node is None:
            _check_host(cluster_node.host, self._allows_any_host)
            # A client for this node alone: the client of the cluster would follow redirections and repeat commands.
            client = Redis(host=cluster_node.host, port=cluster_node.port, **self._options)
            node = self._nodes[cluster_node.name] = RedisNode(f"redis {cluster_node.name}", client)
        return node


def _options(address: RedisAddress, settings: StoreSettings) -> dict[str, Any]:
    options: dict[str, Any] = {
        "credential_provider": _Login(address) if address.user or address.password else None,
        "socket_timeout": settings.timeout,
        "socket_connect_timeout": settings.timeout,
        # The stores repeat commands where that is safe.
        "retry": Retry(NoBackoff(), 0),
        "protocol": 2,
    }
    if address.is_tls:
        options["ssl"] = True
        options["ssl_cert_reqs"] = "required"
        options["ssl_check_hostname"] = True
        if settings.ca_file is not None:
            options["ssl_ca_certs"] = str(Path(settings.ca_file).expanduser())
    return options


class _Login(CredentialProvider):
    """The user and password of each new connection."""

    def __init__(self, address: RedisAddress) -> None:
        self._address = address

    def get_credentials(self) -> tuple[str] | tuple[str, str]:
        user, password, path = self._address.user, self._address.password, self._address.password_file
        if path is not None:
            try:
                password = path.expanduser().read_text("utf-8").rstrip("\r\n")
            except (OSError, UnicodeError) as error:
                raise RedisConnectionError(f"cannot read the password file {path}: {error}") from error
        return (user, password) if user else (password,)


def _check_host(host: str, allows_any_host: bool) -> None:
    """Check that a server that sentinels or a cluster have named can be reached with TLS, or is this machine.

    Raises:
        RedisError: The connection to another machine would be unencrypted.
    """
    if not allows_any_host and not is_local(host):
        raise RedisConnectionError(f"expected TLS for the connection to {host}; add ?tls=1 to the URL")
