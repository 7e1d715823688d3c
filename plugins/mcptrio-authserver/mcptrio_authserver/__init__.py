"""A small OAuth 2.1 authorization server: the plugin ``authserver`` of mcptrio.

Loaded by mcptrio through the entry point ``authserver``. The one rule: the hooks are here and nothing else. mcptrio
makes a ``Config`` of the settings, the server is registered, and nothing is kept in this module.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable

from mcptrio import hookimpl
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
    "authorization_server",
    "configuration",
    "doctor",
    "register_objects",
]


@hookimpl
def configuration() -> type[Config]:
    """The class that ``[plugins.authserver]`` is read into."""
    return Config


@hookimpl
def register_objects(register: Callable[[object], object], config: Config) -> None:
    """Register the server, which brings its routes and its lifespan. Without an issuer there is none."""
    if config.issuer:
        register(AuthorizationServer(config))


@hookimpl
def authorization_server(config: Config) -> OwnIssuer | None:
    """What ``[auth]`` is compared with."""
    if not config.issuer:
        return None
    return OwnIssuer(issuer=config.issuer, scopes=frozenset(config.scopes), resources=config.resources)


@hookimpl
def doctor(config: Config) -> Iterable[str]:
    """What an operator may have forgotten."""
    return find_oversights(config)
