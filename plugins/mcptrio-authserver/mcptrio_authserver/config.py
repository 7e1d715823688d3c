"""The settings of the plugin: ``[plugins.authserver]`` in mcptrio.toml, or ``MCPTRIO_AUTHSERVER_KEY`` for each key.

mcptrio creates ``Config`` before it registers the plugin. An invalid value raises an error with the expected form.
"""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Literal

from attrs import Attribute, field, frozen
from attrs.validators import ge, le

from mcptrio import Secret
from mcptrio.auth.urls import canonical, check_url
from mcptrio.errors import AuthorizationError

from .addresses import Addresses
from .redirect_uris import check_redirect_uri

__all__ = [
    "SCOPE",
    "ClientSettings",
    "Config",
    "LedgerSettings",
    "TrustedIssuer",
    "UpstreamSettings",
    "default_folder",
]

SCOPE = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]{1,128}")
"""A scope-token of RFC 6749 section 3.3."""

_GRANTS = ("authorization_code", "refresh_token", "client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer")
_DAY = 86_400
# Minimum length of a client secret in characters.
_MIN_SECRET_CHARS = 16
# Longest JSON Web Key set in characters.
_MAX_JWKS_CHARS = 64 * 1024
_ISSUER_NAME = re.compile(r"[A-Za-z0-9_.-]+")
# Prefixes of subjects that do not belong to a trusted issuer.
_RESERVED_NAMES = frozenset({"upstream", "client"})


def default_folder() -> Path:
    """Return the folder ``authserver`` in mcptrio's data folder of this user."""
    from platformdirs import user_data_path

    return user_data_path("mcptrio", appauthor=False) / "authserver"


def _url(name: str, url: str) -> str:
    try:
        return check_url(url, name)
    except AuthorizationError as error:
        raise ValueError(str(error)) from None


def _scopes(instance: Any, attribute: Attribute[Any], scopes: Any) -> None:
    for scope in scopes or ():
        if not SCOPE.fullmatch(scope):
            raise ValueError(f"{attribute.name}: expected scopes of visible ASCII characters, got {scope!r}")


@frozen(kw_only=True)
class ClientSettings:
    """A client that the operator registers: a table in ``[plugins.authserver.clients]`` by its id."""

    name: str | None = None
    """The name that users see; by default the id."""

    redirect_uris: tuple[str, ...] = ()
    """Redirect URIs: https, http on this machine (with any port), or an app's own scheme."""

    secret: Secret | None = field(default=None, repr=False)
    """At least 16 characters. Without a secret and without keys the client is public."""

    jwks: str | None = None
    """Its public keys as a JSON Web Key set, for ``private_key_jwt``; best as ``{ "$file" = "client.jwks" }``."""

    jwks_uri: str | None = None
    """The URL of its public keys, instead of ``jwks``."""

    grant_types: tuple[str, ...] = ("authorization_code", "refresh_token")
    """Allowed grants; ``client_credentials`` lets it act for itself, without a user."""

    scopes: tuple[str, ...] | None = field(default=None, validator=_scopes)
    """The scopes that it may be granted; by default all."""

    introspect: bool = False
    """Allow it to introspect all tokens, for resource servers."""

    dpop: bool = False
    """Issue its tokens only with a proof of possession (DPoP)."""

    def __attrs_post_init__(self) -> None:
        for uri in self.redirect_uris:
            check_redirect_uri(uri)
        for grant in self.grant_types:
            if grant not in _GRANTS:
                raise ValueError(f"grant_types: expected some of {', '.join(_GRANTS)}, got {grant!r}")
        if self.secret is not None and len(self.secret.reveal()) < _MIN_SECRET_CHARS:
            raise ValueError(f"secret: expected at least {_MIN_SECRET_CHARS} characters")
        if sum(each is not None for each in (self.secret, self.jwks, self.jwks_uri)) > 1:
            raise ValueError("secret: expected one of secret, jwks and jwks_uri, got several")
        if self.jwks_uri is not None:
            _url("jwks_uri", self.jwks_uri)
        if self.jwks is not None:
            self.keys()
        if self.is_public and (self.introspect or "client_credentials" in self.grant_types):
            raise ValueError("secret: expected a secret, jwks or jwks_uri for a client that acts for itself")

    @property
    def is_public(self) -> bool:
        return self.secret is None and self.jwks is None and self.jwks_uri is None

    def keys(self) -> Mapping[str, Any] | None:
        """Return the key set in ``jwks``.

        Raises:
            ValueError: It is not a set of keys.
        """
        if self.jwks is None:
            return None
        problem = "jwks: expected a JSON Web Key set of public keys"
        if len(self.jwks) > _MAX_JWKS_CHARS:
            raise ValueError(f"{problem}, got {len(self.jwks)} characters")
        try:
            document = json.loads(self.jwks)
        except ValueError:
            raise ValueError(f"{problem}, got invalid JSON") from None
        if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
            raise ValueError(f"{problem}, got something else")
        return document


