"""A small OAuth 2.1 authorization server: the plugin ``authserver`` of mcptrio.

mcptrio loads it through the entry point ``authserver`` and creates ``Config`` from the settings. This module contains
the hooks only.
"""

from __future__ import annotations

from collections.abc import Iterable

from mcptrio import PluginSetup, hookimpl
from mcptrio.abc import OwnIssuer

from .authorization_server import AuthorizationServer
from .config import ClientSettings, Config, LedgerSettings, TrustedIssuer, UpstreamSettings
from .config_warnings import config_warnings

__all__ = [
    "AuthorizationServer",
    "ClientSettings",
    "Config",
    "LedgerSettings",
    "TrustedIssuer",
    "UpstreamSettings",
    "doctor",
    "setup",
]


@hookimpl
def setup(server: PluginSetup, config: Config) -> None:
    """Register the server with its routes and its lifespan. Without an issuer nothing is registered."""
    if config.issuer:
        server.set_issuer(OwnIssuer(issuer=config.issuer, scopes=frozenset(config.scopes), resources=config.resources))
        server.add(AuthorizationServer(config))


@hookimpl
def doctor(config: Config) -> Iterable[str]:
    """Return what is missing in the configuration."""
    return config_warnings(config)
