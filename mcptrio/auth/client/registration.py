"""Client registration at an authorization server: dynamic, by metadata document, or in advance.

:mod:`mcptrio.auth.client.oauth` registers before the first authorization at a server. A registration belongs to one
authorization server; only a Client ID Metadata Document is valid at several.

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

from mcptrio.abc import FetchRequest, FetchResponse
from mcptrio.auth.challenges import TOKEN_ADVICE
from mcptrio.auth.flows import Flow
from mcptrio.auth.metadata import ServerMetadata, read_object
from mcptrio.auth.scopes import read_scope, union
from mcptrio.auth.token_requests import (
    AuthenticationMethod,
    ClientIdentity,
    choose_method,
    one_line,
    optional_tuple,
    plain,
    read_error,
)
from mcptrio.auth.urls import check_url, shown
from mcptrio.errors import AuthorizationError, ConfigError
from mcptrio.ground.secret import Secret

__all__ = ["ClientMetadata", "PreRegistered", "Registered", "register"]

# RFC 7591 section 3.2.1 requires 201; some servers send 200.
_CREATED: Final = (200, 201)
# VSCHAR of RFC 6749 appendix A.1, bounded.
_CLIENT_ID: Final = re.compile(r"[\x20-\x7e]{1,2048}")
# Errors that the scope parameter may have caused.
_SCOPE_ERRORS: Final = ("invalid_client_metadata", "invalid_scope")
# Members of a client's identity in a token store.
_STORED_MEMBERS: Final = ("client_id", "client_secret", "method")
_METHODS: Final = get_args(AuthenticationMethod)
_REASONS: Final = {
    "invalid_redirect_uri": "the redirect URI is not accepted",
    "invalid_client_metadata": "the client metadata is not accepted",
}


@frozen(kw_only=True)
class PreRegistered(ClientIdentity):
    """A client that an operator registered at the authorization server in advance.

    Args:
        client_id: The id at the authorization server.
        client_secret: The secret, if the client has one.
        issuer: The authorization server, the only one to which the credentials are sent. Required with a secret or a
            key. Without one, the client is used with the first authorization server that a server names.
        key: The private key of a client that authenticates with ``private_key_jwt``.
        method: The authentication method; by default the strongest that the client and the server support.
    """

    issuer: str | None = None

    def check_issuer(self) -> None:
        """Check that a client with credentials names its issuer.

        Raises:
            ConfigError: The client has a secret or a key and no issuer.
        """
        # MCP, basic/authorization/client-registration, "Authorization Server Binding": without an issuer, any
        # authorization server that a server names would receive the secret.
        if self.issuer is None and (self.client_secret is not None or self.key is not None):
            raise ConfigError("client: expected an issuer with the secret or key, so that no other server is sent it")


@frozen(kw_only=True)
class ClientMetadata:
    """The metadata that a client declares when it registers.

    Args:
        name: The name that users see when they consent.
        uri: The URL of a page about the client.
        document: The https URL of its Client ID Metadata Document, which is its client id.
        application_type: ``native`` if the redirect leads to this machine, otherwise ``web``.

    Raises:
        ConfigError: The URL of the document cannot be a client id.
    """

    name: str
    uri: str | None = None
    document: str | None = None
    application_type: Literal["native", "web"] = "native"

    def __attrs_post_init__(self) -> None:
        if self.document is None:
            return
        parts = urlsplit(self.document)
        # Client ID Metadata Document section 3 lists what such a URL must and must not contain.
        if parts.scheme != "https" or parts.path in ("", "/") or parts.fragment or "@" in parts.netloc:
            raise ConfigError(f"client_metadata_url: expected an https URL with a path, got {shown(self.document)}")
        if any(segment in (".", "..") for segment in parts.path.split("/")):
            raise ConfigError("client_metadata_url: expected a path without . and ..")


@frozen(kw_only=True)
class Registered:
    """A client's registration at one authorization server.

    Args:
        redirect_uris: The registered redirect URIs; empty for a metadata document, which lists them itself.
        scopes: The scopes that the client may request; ``None`` if unknown.
        expires_at: The time at which the secret expires, in seconds since 1970; ``None`` for never.
    """

    identity: ClientIdentity
    redirect_uris: tuple[str, ...] = ()
    scopes: tuple[str, ...] | None = field(default=None, converter=optional_tuple)
    expires_at: float | None = None

    def covers(self, redirect_uri: str, scopes: tuple[str, ...] | None, now: float) -> bool:
        """Return whether the registration covers a redirect URI and scopes and has not expired."""
        return (
            redirect_uri in self.redirect_uris
            and (scopes is None or self.scopes is None or set(scopes) <= set(self.scopes))
            and (self.expires_at is None or now < self.expires_at)
        )

    def write(self) -> dict[str, Any]:
        """Return the registration as plain values for a token store. Only dynamic registrations are stored."""
        members = plain(self)
        identity = members.pop("identity")
        return {**{name: identity[name] for name in _STORED_MEMBERS}, **members}

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Registered:
        """Return the registration that :meth:`write` encoded.

        Raises:
            KeyError, TypeError: The value is malformed.
        """
        return cls(
            identity=ClientIdentity(**{name: value[name] for name in _STORED_MEMBERS}),
            redirect_uris=tuple(value["redirect_uris"]),
            scopes=value["scopes"],
            expires_at=value["expires_at"],
        )


def register(
    server: ServerMetadata,
    client: ClientMetadata,
    redirect_uris: Sequence[str],
    *,
    scopes: tuple[str, ...] | None = None,
    later_scopes: Sequence[str] = (),
    bound_tokens: bool = False,
) -> Flow[Registered]:
    """Register a client: by its metadata document if the server supports it, otherwise dynamically.

    Args:
        scopes: The scopes to request now; ``None`` if unknown.
        later_scopes: Scopes that may be requested later. If the server rejects them, the client registers without
            them, then without any scopes.
        bound_tokens: True if all tokens will be bound to a key (DPoP).

    Raises:
        AuthorizationError: The server supports neither way, or rejects the client.
        RequestFailed: The server is unreachable.
    """
    if client.document is not None and server.client_id_metadata_document_supported:
        return Registered(identity=ClientIdentity(client_id=client.document, method="none"))
    endpoint = server.registration_endpoint
    if endpoint is None:
        raise AuthorizationError(
            f"the authorization server {shown(server.issuer)} has no client registration: "
            "register a client there and configure its client_id"
        )
    known = [] if scopes is None else [each for each in (union(scopes, later_scopes), scopes) if each]
    scope_choices: list[tuple[str, ...] | None] = [*dict.fromkeys(known), None]
    metadata: dict[str, Any] = {
        "client_name": client.name,
        "redirect_uris": list(redirect_uris),
        "grant_types": ["authorization_code", "refresh_token"],
        "response_types": ["code"],
        "token_endpoint_auth_method": _method(server),
        "application_type": client.application_type,
    }
    if client.uri is not None:
        metadata["client_uri"] = client.uri
    if bound_tokens:
        metadata["dpop_bound_access_tokens"] = True
    response = yield _registration(endpoint, metadata, scope_choices[0])
    # Some servers grant clients a part of the scopes they offer; some know scopes by resource only, and RFC 7591 has no
    # resource parameter. Without a scope, the server chooses (RFC 7591 section 2).
    while response.status == 400 and len(scope_choices) > 1 and read_error(response)[0] in _SCOPE_ERRORS:
        del scope_choices[0]
        response = yield _registration(endpoint, metadata, scope_choices[0])
    if response.status not in _CREATED:
        raise AuthorizationError(_refusal(response, endpoint))
    return _read(read_object(response.body, endpoint), tuple(redirect_uris), scope_choices[0], endpoint)


def _registration(endpoint: str, metadata: Mapping[str, Any], scopes: tuple[str, ...] | None) -> FetchRequest:
    return FetchRequest(
        url=check_url(endpoint, "registration_endpoint"),
        method="POST",
        headers={"content-type": "application/json", "accept": "application/json"},
        body=orjson.dumps({**metadata, "scope": " ".join(scopes)} if scopes else metadata),
    )


def _method(server: ServerMetadata) -> AuthenticationMethod:
    # A program on a user's machine cannot keep a secret (RFC 8252 section 8.5): request one only if the server insists.
    supported = server.token_endpoint_auth_methods_supported
    if supported is None or "none" in supported:
        return "none"
    return choose_method(server, secret=True, key=False)


def _read(
    members: Mapping[str, Any], redirect_uris: tuple[str, ...], requested_scopes: tuple[str, ...] | None, endpoint: str
) -> Registered:
    id, secret = members.get("client_id"), members.get("client_secret")
    if not isinstance(id, str) or not _CLIENT_ID.fullmatch(id):
        raise AuthorizationError(f"client_id: expected a string of visible ASCII characters at {shown(endpoint)}")
    if secret is not None and not (isinstance(secret, str) and 0 < len(secret) <= 2048):
        raise AuthorizationError(f"client_secret: expected a string of at most 2048 characters at {shown(endpoint)}")
    method = members.get("token_endpoint_auth_method")
    if method is not None and method not in _METHODS:
        raise AuthorizationError(
            f"token_endpoint_auth_method: expected one of {', '.join(_METHODS)}, "
            f"got {one_line(repr(method))} at {shown(endpoint)}"
        )
    expires, scope = members.get("client_secret_expires_at"), members.get("scope")
    number = isinstance(expires, int | float) and not isinstance(expires, bool)
    return Registered(
        identity=ClientIdentity(client_id=id, client_secret=None if secret is None else Secret(secret), method=method),
        redirect_uris=redirect_uris,
        scopes=read_scope(scope) if isinstance(scope, str) else requested_scopes,
        # RFC 7591 section 3.2.1: 0 means that the secret does not expire.
        expires_at=float(expires) if number and expires and secret is not None else None,
    )


def _refusal(response: FetchResponse, endpoint: str) -> str:
    code, detail_text = read_error(response)
    reason = f" ({_REASONS[code]})" if code in _REASONS else ""
    # A server that issues static tokens fails here with a guessed registration endpoint; name the option that works.
    if response.status == 404:
        detail = "" if detail_text == "HTTP 404" else f", {detail_text}"
        return f"the server seems to have no login (HTTP 404{detail} at {shown(endpoint)}): {TOKEN_ADVICE}"
    return f"client registration failed{reason}: {detail_text} at {shown(endpoint)}"