@frozen(kw_only=True)
class TrustedIssuer:
    """An issuer whose assertions are exchanged for tokens.

    It is a table in ``[plugins.authserver.trusted_issuers]`` by a name. The subjects of its tokens begin with that name
    and a colon.
    """

    issuer: str = ""
    """The ``iss`` of the assertions, from which its metadata is found."""

    jwks_uri: str | None = None
    """The URL of its keys; by default taken from its metadata."""

    kind: Literal["id-jag", "workload"] = "id-jag"
    """``id-jag``: a company's identity provider, which identifies its users and names the client. ``workload``: a
    platform that identifies programs, which need no client."""

    subjects: tuple[str, ...] = ()
    """Accepted subjects of workloads, with ``*`` for any text; without any, all workloads are rejected."""

    scopes: tuple[str, ...] | None = field(default=None, validator=_scopes)
    """The scopes that may be granted; by default all."""

    def __attrs_post_init__(self) -> None:
        _url("issuer", self.issuer)
        if self.jwks_uri is not None:
            _url("jwks_uri", self.jwks_uri)


@frozen(kw_only=True)
class UpstreamSettings:
    """An OpenID Connect provider at which users log in."""

    issuer: str = ""
    """The issuer, from which its metadata is found."""

    client_id: str = ""
    """The id of this server at the provider, registered with the redirect URI ``ISSUER/upstream`` of this server."""

    client_secret: Secret | None = field(default=None, repr=False)
    """The secret of this server at the provider."""

    scopes: tuple[str, ...] = field(default=("openid",), validator=_scopes)
    """The scopes to request there; add ``offline_access`` if the provider requires it for refresh tokens."""

    def __attrs_post_init__(self) -> None:
        _url("issuer", self.issuer)
        if not self.client_id:
            raise ValueError("client_id: expected the id that this server has at the provider, got none")
        if "openid" not in self.scopes:
            raise ValueError("scopes: expected openid among them")


