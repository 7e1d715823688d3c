"""Parses the URL of a database into connection parameters, and a label without the password.

``Config`` parses each URL to refuse invalid ones; the pool parses it to connect.

Source: PostgreSQL 15 documentation, 34.1.2 "Parameter Key Words".
"""

from __future__ import annotations

import ssl
from collections.abc import Mapping
from ipaddress import ip_address
from pathlib import Path
from typing import Any, Final

import psycopg
from attrs import frozen
from psycopg.conninfo import conninfo_to_dict

__all__ = ["PostgresAddress", "read_address"]

# Files with the system's certificate authorities. The OpenSSL in psycopg's wheel does not know where they are.
_AUTHORITIES: Final = (
    "/etc/ssl/certs/ca-certificates.crt",
    "/etc/pki/tls/certs/ca-bundle.crt",
    "/etc/ssl/ca-bundle.pem",
    "/etc/ssl/cert.pem",
)


@frozen
class PostgresAddress:
    """The address of a database. :attr:`label` contains no password."""

    label: str
    """The host and the database: ``db.example/shop``."""
    parameters: Mapping[str, Any]

    def without_password(self, text: str) -> str:
        """Return a message of libpq without the password."""
        password = self.parameters.get("password")
        return text.replace(str(password), "…") if password else text


def read_address(url: str) -> PostgresAddress:
    """Return the address in a URL.

    Raises:
        ValueError: libpq cannot read the URL. The message does not contain it.
    """
    expected = "postgresql://USER:PASSWORD@HOST:PORT/DATABASE with percent-encoded parts"
    if not url.startswith(("postgresql://", "postgres://")):
        raise ValueError(f"expected {expected}, got another text")
    try:
        url_parameters = conninfo_to_dict(url)
    except (psycopg.Error, UnicodeError):
        # The error of libpq may quote the URL with its password.
        raise ValueError(f"expected {expected}, got a URL that libpq cannot read") from None
    parameters: dict[str, Any] = {name: value for name, value in url_parameters.items() if value is not None}
    hosts = str(parameters.get("hostaddr") or parameters.get("host") or "").split(",")
    # A service file may set any host, and sslmode as well, so nothing is set in this case.
    if "sslmode" not in parameters and "service" not in parameters and not all(map(_is_local, hosts)):
        parameters["sslmode"] = "verify-full"
    if str(parameters.get("sslmode", "")).startswith("verify-") and "sslrootcert" not in parameters:
        own = ssl.get_default_verify_paths().cafile
        files = (path for path in (own, *_AUTHORITIES) if path and Path(path).exists())
        parameters["sslrootcert"] = next(files, "system")
    parameters.setdefault("application_name", "mcptrio-postgres")
    parameters["client_encoding"] = "UTF8"
    return PostgresAddress(f"{','.join(hosts) or 'localhost'}/{parameters.get('dbname', '')}", parameters)


def _is_local(host: str) -> bool:
    if not host or host.startswith(("/", "@")) or host.lower() == "localhost":
        return True
    try:
        return ip_address(host).is_loopback
    except ValueError:
        return False
