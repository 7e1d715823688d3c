"""What the operator may set: ``[plugins.authserver]`` in mcptrio.toml, or ``MCPTRIO_AUTHSERVER_KEY`` for each key.

Made by mcptrio before the plugin is registered. The one rule: a value that does not fit is an error that says what was
expected; nothing is guessed.
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

__all__ = ["SCOPE", "ClientSettings", "Config", "TrustedIssuer", "UpstreamSettings", "default_folder"]

SCOPE = re.compile(r"[\x21\x23-\x5B\x5D-\x7E]{1,128}")
"""A scope-token of RFC 6749, section 3.3."""

_GRANTS = ("authorization_code", "refresh_token", "client_credentials", "urn:ietf:params:oauth:grant-type:jwt-bearer")
_DAY = 86_400
_SECRET = 16
"""Characters that a client's secret has at least."""
_DOCUMENT = 64 * 1024
_ISSUER = re.compile(r"[A-Za-z0-9_.-]+")
_TAKEN = frozenset({"upstream", "client"})
"""What subjects begin with that are of no trusted issuer."""


def default_folder() -> Path:
    """mcptrio's data folder of this user, and ``authserver`` in it."""
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
    """A client that is registered by the operator: a table in ``[plugins.authserver.clients]``, by its id."""

    name: str | None = None
    """What people are shown; by default its id."""

    redirect_uris: tuple[str, ...] = ()
    """Where codes may be sent: https, http on this machine (any port then), or a scheme of an app's own."""

    secret: Secret | None = field(default=None, repr=False)
    """At least 16 characters; without it and without keys the client is a public one."""

    jwks: str | None = None
    """Its public keys, a JSON Web Key set, for ``private_key_jwt``: best ``{ "$file" = "client.jwks" }``."""

    jwks_uri: str | None = None
    """Where it publishes its keys instead."""

    grant_types: tuple[str, ...] = ("authorization_code", "refresh_token")
    """What it may do; ``client_credentials`` lets it in for itself, with no user."""

    scopes: tuple[str, ...] | None = field(default=None, validator=_scopes)
    """The most it may be granted; unset: all there are."""

    introspect: bool = False
    """Let it ask about anybody's token: for resource servers."""

    dpop: bool = False
    """Give it tokens only with a proof of possession."""

    def __attrs_post_init__(self) -> None:
        for uri in self.redirect_uris:
            check_redirect_uri(uri)
        for grant in self.grant_types:
            if grant not in _GRANTS:
                raise ValueError(f"grant_types: expected of {', '.join(_GRANTS)}, got {grant!r}")
        if self.secret is not None and len(self.secret.reveal()) < _SECRET:
            raise ValueError(f"secret: expected at least {_SECRET} characters")
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
        """What ``jwks`` says.

        Raises:
            ValueError: it is no set of keys.
        """
        if self.jwks is None:
            return None
        problem = "jwks: expected a JSON Web Key set of public keys"
        if len(self.jwks) > _DOCUMENT:
            raise ValueError(f"{problem}, got {len(self.jwks)} characters")
        try:
            document = json.loads(self.jwks)
        except ValueError:
            raise ValueError(f"{problem}, got something that is no JSON") from None
        if not isinstance(document, dict) or not isinstance(document.get("keys"), list):
            raise ValueError(f"{problem}, got something else")
        return document


@frozen(kw_only=True)
class TrustedIssuer:
    """Whose assertions are exchanged for tokens: a table in ``[plugins.authserver.trusted_issuers]``, by a name.

    The subjects of its tokens begin with that name and a colon.
    """

    issuer: str = ""
    """``iss`` of the assertions, and where its metadata is."""

    jwks_uri: str | None = None
    """Where its keys are; by default what its metadata says."""

    kind: Literal["id-jag", "workload"] = "id-jag"
    """``id-jag``: a company's identity provider, which speaks for its users and names the client. ``workload``: a
    platform that speaks for programs, which need no client."""

    subjects: tuple[str, ...] = ()
    """Of workloads: the subjects that are let in, ``*`` for any text in them; none lets nobody in."""

    scopes: tuple[str, ...] | None = field(default=None, validator=_scopes)
    """The most that is granted; unset: all there are."""

    def __attrs_post_init__(self) -> None:
        _url("issuer", self.issuer)
        if self.jwks_uri is not None:
            _url("jwks_uri", self.jwks_uri)


@frozen(kw_only=True)
class UpstreamSettings:
    """Where users log in instead of here: an OpenID Connect provider."""

    issuer: str = ""
    """Its metadata is found from it."""

    client_id: str = ""
    """As which this server is registered there, with the redirect URI ``ISSUER/upstream`` of this server."""

    client_secret: Secret | None = field(default=None, repr=False)
    """What it was given there."""

    scopes: tuple[str, ...] = field(default=("openid",), validator=_scopes)
    """What is asked for there; ``offline_access`` where refresh tokens need it."""

    def __attrs_post_init__(self) -> None:
        _url("issuer", self.issuer)
        if not self.client_id:
            raise ValueError("client_id: expected the id that this server has at the provider, got none")
        if "openid" not in self.scopes:
            raise ValueError("scopes: expected openid among them")


