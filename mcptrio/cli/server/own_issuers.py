"""Compares ``[auth]`` with an authorization server that a plugin of the same process provides.

``mcptrio serve`` calls it at the start, and so does ``mcptrio plugins doctor``. Only settings in both tables are
compared. Issuers on other hosts or ports are not checked.
"""

from __future__ import annotations

from collections.abc import Iterator
from urllib.parse import urlsplit

from mcptrio.abc import OwnIssuer
from mcptrio.auth.urls import canonical, origin
from mcptrio.cli.server.auth import settings_of
from mcptrio.errors import AuthorizationError, ConfigError
from mcptrio.plugins.plugin import Plugin
from mcptrio.serve.config import ServeConfig
from mcptrio.server import Server

__all__ = ["check_own_issuers", "mismatches"]

_PORTS = {"http": 80, "https": 443}


def check_own_issuers(config: ServeConfig, server: Server) -> None:
    for plugin in server.plugins.plugins.values():
        for mismatch in mismatches(config, server, plugin):
            raise mismatch


def mismatches(config: ServeConfig, server: Server, plugin: Plugin) -> Iterator[ConfigError]:
    """Iterate over the settings that prevent a login at a plugin's authorization server."""
    if plugin.state in ("disabled", "quarantined") or plugin.issuer is None:
        return
    try:
        settings = settings_of(config)
    except ConfigError as error:
        yield error
        return
    if settings is None:
        return
    own = plugin.issuer
    here = [issuer for issuer in settings.issuers if _place(issuer) == _place(own.issuer)]
    if not here:
        return
    # RFC 9068, section 4: the "iss" of a token must match the configured issuer exactly.
    if own.issuer not in here:
        problem = f"expected {own.issuer!r}, the issuer of the authorization server in this process, got {here[0]!r}"
        yield config.error(("auth", "issuers"), f"{problem}: the issuer of a token must match exactly")
    if lacking := {f"{settings.scope_prefix}{scope}" for scope in settings.scopes} - own.scopes:
        offered = " ".join(sorted(own.scopes)) or "none"
        problem = f"expected scopes that the authorization server in this process offers ({offered})"
        yield config.error(("auth", "scopes"), f"{problem}, got {' '.join(sorted(lacking))}")
    for resource in settings.resources:
        if not _takes(own, resource):
            given = ", ".join(own.resources) or f"those at {'/'.join(own.issuer.split('/')[:3])}"
            problem = f"expected a resource that the authorization server in this process issues tokens for ({given})"
            yield config.error(("auth", "resource"), f"{problem}, got {resource!r}")


def _takes(own: OwnIssuer, resource: str) -> bool:
    try:
        wanted = canonical(resource)
        if own.resources:
            return wanted in map(canonical, own.resources)
        # Without configured resources, the authorization server issues tokens for its own origin.
        return origin(wanted) == origin(canonical(own.issuer))
    except AuthorizationError:
        return False


def _place(url: str) -> tuple[str, int | None]:
    """Return host and port, with one name for this machine: ``localhost`` for ``127.0.0.1`` is a likely mistake."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return url, None
    host = parts.hostname or ""
    return "localhost" if host in ("127.0.0.1", "::1") else host, port
