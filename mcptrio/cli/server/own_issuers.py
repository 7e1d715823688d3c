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
    """Yield an error for each setting that prevents a login at a plugin's authorization server."""
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
    local_issuers = [issuer for issuer in settings.issuers if _host_and_port(issuer) == _host_and_port(own.issuer)]
    if not local_issuers:
        return
    # RFC 9068, section 4: the "iss" of a token must match the configured issuer exactly.
    if own.issuer not in local_issuers:
        problem = (
            f"expected {own.issuer!r}, the issuer of the authorization server in this process, got {local_issuers[0]!r}"
        )
        yield config.error(("auth", "issuers"), f"{problem}: the issuer of a token must match exactly")
    if lacking := {f"{settings.scope_prefix}{scope}" for scope in settings.scopes} - own.scopes:
        offered = " ".join(sorted(own.scopes)) or "none"
        problem = f"expected scopes that the authorization server in this process offers ({offered})"
        yield config.error(("auth", "scopes"), f"{problem}, got {' '.join(sorted(lacking))}")
    for resource in settings.resources:
        if not _issues_tokens_for(own, resource):
            accepted = ", ".join(own.resources) or f"those at {'/'.join(own.issuer.split('/')[:3])}"
            problem = (
                f"expected a resource that the authorization server in this process issues tokens for ({accepted})"
            )
            yield config.error(("auth", "resource"), f"{problem}, got {resource!r}")


def _issues_tokens_for(own: OwnIssuer, resource: str) -> bool:
    try:
        url = canonical(resource)
        if own.resources:
            return url in map(canonical, own.resources)
        # Without configured resources, the authorization server issues tokens for its own origin.
        return origin(url) == origin(canonical(own.issuer))
    except AuthorizationError:
        return False


def _host_and_port(url: str) -> tuple[str, int | None]:
    """Return host and port, with one name for this machine: ``localhost`` for ``127.0.0.1`` is a likely mistake."""
    try:
        parts = urlsplit(url)
        port = parts.port or _PORTS.get(parts.scheme)
    except ValueError:
        return url, None
    host = parts.hostname or ""
    return "localhost" if host in ("127.0.0.1", "::1") else host, port
