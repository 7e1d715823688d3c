"""A small OAuth 2.1 authorization server: the plugin ``authserver`` of mcptrio.

Loaded by mcptrio through the entry point ``authserver``. The one rule: the hooks are here and nothing else. mcptrio
makes a ``Config`` of the settings, the server is registered, and nothing is kept in this module.
"""

from __future__ import annotations

from collections.abc import Iterable

from mcptrio import PluginSetup, hookimpl
from mcptrio.abc import OwnIssuer

from .authorization_server import AuthorizationServer
from .config import ClientSettings, Config, TrustedIssuer, UpstreamSettings
from .oversights import find_oversights

__all__ = [
    "AuthorizationServer",
    "ClientSettings",
    "Config",
    "TrustedIssuer",
    "UpstreamSettings",
    "doctor",
    "setup",
]


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Add the server, which brings its routes and its lifespan. Without an issuer there is none."""
    if config.issuer:
        server.set_issuer(OwnIssuer(issuer=config.issuer, scopes=frozenset(config.scopes), resources=config.resources))
        server.add(AuthorizationServer(config))


@hookimpl
def doctor(config: Config) -> Iterable[str]:
    """What an operator may have forgotten."""
    return find_oversights(config)
