"""The URL of the stores: the address of the engine, and the options of the connection.

Source: redis-py's URLs, and the schemes ``redis+sentinel`` and ``redis+cluster`` with several hosts.
"""

from __future__ import annotations

import ipaddress
import re
import ssl
from enum import Enum
from pathlib import Path
from typing import Any, Final
from urllib.parse import parse_qs, unquote, urlsplit

from attrs import field, frozen

from mcptrio.errors import ConfigError
from mcptrio.stores import StoreSettings

__all__ = ["RedisAddress", "Topology", "is_local", "read_address"]

_PREFIX: Final = re.compile(r"[A-Za-z0-9_.:-]{1,64}")
_PORTS: Final = {"redis+sentinel": 26379}
_OPTIONS: Final = {"tls", "sentinel_auth"}


class Topology(Enum):
    """The kind of engine: one server, a master that sentinels watch, or a cluster."""

    SINGLE = "single"
    SENTINEL = "sentinel"
    CLUSTER = "cluster"


@frozen(kw_only=True)
class RedisAddress:
    """The address of the engine, and the options of the connection.

    Args:
        kind: The kind of engine.
        hosts: Host names and ports: the server, the sentinels, or some nodes of the cluster.
        path: The path of a Unix socket, which replaces the hosts.
        service: The name of the service that the sentinels watch.
        database: The number of the database.
        is_tls: True to connect with TLS.
        user: The user for AUTH; empty for the default user.
        password: The password. It appears in no error and no log.
        password_file: The file with the password. It is read for each connection, so the password may change.
        has_sentinel_auth: True if the sentinels require the same user and password.
    """

    kind: Topology
    hosts: tuple[tuple[str, int], ...] = ()
    path: str = ""
    service: str = ""
    database: int = 0
    is_tls: bool = False
    user: str = ""
    password: str = field(default="", repr=False)
    password_file: Path | None = None
    has_sentinel_auth: bool = False

    @property
    def label(self) -> str:
        """Return the address for errors and logs, without a password."""
        if self.path:
            return f"redis {self.path}"
        hosts = ",".join(f"[{host}]:{port}" if ":" in host else f"{host}:{port}" for host, port in self.hosts)
        return f"redis {self.kind.value} {hosts}" if self.kind is not Topology.SINGLE else f"redis {hosts}"


def read_address(url: str, settings: StoreSettings) -> RedisAddress:
    """Return the address in a URL.

    Raises:
        ConfigError: The URL or a setting is invalid, or the connection would be unencrypted.
    """
    scheme, separator, _ = url.partition("://")
    scheme = scheme.lower()
    if not separator:
        raise ConfigError(f"store: expected {scheme.partition(':')[0]}://HOST, got a URL without //")
    if not _PREFIX.fullmatch(settings.prefix):
        raise ConfigError(
            f"stores.prefix: expected 1 to 64 letters, digits and any of _ . : -, got {settings.prefix!r}"
        )
    parts = urlsplit(url)
    options = _options(parts.query)
    kind = (
        Topology.SENTINEL
        if scheme == "redis+sentinel"
        else Topology.CLUSTER
        if scheme == "redis+cluster"
        else Topology.SINGLE
    )
    login, _, hosts = parts.netloc.rpartition("@")
    user, _, password = login.partition(":")
    path, is_socket = unquote(parts.path), kind is Topology.SINGLE and not hosts and parts.path.strip("/") != ""
    service, database = _service_and_database(path, kind) if not is_socket else ("", _number(options.get("db", "0")))
    address = RedisAddress(
        kind=kind,
        hosts=() if is_socket else tuple(_host(each, _PORTS.get(scheme, 6379)) for each in hosts.split(",")),
        path=path if is_socket else "",
        service=service,
        database=database,
        is_tls=scheme in ("rediss", "valkeys") or options.get("tls", "") in ("1", "true"),
        user=unquote(user),
        password=_read_password(settings.password_file) if settings.password_file else unquote(password),
        password_file=settings.password_file,
        has_sentinel_auth=options.get("sentinel_auth", "") in ("1", "true"),
    )
    if settings.ca_file is not None:
        _check_authorities(settings.ca_file)
    if kind is Topology.SINGLE and len(address.hosts) > 1:
        raise ConfigError(f"store: expected one host in a {scheme} URL, got {len(address.hosts)}")
    if not address.is_tls and not settings.insecure:
        remote = [host for host, _ in address.hosts if not is_local(host)]
        if remote:
            fix = "use rediss://" if kind is Topology.SINGLE else "add ?tls=1"
            raise ConfigError(
                f"store: expected TLS for the connection to {remote[0]}, got a URL without; {fix}, or set"
                " stores.insecure if the network is trusted"
            )
    return address


def is_local(host: str) -> bool:
    """Return True if a host is this machine, so that messages to it cross no network."""
    if host.lower() == "localhost":
        return True
    try:
        return ipaddress.ip_address(host.strip("[]")).is_loopback
    except ValueError:
        return False


def _options(query: str) -> dict[str, Any]:
    options = {name: values[-1].lower() for name, values in parse_qs(query, keep_blank_values=True).items()}
    unknown = sorted(set(options) - _OPTIONS - {"db"})
    if unknown:
        names = ", ".join(sorted(_OPTIONS | {"db"}))
        raise ConfigError(f"store: expected one of {names} after the ? of the URL, got {unknown[0]!r}")
    return options


def _service_and_database(path: str, kind: Topology) -> tuple[str, int]:
    parts = [each for each in path.split("/") if each]
    if kind is Topology.SENTINEL:
        if not parts:
            raise ConfigError("store: expected redis+sentinel://HOST:PORT/SERVICE, got no name of a service")
        return parts[0], _number(parts[1] if len(parts) > 1 else "0")
    database = _number(parts[0] if parts else "0")
    if kind is Topology.CLUSTER and database:
        raise ConfigError(f"store: expected database 0 of a cluster, got {database}")
    return "", database


def _host(text: str, port: int) -> tuple[str, int]:
    match = re.fullmatch(r"(\[[0-9A-Fa-f:.]+\]|[^:\[\]]+)(?::(\d{1,5}))?", text)
    if match is None:
        raise ConfigError(f"store: expected HOST or HOST:PORT, got {text!r}")
    host, number = match[1].strip("[]"), int(match[2] or port)
    try:
        host.encode("idna")
    except UnicodeError as error:
        raise ConfigError(f"store: expected the name of a host, got {host!r}: {error}") from error
    if not 0 < number < 65536:
        raise ConfigError(f"store: expected a port from 1 to 65535, got {number}")
    return host, number


def _number(text: str) -> int:
    if not text.isdecimal() or len(text) > 4:
        raise ConfigError(f"store: expected the number of a database, got {text!r}")
    return int(text)


def _read_password(path: Path) -> str:
    try:
        return path.expanduser().read_text("utf-8").rstrip("\r\n")
    except (OSError, UnicodeDecodeError) as error:
        raise ConfigError(f"stores.password_file: cannot read {path}: {error}") from error


def _check_authorities(path: Path) -> None:
    try:
        ssl.create_default_context(cafile=path.expanduser())
    except OSError as error:
        raise ConfigError(f"stores.ca_file: cannot read {path}: {error}") from error
