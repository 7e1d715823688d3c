"""The stored credentials of the commands, and their use.

:mod:`mcptrio.cli.client.running` uses it for every server with a URL, and so does ``mcptrio auth``. Credentials that
the user gives in a URL, a header or a server file take precedence. Without a terminal, a command that needs a login
fails and says how to log in.
"""

from __future__ import annotations

import shlex
from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, Literal

import trio
from attrs import evolve, frozen

from mcptrio.abc import TokenStore
from mcptrio.auth.challenges import TOKEN_ADVICE, parse_challenges
from mcptrio.auth.client.credentials import Credentials
from mcptrio.auth.client.oauth import OAuth
from mcptrio.auth.client.redirects import Redirect, Redirects
from mcptrio.auth.urls import canonical
from mcptrio.cli.client.client_settings import client_settings
from mcptrio.cli.install.machine import Machine
from mcptrio.connecting.targets import Endpoint
from mcptrio.errors import AuthorizationError, ConfigError
from mcptrio.http.client.endpoint import HTTPEndpoint as URL
from mcptrio.stores.tokens_file import FileTokenStore
from mcptrio.stores.tokens_keyring import KeyringTokenStore

__all__ = ["credential_store", "hint_at_login", "http_url", "with_credentials"]

_KEYRING: Final = "keyring"
_SCHEMES: Final = {"ws": "http", "wss": "https"}


def credential_store() -> TokenStore:
    """Return the store for credentials: the one that the environment names, or a file."""
    text = client_settings().credentials
    if text == _KEYRING:
        return KeyringTokenStore()
    if text is not None:
        return FileTokenStore(Path(text))
    try:
        # In its own folder, so that no other use of the folder can make it readable for others.
        return FileTokenStore(Machine.here().application_data / "mcptrio" / "credentials" / "tokens.json")
    except RuntimeError as error:
        # Path.home() finds no home folder for a user without HOME and without an entry in the password database.
        raise ConfigError(
            f"MCPTRIO_CLIENT_CREDENTIALS: expected the path of a file, since there is no home folder: {error}"
        ) from error


def http_url(endpoint: Endpoint) -> str:
    """Return the canonical URL under which a server's credentials are stored; http(s) also for a WebSocket."""
    try:
        scheme = endpoint.url.partition(":")[0].lower()
        url = URL.parse(endpoint.url, ("ws", "wss")) if scheme in _SCHEMES else URL.parse(endpoint.url)
        return canonical(evolve(url, scheme=_SCHEMES.get(url.scheme, url.scheme)).url)
    except (ValueError, AuthorizationError) as error:
        raise ConfigError(f"TARGET: {error}") from error


async def with_credentials(endpoint: Endpoint, redirects: Redirects | None) -> Endpoint:
    """Return the endpoint with the stored credentials, or with an offer to log in if the server requires it.

    Args:
        redirects: Sends the user to the authorization server; ``None`` without a terminal.

    Raises:
        ConfigError, StoreFailed: The store cannot be used.
    """
    # The user has chosen other credentials for this server.
    if endpoint.auth is not None or _has_explicit_credentials(endpoint):
        return endpoint
    url, store = http_url(endpoint), credential_store()
    binding = await Credentials(store).binding(url)
    if binding is None and redirects is None:
        return evolve(endpoint, auth=_NoCredentials(url))
    # Private addresses are refused by default, since a server could choose them (SSRF). The user has confirmed this one
    # at the earlier login.
    issuers = () if binding is None else (binding.issuer,)
    return evolve(endpoint, auth=OAuth(redirects=redirects or _NoRedirects(url), store=store, private_servers=issuers))


async def hint_at_login(endpoint: Endpoint) -> str:
    """Return the end of an error about a name that a server does not list.

    A server may hide entries that need another scope or user. Returns an empty text if no credentials were sent.
    """
    hint = "; the server may hide names that need another scope or user; pass a token with more scopes"
    if isinstance(endpoint.auth, OAuth):
        url = http_url(endpoint)
        # Without a login, no token was sent.
        if await Credentials(credential_store()).binding(url) is None:
            return ""
        return f"{hint}: {_login_command(url)} --scope SCOPE"
    return hint if _has_explicit_credentials(endpoint) else ""


def _has_explicit_credentials(endpoint: Endpoint) -> bool:
    """Return whether the user has passed the header Authorization, or a user name in the URL."""
    # Only the part before the first slash: a path may contain an @.
    has_user = "@" in endpoint.url.partition("://")[2].partition("/")[0]
    return has_user or any(name.lower() == "authorization" for name in endpoint.headers)


@frozen
class _NoCredentials:
    """Authorizes no request: there are no stored credentials and no terminal. Its error says how to log in."""

    _url: str

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        await trio.lowlevel.checkpoint()
        return {}

    async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        await trio.lowlevel.checkpoint()
        challenges = parse_challenges(headers.get("www-authenticate", ""))
        # Other schemes, such as Basic, have no login that this client could start.
        supported = [challenge for challenge in challenges if challenge.scheme in ("bearer", "dpop")]
        if status == 401 and supported:
            if not any("resource_metadata" in challenge.parameters for challenge in supported):
                # The server issues its own tokens, or is of 2025-03-26 and may still support a login.
                raise AuthorizationError(
                    f"the server requires a token (HTTP 401) and names no authorization server: {TOKEN_ADVICE}; "
                    f"a server of an early revision may have a login: {_login_command(self._url)}"
                )
            raise AuthorizationError(f"the server requires a login (HTTP 401): {_login_command(self._url)}")
        return False


@frozen
class _NoRedirects:
    """Opens no redirect, since there is no terminal. A grant that needs the user fails before any request."""

    _url: str

    @property
    def application_type(self) -> Literal["native", "web"]:
        return "native"

    def open(self, registered: Sequence[str], issuer: str | None) -> AbstractAsyncContextManager[Redirect]:
        raise AuthorizationError(f"the server requires another login: {_login_command(self._url)}")


def _login_command(url: str) -> str:
    return f"mcptrio auth login {shlex.quote(url)}"
