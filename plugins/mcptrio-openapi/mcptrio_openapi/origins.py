"""Compares origins, and checks URLs of the configuration and of documents.

The configuration, the documents and every redirect are checked with it. Credentials are sent to one origin, that of the
base URL. Either the operator sets the base URL, or the document does, within narrow limits.

Source: RFC 6454, section 4; OpenAPI 3.1, 4.8.5 "Server Object".
"""

from __future__ import annotations

import ipaddress
from urllib.parse import SplitResult, urlsplit

from mcptrio.net import AddressKind, address_kind, parse_address

__all__ = ["check_base_url", "check_document_url", "is_public", "origin_of"]

_PORTS = {"http": 80, "https": 443}
_LOCAL_NAMES = (".localhost", ".local", ".internal", ".lan", ".home.arpa", ".test", ".invalid", ".onion")


def origin_of(url: str) -> str:
    """Return ``scheme://host[:port]``, without the scheme's default port.

    Raises:
        ValueError: The text is not an http or https URL with a host.
    """
    parts = _parse(url)
    host = (parts.hostname or "").lower()
    bracketed = f"[{host}]" if ":" in host else host
    port = parts.port
    return f"{parts.scheme}://{bracketed}" + ("" if port in (None, _PORTS[parts.scheme]) else f":{port}")


def check_base_url(url: str, where: str) -> None:
    """Check the configured base URL of an API.

    Raises:
        ValueError: The text is not an http or https URL, or has a query, a fragment, a user or dot segments.
    """
    parts = _split_setting(url, where)
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{where}: expected a URL without a user; credentials belong into auth")
    if parts.query or parts.fragment:
        raise ValueError(f"{where}: expected a URL without a query and a fragment")
    if any(segment in (".", "..") for segment in parts.path.split("/")):
        raise ValueError(f"{where}: expected a path without '.' and '..'")


def check_document_url(url: str, where: str) -> None:
    """Check the configured URL of a document.

    Raises:
        ValueError: The text is not an https URL, nor an http URL on this machine, or has a user.
    """
    parts = _split_setting(url, where)
    if parts.username is not None or parts.password is not None:
        raise ValueError(f"{where}: expected a URL without a user; use headers")
    if parts.scheme != "https" and not _is_loopback(parts.hostname or ""):
        raise ValueError(f"{where}: expected an https URL (http only on this machine), got {origin_of(url)}")


def is_public(url: str) -> bool:
    """Return whether a document may set this base URL: https, and no address or name of a private network.

    A public name that resolves to a private address fails in the TLS handshake: the host there would need a
    certificate for the public name.
    """
    parts = _parse(url)
    host = (parts.hostname or "").lower().rstrip(".")
    if parts.scheme != "https" or parts.username is not None or parts.password is not None:
        return False
    try:
        return address_kind(parse_address(host)) is AddressKind.PUBLIC
    except ValueError:
        pass
    # If the last label begins with a digit, the name may be an IPv4 address in an old form (127.1, 0x7f.1, 2130706433).
    last = host.rpartition(".")[2]
    return "." in host and not host.endswith(_LOCAL_NAMES) and not last[:1].isdigit()


def _split_setting(url: str, where: str) -> SplitResult:
    try:
        return _parse(url)
    except ValueError as error:
        raise ValueError(f"{where}: {error}") from error


def _parse(url: str) -> SplitResult:
    if any(ord(character) <= 32 or ord(character) == 127 or character == "\\" for character in url):
        raise ValueError("expected a URL without spaces, control characters and backslashes")
    parts = urlsplit(url)
    if parts.scheme not in _PORTS or not parts.hostname:
        raise ValueError(f"expected an http or https URL with a host, got {url.partition('?')[0][:200]!r}")
    _ = parts.port  # raises if the port is not a number
    return parts


def _is_loopback(host: str) -> bool:
    if host == "localhost":
        return True
    try:
        return ipaddress.ip_address(host).is_loopback
    except ValueError:
        return False
