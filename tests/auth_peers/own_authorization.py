"""Our server and our authorization server on one port, like those of a small team.

The tests with logins of other clients and those of attacks use it. The two servers know each other only by their
published metadata, keys and tokens.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

from argon2 import PasswordHasher
from mcptrio_authserver import AuthorizationServer, Config
from mcptrio_authserver.users import User, write_users

from mcptrio.auth import IssuerKeys, JWTTokens, ResourceServer, ResourceServerOptions
from mcptrio.auth.server.issuer_keys import KeyTimes
from tests.auth_peers.browser import Browser
from tests.auth_peers.guarded import Guarded, Notes, guarded, loopback_fetch

__all__ = ["BACK", "PASSWORD", "SCOPES", "browser_of", "own_authorization"]

BACK = "http://127.0.0.1:9/callback"
"""The redirect URI; the tests' browser does not request it."""
PASSWORD = "correct horse battery"
SCOPES = {"read": "Read your notes", "write": "Write your notes"}

_HASH = PasswordHasher(time_cost=1, memory_cost=64, parallelism=1).hash(PASSWORD)
"""A cheap hash: the plugin's default takes 0.1 s and 64 MiB for each login."""


def browser_of(name: str, answer: str = "Allow") -> Browser:
    """Return the browser of a user who logs in under this name and gives this answer."""
    return Browser({"username": name, "password": PASSWORD}, ("Log in", answer), BACK)


@asynccontextmanager
async def own_authorization(
    folder: Path,
    *plugins: Any,
    path: str = "/auth",
    settings: Mapping[str, Any] | None = None,
    options: ResourceServerOptions | None = None,
    **more: Any,
) -> AsyncIterator[tuple[Guarded, AuthorizationServer]]:
    """Start the authorization server of mcptrio and a server that accepts its tokens.

    Args:
        folder: The folder of the authorization server, which has the users ada and bob.
        path: The path of the issuer.
        settings: Further values of its :class:`Config`.
        options: Options of the guard.
        more: Options of :func:`guarded`.
    """
    write_users(folder / "users", {name: User(name=name, hash=_HASH) for name in ("ada", "bob")})
    made: list[AuthorizationServer] = []

    def make(url: str) -> ResourceServer:
        issuer = url.removesuffix("/mcp") + path
        config = Config(
            **{"issuer": issuer, "folder": folder, "scopes": SCOPES, "resources": (url,), **(settings or {})}
        )
        made.append(AuthorizationServer(config))
        keys = IssuerKeys(issuer, loopback_fetch(), times=KeyTimes(refetch_after=0.2))
        tokens = JWTTokens(keys, audience=[url])
        return ResourceServer(url, tokens=[tokens], authorization_servers=[issuer], scopes=["read"], options=options)

    async with guarded(make, lambda: [*(plugins or [Notes()]), made[0]], **more) as here:
        yield here, made[0]
