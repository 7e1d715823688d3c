"""Becoming known to an authorization server.

Run by :mod:`mcptrio.auth.client.oauth` before the first authorization at a server.
The one rule: a client id belongs to the server that gave it. Only the URL of a metadata document is good everywhere.

Source: MCP 2026-07-28, basic/authorization/client-registration; RFC 7591; OpenID Connect Dynamic Client Registration
1.0 section 2 (``application_type``); OAuth Client ID Metadata Document (draft 00).
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Literal, get_args
from urllib.parse import urlsplit

import orjson
from attrs import field, frozen

from mcptrio.abc import FetchRequest
from mcptrio.auth.challenges import PASS_A_TOKEN
from mcptrio.auth.flows import Flow
from mcptrio.auth.jose import Key
from mcptrio.auth.metadata import ServerMetadata, read_object
from mcptrio.auth.scopes import read_scope, union
from mcptrio.auth.token_requests import AuthenticationMethod, ClientIdentity, choose_method, one_line
from mcptrio.auth.urls import check_url, shown
from mcptrio.errors import AuthorizationError, ConfigError
from mcptrio.ground.secret import Secret

__all__ = ["ClientMetadata", "PreRegistered", "Registered", "register"]

_CREATED: Final = (200, 201)
_ID: Final = re.compile(r"[\x20-\x7e]{1,2048}")
_OF_SCOPES: Final = ("invalid_client_metadata", "invalid_scope")
"""Errors that a ``scope`` may be the reason of."""
_METHODS: Final = get_args(AuthenticationMethod)
_REASONS: Final = {
    "invalid_redirect_uri": "it does not take the address that a browser is to be sent back to",
    "invalid_client_metadata": "it does not take what we say of ourselves",
}


def _secret(text: Secret | str | None) -> Secret | None:
    return Secret(text) if isinstance(text, str) else text


@frozen(kw_only=True)
class PreRegistered:
    """A client that was registered by hand.

    Args:
        client_id: as the authorization server knows it.
        client_secret: where it was given one.
        issuer: of the authorization server; nothing of this is sent to another one. Needed with a secret or a key. A
            client without either is used with the first authorization server that a server names.
        key: private, of a client that authenticates with ``private_key_jwt``.
        method: how it authenticates, by default as strongly as it and the server can.
    """

    client_id: str
    client_secret: Secret | None = field(default=None, converter=_secret)
    issuer: str | None = None
    key: Key | None = field(default=None, repr=False)
    method: AuthenticationMethod | None = None

    def check_issuer(self) -> None:
        """
        Raises:
            ConfigError: there is a secret or a key, and no issuer: whatever authorization server a server names would
                be sent it (MCP 2026-07-28, basic/authorization/client-registration, "Authorization Server Binding").
        """
        if self.issuer is None and (self.client_secret is not None or self.key is not None):
            raise ConfigError("client: expected an issuer with the secret or key, so that no other server is sent it")

    @property
    def identity(self) -> ClientIdentity:
        return ClientIdentity(
            client_id=self.client_id, client_secret=self.client_secret, key=self.key, method=self.method
        )


@frozen(kw_only=True)
class ClientMetadata:
    """What a client says of itself when it registers.

    Args:
        name: shown to the person who is asked to consent.
        uri: a page about it.
        document: the https URL of its Client ID Metadata Document, which then is its id.
        application_type: ``native`` where the browser comes back to this machine, otherwise ``web``.

    Raises:
        ConfigError: the URL of the document is none that may be an id.
    """

    name: str
    uri: str | None = None
    document: str | None = None
    application_type: Literal["native", "web"] = "native"

    def __attrs_post_init__(self) -> None:
        if self.document is None:
            return
        parts = urlsplit(self.document)
        if parts.scheme != "https" or parts.path in ("", "/") or parts.fragment or "@" in parts.netloc:
            raise ConfigError(f"client_metadata_url: expected an https URL with a path, got {shown(self.document)}")
        if any(segment in (".", "..") for segment in parts.path.split("/")):
            raise ConfigError("client_metadata_url: expected a path without . and ..")


@frozen(kw_only=True)
class Registered:
    """A client as an authorization server knows it.

    Args:
        redirect_uris: where a browser may be sent back to; empty where that was agreed on elsewhere.
        scopes: that it may ask for; ``None`` where that was not said.
        expires_at: of the secret, seconds since 1970; ``None`` for never.
    """

    identity: ClientIdentity
    redirect_uris: tuple[str, ...] = ()
    scopes: tuple[str, ...] | None = None
    expires_at: float | None = None

    def suits(self, redirect_uri: str, scopes: tuple[str, ...] | None, now: float) -> bool:
        """Whether it may be used for this, and need not be registered anew."""
        return (
            redirect_uri in self.redirect_uris
            and (scopes is None or self.scopes is None or set(scopes) <= set(self.scopes))
            and (self.expires_at is None or now < self.expires_at)
        )

    def write(self) -> dict[str, Any]:
        """As a token store keeps it; only what was registered dynamically is kept."""
        secret = self.identity.client_secret
        return {
            "client_id": self.identity.client_id,
            "client_secret": None if secret is None else secret.reveal(),
            "method": self.identity.method,
            "redirect_uris": list(self.redirect_uris),
            "scopes": None if self.scopes is None else list(self.scopes),
            "expires_at": self.expires_at,
        }

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Registered:
        """What :meth:`write` wrote.

        Raises:
            KeyError, TypeError: it did not.
        """
        secret, scopes = value["client_secret"], value["scopes"]
        identity = ClientIdentity(
            client_id=value["client_id"],
            client_secret=None if secret is None else Secret(secret),
            method=value["method"],
        )
        return cls(
            identity=identity,
            redirect_uris=tuple(value["redirect_uris"]),
            scopes=None if scopes is None else tuple(scopes),
            expires_at=value["expires_at"],
        )


def register(
    server: ServerMetadata,
    client: ClientMetadata,
    redirect_uris: Sequence[str],
    *,
    scopes: tuple[str, ...] | None = None,
    also: Sequence[str] = (),
    bound_tokens: bool = False,
) -> Flow[Registered]:
    """Become known: by the URL of our metadata document where the server takes it, otherwise by registering.

    Args:
        scopes: that are asked for now; ``None`` where nobody says.
        also: that may be asked for later. Where the server does not take these, it is asked for the others alone, and
            then without any.
        bound_tokens: whether every token is to be bound to a key (DPoP).

    Raises:
        AuthorizationError: neither is possible, or the server does not want us.
        RequestFailed: it does not answer.
    """
    if client.document is not None and server.client_id_metadata_document_supported:
        return Registered(identity=ClientIdentity(client_id=client.document, method="none"))
    where = server.registration_endpoint
    if where is None:
        raise AuthorizationError(
            f"the authorization server {shown(server.issuer)} does not register clients by itself: "
            "register one there by hand, and give its client_id"
        )
    known = [] if scopes is None else [each for each in (union(scopes, also), scopes) if each]
    wanted: list[tuple[str, ...] | None] = [*dict.fromkeys(known), None]
    wish: dict[str, Any] = {
        "client_name": client.name,
        "redirect_uris": list(redirect_uris),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": _method(server),
        "application_type": client.application_type,
    }
    if client.uri is not None:
        wish["client_uri"] = client.uri
    if bound_tokens:
        wish["dpop_bound_access_tokens"] = True
    response = yield _registration(where, wish, wanted[0])
    # Some let clients have a part of what they offer; some know scopes by resource only, and no resource here (RFC 7591
    # section 2: it is for them to choose then).
    while response.status == 400 and len(wanted) > 1 and _error_in(response.body, where) in _OF_SCOPES:
        del wanted[0]
        response = yield _registration(where, wish, wanted[0])
    if response.status not in _CREATED:
        raise AuthorizationError(_refusal(response.status, response.body, where))
    return _read(read_object(response.body, where), tuple(redirect_uris), wanted[0], where)


def _registration(where: str, wish: Mapping[str, Any], scopes: tuple[str, ...] | None) -> FetchRequest:
    return FetchRequest(
        url=check_url(where, "registration_endpoint"),
        method="POST",
        headers={"content-type": "application/json", "accept": "application/json"},
        body=orjson.dumps({**wish, "scope": " ".join(scopes)} if scopes else wish),
    )


def _method(server: ServerMetadata) -> AuthenticationMethod:
    """A program on somebody's machine keeps no secret from them: it has one only where the server insists."""
    supported = server.token_endpoint_auth_methods_supported
    if supported is None or "none" in supported:
        return "none"
    return choose_method(server, secret=True, key=False)