@frozen(kw_only=True)
class LedgerSettings:
    """A PostgreSQL database with the records and the users, for replicas on several machines."""

    url: Secret = field(default=Secret(""), repr=False)
    """``postgresql://USER@HOST/DATABASE``, with the parameters of libpq."""

    prefix: str = "mcptrio"
    """The schema is this and ``_authserver``: another one for each authorization server in the database."""

    timeout: float = field(default=5.0, validator=[ge(0.1), le(60)])
    """Seconds that a transaction may take, and that it may wait for others; 0.1 to 60."""

    start_timeout: float = field(default=30.0, validator=[ge(0), le(3600)])
    """Seconds for which the start waits for a database that is not reachable yet."""

    insecure: bool = False
    """Allow a connection without TLS to another machine."""

    ca_file: Path | None = None
    """A file of authorities for TLS, instead of the system's."""

    password_file: Path | None = None
    """A file with the password, read again for each connection."""

    def __attrs_post_init__(self) -> None:
        if not self.url.reveal().startswith(("postgresql://", "postgres://")):
            raise ValueError("url: expected postgresql://USER@HOST/DATABASE")


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Times are in seconds."""

    issuer: str = ""
    """The URL of this server as clients reach it: https, or http on this machine, with or without a path. If unset, no
    server is registered."""

    folder: Path = field(factory=default_folder)
    """The folder of ``state.db`` and ``users``; by default in mcptrio's data folder of this user."""

    ledger: LedgerSettings | None = None
    """A database instead of these two files, so that any replica answers any request."""

    name: str = field(default="mcptrio", validator=lambda _, __, value: _check_name(value))
    """The name of the service on the pages; 1 to 80 characters."""

    scopes: Mapping[str, str] = field(factory=dict)
    """The scopes of tokens, each with a sentence for the consent page."""

    resources: tuple[str, ...] = ()
    """The MCP servers for which tokens are issued, the first by default. If unset: servers with the issuer's scheme,
    host and port, with ``/mcp`` there as the default."""

    clients: Mapping[str, ClientSettings] = field(factory=dict)
    """Clients that the operator registers, by id."""

    registration: bool = True
    """Let clients register themselves (RFC 7591)."""

    app_schemes: tuple[str, ...] = ("cursor", "vscode", "vscode-insiders", "windsurf")
    """Schemes without a period that are allowed in redirect URIs of clients that registered themselves or have a
    document."""

    client_documents: bool = True
    """Accept https URLs of Client ID Metadata Documents as client ids."""

    client_document_hosts: tuple[str, ...] = ()
    """Hosts whose documents are accepted; by default all."""

    upstream: UpstreamSettings | None = None
    """An OpenID Connect provider at which users log in instead of here."""

    trusted_issuers: Mapping[str, TrustedIssuer] = field(factory=dict)
    """Identity providers and platforms whose assertions are exchanged for tokens."""

    private_networks: bool = False
    """Allow fetching documents, keys and the provider's metadata from private addresses. If the issuer is http,
    loopback addresses are always allowed."""

    dpop: Literal["accepted", "required"] = "accepted"
    """``accepted`` binds tokens to a key if the client proves one; ``required`` issues no others."""

    dpop_nonces: bool = True
    """Require a fresh nonce in each proof at the token endpoint."""

    access_lifetime: int = field(default=600, validator=[ge(30), le(_DAY)])
    """Lifetime of access tokens, 30 to 86400. Servers that check only signatures accept a revoked token for as long."""

    refresh_lifetime: int = field(default=30 * _DAY, validator=[ge(60), le(365 * _DAY)])
    """Time after consent until the user is asked again, from 60 to a year."""

    refresh_idle: int = field(default=14 * _DAY, validator=[ge(60), le(365 * _DAY)])
    """Time until an unused refresh token expires, from 60 to a year."""

    code_lifetime: int = field(default=60, validator=[ge(5), le(600)])
    """Lifetime of authorization codes, 5 to 600."""

    session_lifetime: int = field(default=8 * 3600, validator=[ge(60), le(30 * _DAY)])
    """Time for which a browser stays logged in, from 60 to 30 days. Consent is asked for each time."""

    key_lifetime: int = field(default=30 * _DAY, validator=[ge(3600), le(365 * _DAY)])
    """Time for which a key signs, from an hour to a year. The next key is published before it signs."""

    registration_lifetime: int = field(default=90 * _DAY, validator=[ge(3600), le(3650 * _DAY)])
    """Time for which a self-registered client is kept after its last use, from an hour to ten years; an unused one is
    kept for an hour."""

    max_clients: int = field(default=1000, validator=[ge(1), le(100_000)])
    """Self-registered clients. When full, unused ones are evicted, the oldest first; if all are used, registration is
    refused."""

    max_grants: int = field(default=100, validator=[ge(1), le(10_000)])
    """Grants of one user, each from one consent. When full, the oldest ends."""

    registrations_per_hour: int = field(default=20, validator=[ge(1), le(100_000)])
    """Registrations per hour from one address."""

    login_attempts: int = field(default=5, validator=[ge(1), le(1000)])
    """Failed logins within ``login_window`` for one user from one address. Ten times as many for one user from all
    addresses, and for one address with all names."""

    login_window: int = field(default=900, validator=[ge(1), le(_DAY)])
    """Time for which failed logins count."""

    addresses: Addresses = field(init=False, eq=False, repr=False)
    """The URLs of this server; unset without an issuer."""

    def __attrs_post_init__(self) -> None:
        if self.issuer:
            object.__setattr__(self, "addresses", Addresses.of(self.issuer))
        for scope in self.scopes:
            if not SCOPE.fullmatch(scope):
                raise ValueError(f"scopes: expected scopes of visible ASCII characters, got {scope!r}")
        for resource in self.resources:
            try:
                canonical(check_url(resource, "resources"))
            except AuthorizationError as error:
                raise ValueError(str(error)) from None
        for id in self.clients:
            if not 0 < len(id) <= 200 or not id.isascii() or not id.isprintable():
                raise ValueError(f"clients: expected ids of 1 to 200 visible characters, got {id[:200]!r}")
        for name in self.trusted_issuers:
            # Subjects are "name:subject", so a name must not allow one subject to stand for two principals.
            if name in _RESERVED_NAMES or not _ISSUER_NAME.fullmatch(name):
                raise ValueError(
                    "trusted_issuers: expected names of A to Z, a to z, digits, and _ . -, but neither upstream nor"
                    f" client, got {name[:200]!r}"
                )


def _check_name(name: str) -> None:
    if not 0 < len(name) <= 80 or not name.isprintable():
        raise ValueError(f"name: expected 1 to 80 printable characters, got {name[:80]!r}")