@frozen(kw_only=True)
class Config:
    """The settings of the plugin. Times are seconds."""

    issuer: str = ""
    """What the server is called by: https, or http on this machine, with or without a path, as clients reach it. Unset:
    there is no server."""

    folder: Path = field(factory=default_folder)
    """Where ``state.db`` and ``users`` are; by default in mcptrio's data folder of this user."""

    name: str = field(default="mcptrio", validator=lambda _, __, value: _check_name(value))
    """What people log in to, as the pages say it; 1 to 80 characters."""

    scopes: Mapping[str, str] = field(factory=dict)
    """What tokens may be good for, each with a sentence that people are shown when they consent."""

    resources: tuple[str, ...] = ()
    """The MCP servers that tokens are for, the first one by default. Unset: those with the issuer's scheme, host and
    port, and ``/mcp`` there by default."""

    clients: Mapping[str, ClientSettings] = field(factory=dict)
    """Clients that the operator knows, by id."""

    registration: bool = True
    """Let clients register themselves (RFC 7591)."""

    app_schemes: tuple[str, ...] = ("cursor", "vscode", "vscode-insiders", "windsurf")
    """Schemes without a period in redirect URIs of clients that registered themselves or have a document."""

    client_documents: bool = True
    """Take https URLs of Client ID Metadata Documents for client ids."""

    client_document_hosts: tuple[str, ...] = ()
    """Hosts whose documents are taken; none for any."""

    upstream: UpstreamSettings | None = None
    """Let users log in at an OpenID Connect provider instead of here."""

    trusted_issuers: Mapping[str, TrustedIssuer] = field(factory=dict)
    """Identity providers and platforms whose assertions are exchanged for tokens."""

    private_networks: bool = False
    """Let documents, keys and the provider be fetched from private addresses. Where the issuer is http, loopback may be
    reached anyway."""

    dpop: Literal["accepted", "required"] = "accepted"
    """Bind tokens to a key where the client proves to have one; or give none without."""

    dpop_nonces: bool = True
    """Ask for a fresh nonce in each proof at the token endpoint."""

    access_lifetime: int = field(default=600, validator=[ge(30), le(_DAY)])
    """Of access tokens, 30 to 86400; who checks them by their signature alone does not hear of their revocation."""

    refresh_lifetime: int = field(default=30 * _DAY, validator=[ge(60), le(365 * _DAY)])
    """Since the user consented, 60 to a year; then they are asked again."""

    refresh_idle: int = field(default=14 * _DAY, validator=[ge(60), le(365 * _DAY)])
    """Since a refresh token was last used, 60 to a year."""

    code_lifetime: int = field(default=60, validator=[ge(5), le(600)])
    """Of authorization codes, 5 to 600."""

    session_lifetime: int = field(default=8 * 3600, validator=[ge(60), le(30 * _DAY)])
    """For which a browser stays logged in, 60 to 30 days; consent is asked for each time."""

    key_lifetime: int = field(default=30 * _DAY, validator=[ge(3600), le(365 * _DAY)])
    """For which one key signs, an hour to a year. The next one is published before it signs."""

    registration_lifetime: int = field(default=90 * _DAY, validator=[ge(3600), le(3650 * _DAY)])
    """For which a client that registered itself is kept since it was last used, an hour to ten years; one that was
    never used is kept for an hour."""

    max_clients: int = field(default=1000, validator=[ge(1), le(100_000)])
    """That registered themselves; past that those that were never used go, the oldest first, or none is taken."""

    max_grants: int = field(default=100, validator=[ge(1), le(10_000)])
    """Of one user, each for one consent; past that the oldest end."""

    registrations_per_hour: int = field(default=20, validator=[ge(1), le(100_000)])
    """From one address."""

    login_attempts: int = field(default=5, validator=[ge(1), le(1000)])
    """That may fail within ``login_window`` for one user from one address; ten times as many for one user from
    anywhere, and for one address with any names."""

    login_window: int = field(default=900, validator=[ge(1), le(_DAY)])
    """How long they count."""

    addresses: Addresses = field(init=False, eq=False, repr=False)
    """Of ``issuer``; not there without."""

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
            # Subjects are ``name:subject``: one text may not be two people.
            if name in _TAKEN or not _ISSUER.fullmatch(name):
                raise ValueError(
                    "trusted_issuers: expected names of A to Z, a to z, digits, and _ . -, but neither upstream nor"
                    f" client, got {name[:200]!r}"
                )


def _check_name(name: str) -> None:
    if not 0 < len(name) <= 80 or not name.isprintable():
        raise ValueError(f"name: expected 1 to 80 printable characters, got {name[:80]!r}")