def _read(
    members: Mapping[str, Any], redirect_uris: tuple[str, ...], wished: tuple[str, ...] | None, where: str
) -> Registered:
    id, secret = members.get("client_id"), members.get("client_secret")
    if not isinstance(id, str) or not _ID.fullmatch(id):
        raise AuthorizationError(f"client_id: expected a text of visible ASCII characters @ {shown(where)}")
    if secret is not None and not (isinstance(secret, str) and 0 < len(secret) <= 2048):
        raise AuthorizationError(f"client_secret: expected a text of at most 2048 characters @ {shown(where)}")
    method = members.get("token_endpoint_auth_method")
    if method is not None and method not in _METHODS:
        raise AuthorizationError(
            f"token_endpoint_auth_method: expected one of {', '.join(_METHODS)}, "
            f"got {one_line(repr(method))} @ {shown(where)}"
        )
    expires, scope = members.get("client_secret_expires_at"), members.get("scope")
    number = isinstance(expires, int | float) and not isinstance(expires, bool)
    return Registered(
        identity=ClientIdentity(client_id=id, client_secret=None if secret is None else Secret(secret), method=method),
        redirect_uris=redirect_uris,
        scopes=read_scope(scope) if isinstance(scope, str) else wished,
        expires_at=float(expires) if number and expires and secret is not None else None,
    )


def _error_in(body: bytes, where: str) -> object:
    try:
        return read_object(body, where).get("error")
    except AuthorizationError:
        return None


def _refusal(status: int, body: bytes, where: str) -> str:
    try:
        members = read_object(body, where)
    except AuthorizationError:
        members = {}
    code, text = members.get("error"), members.get("error_description")
    code = one_line(code) if isinstance(code, str) else ""
    said = ": ".join(filter(None, (code, one_line(text) if isinstance(text, str) else ""))) or f"HTTP {status}"
    reason = f" ({_REASONS[code]})" if code in _REASONS else ""
    if status == 404:
        detail = "" if said == "HTTP 404" else f", {said}"
        return f"the server seems to have no login (HTTP 404{detail} @ {shown(where)}): {PASS_A_TOKEN}"
    return f"the authorization server did not register us{reason}: {said} @ {shown(where)}"
