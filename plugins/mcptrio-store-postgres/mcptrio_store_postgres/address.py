"""The URL of a database: its checks, the parameters of connections, and the name of the database in errors."""

from __future__ import annotations

import math
import os
import re
import ssl
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import psycopg
from attrs import frozen
from psycopg.conninfo import conninfo_to_dict

from mcptrio.errors import ConfigError, StoreFailed
from mcptrio.stores import StoreSettings

__all__ = ["Address", "read_address"]

_PREFIX: Final = re.compile(r"[a-z][a-z0-9_]{0,39}")
_SECURE_MODES: Final = ("require", "verify-ca", "verify-full")
# Files with the system's certificate authorities. The OpenSSL in psycopg's wheel does not know their location.
_AUTHORITIES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)
# Seconds. libpq rounds a smaller connect_timeout up to this.
_MIN_CONNECT_TIMEOUT: Final = 2


@frozen(kw_only=True)
class Address:
    """The address of the database. Neither :attr:`label` nor :attr:`url` contains a password."""

    label: str
    """The name of the engine in errors: ``postgresql at db.example:5432``."""
    url: str
    """The URL for commands that messages advise to run."""
    schema: str
    parameters: Mapping[str, Any]
    password_file: Path | None

    def connection_parameters(self) -> dict[str, Any]:
        """Return the parameters of a connection. Reads the password file each time, because it may have changed.

        Raises:
            StoreFailed: The password file cannot be read.
        """
        parameters = dict(self.parameters)
        if self.password_file is not None:
            try:
                parameters["password"] = self.password_file.read_text(encoding="utf-8").rstrip("\r\n")
            except (OSError, UnicodeError) as error:
                raise StoreFailed(
                    f"{self.label}: cannot read the password file {self.password_file}: {error}"
                ) from error
        return parameters

    def session_statements(self, *, statement_timeout: float) -> bytes:
        """Return the statements that each new connection executes.

        They are not passed as ``options`` of the connection, which PgBouncer refuses.
        """
        milliseconds = math.ceil(statement_timeout * 1000)
        settings = {
            # The prefix is a checked identifier.
            "search_path": self.schema,
            "statement_timeout": milliseconds,
            # A replica that stops in a transaction must not hold locks for long.
            "idle_in_transaction_session_timeout": 2 * milliseconds,
            # Before the tables are analyzed, the planner assumes that they are small, and compares each row with each
            # item of a batch without an index.
            "enable_seqscan": "off",
            # Without enable_seqscan, a plan that must scan a table gets a huge cost. For that cost the engine would
            # compile the statement, which takes 100 ms; the statement itself takes less than one.
            "jit": "off",
            "tcp_keepalives_idle": 10,
            "tcp_keepalives_interval": 5,
            "tcp_keepalives_count": 3,
        }
        return "; ".join(f"SET {name} = {value}" for name, value in settings.items()).encode()


def read_address(url: str, settings: StoreSettings) -> Address:
    """Return the address in a URL.

    Raises:
        ConfigError: The URL or a setting is invalid, or the connection would have no TLS.
    """
    if not _PREFIX.fullmatch(settings.prefix):
        expected = "a lower-case letter, then up to 39 lower-case letters, digits or _"
        raise ConfigError(f"store: prefix: expected {expected}, got {settings.prefix!r}")
    try:
        url_parameters = conninfo_to_dict(url)
    except psycopg.Error:
        # The error of libpq may quote the URL with its password.
        expected = "postgresql://USER@HOST:PORT/DATABASE?PARAMETER=VALUE with percent-encoded parts"
        raise ConfigError(f"store: expected {expected}, got a URL that libpq cannot read") from None
    parameters: dict[str, Any] = {name: value for name, value in url_parameters.items() if value is not None}
    hosts = _hosts(parameters)
    parameters.update(_security(parameters, hosts, settings))
    connect_timeout = max(_MIN_CONNECT_TIMEOUT, math.ceil(settings.timeout))
    for name, value in {
        "connect_timeout": connect_timeout,
        "application_name": f"mcptrio {settings.prefix}",
        # If the URL has several hosts, connect to the primary.
        "target_session_attrs": "read-write",
        "keepalives_idle": 5,
        "keepalives_interval": 2,
        "keepalives_count": 3,
        "tcp_user_timeout": math.ceil(settings.timeout * 2000),
    }.items():
        parameters.setdefault(name, value)
    port = str(parameters.get("port") or os.environ.get("PGPORT") or "5432")
    ports = port.split(",")
    places = [f"{host or 'localhost'}:{ports[at % len(ports)]}" for at, host in enumerate(hosts)]
    user, database = parameters.get("user"), parameters.get("dbname", "")
    at = f"{user}@" if user else ""
    return Address(
        label=f"postgresql at {', '.join(places)}",
        url=f"postgresql://{at}{','.join('' if _is_path(host) else host for host in hosts)}:{port}/{database}",
        schema=settings.prefix,
        parameters=parameters,
        password_file=settings.password_file,
    )


def _hosts(parameters: Mapping[str, Any]) -> list[str]:
    """Return the hosts of the connection. An empty text stands for libpq's default Unix socket."""
    text = parameters.get("hostaddr") or parameters.get("host") or os.environ.get("PGHOST") or ""
    return str(text).split(",")


def _security(parameters: Mapping[str, Any], hosts: list[str], settings: StoreSettings) -> dict[str, Any]:
    mode = parameters.get("sslmode") or os.environ.get("PGSSLMODE")
    # A service file may name any host.
    has_service = "service" in parameters or "PGSERVICE" in os.environ
    if not has_service and all(_is_local(host) for host in hosts):
        security = {"sslmode": mode or "prefer"}
    elif mode is None:
        security = {"sslmode": "prefer" if settings.insecure else "verify-full"}
    elif mode in _SECURE_MODES or settings.insecure:
        security = {"sslmode": mode}
    else:
        expected = f"sslmode {' or '.join(_SECURE_MODES)} for a host that is not local, or the setting insecure"
        raise ConfigError(f"store: expected {expected}, got sslmode {mode}")
    if settings.ca_file is not None:
        _check_authorities(settings.ca_file)
        security["sslrootcert"] = str(settings.ca_file)
    elif security["sslmode"].startswith("verify-") and "sslrootcert" not in parameters:
        own = ssl.get_default_verify_paths().cafile
        security["sslrootcert"] = next(
            (path for path in (own, *_AUTHORITIES) if path and Path(path).exists()), "system"
        )
    return security


def _check_authorities(path: Path) -> None:
    try:
        ssl.create_default_context(cafile=path)
    except OSError as error:
        raise ConfigError(f"stores.ca_file: cannot read {path}: {error}") from error


def _is_path(host: str) -> bool:
    return host.startswith(("/", "@"))


def _is_local(host: str) -> bool:
    if not host or _is_path(host) or host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
