"""Token endpoint requests: client authentication, token requests, refresh and revocation.

Every grant uses this module to send its requests, and so does the authorization server plugin to its upstream provider.

Source: RFC 6749 sections 2.3, 5 and 6; RFC 7009; RFC 7523 section 2.2; RFC 8707 section 2.2; RFC 9449 sections 5 and 8;
OpenID Connect Core 1.0 section 9.
"""

from __future__ import annotations

import re
import secrets
import time
from base64 import b64encode
from collections.abc import Callable, Iterable, Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote, urlencode

from attrs import AttrsInstance, asdict, evolve, field, fields, frozen
from attrs.converters import optional

from mcptrio.abc import FetchRequest, FetchResponse
from mcptrio.auth.dpop import DPOP, DPoPSigner
from mcptrio.auth.flows import Flow
from mcptrio.auth.jose import Key, sign
from mcptrio.auth.metadata import ServerMetadata, read_object
from mcptrio.auth.scopes import read_scope
from mcptrio.auth.urls import shown
from mcptrio.errors import AuthorizationError, RequestFailed
from mcptrio.ground.secret import Secret

__all__ = [
    "AuthenticationMethod",
    "ClientIdentity",
    "TokenRefused",
    "Tokens",
    "choose_method",
    "form_request",
    "one_line",
    "optional_tuple",
    "plain",
    "read_error",
    "refresh_tokens",
    "request_tokens",
    "revoke_token",
]

AuthenticationMethod: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
"""The methods by which a client authenticates at the token endpoint."""

_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# Lifetime of a client assertion in seconds.
_ASSERTION_SECONDS: Final = 300
# Tokens are sent in a header, so blanks and control characters would allow header injection.
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16384}")
_SCHEMES: Final = {"bearer": "Bearer", "dpop": "DPoP"}
# Longest lifetime in seconds; longer ones are shortened to it.
_MAX_LIFETIME_SECONDS: Final = 10 * 365 * 86400.0
# Maximum characters of a text from a server that an error message repeats.
_MAX_QUOTED_CHARS: Final = 300
_FORM: Final = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}


def _secret(text: Secret | str) -> Secret:
    return Secret(text) if isinstance(text, str) else text


def optional_tuple(texts: Iterable[str] | None) -> tuple[str, ...] | None:
    return None if texts is None else tuple(texts)


def plain(value: AttrsInstance) -> dict[str, Any]:
    """Return an object as plain values for a token store, with its secrets."""

    def serialize(_: object, __: object, member: object) -> object:
        return member.reveal() if isinstance(member, Secret) else list(member) if isinstance(member, tuple) else member

    return asdict(value, value_serializer=serialize)


class TokenRefused(AuthorizationError):
    """The authorization server refused a token request.

    Args:
        code: The ``error`` of the response, for example ``invalid_grant``; empty if it had none.
    """

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


@frozen(kw_only=True)
class ClientIdentity:
    """The client id and credentials of a client at one authorization server.

    Args:
        client_id: The id, valid at one authorization server only.
        client_secret: The secret for ``client_secret_basic`` and ``client_secret_post``.
        key: The private key for ``private_key_jwt``.
        method: The authentication method; by default chosen from the server's metadata and the credentials.
    """

    client_id: str
    client_secret: Secret | None = field(default=None, converter=optional(_secret))
    key: Key | None = field(default=None, repr=False)
    method: AuthenticationMethod | None = None


@frozen(kw_only=True)
class Tokens:
    """The tokens of one grant.

    Args:
        scheme: The scheme of the ``Authorization`` header: ``Bearer``, or ``DPoP`` with proofs.
        expires_at: The time at which the access token expires, in seconds since 1970; ``None`` if unknown.
        scopes: The granted scopes; ``None`` if the server named none, which means the requested ones.
    """

    access_token: Secret = field(converter=_secret)
    scheme: str = "Bearer"
    expires_at: float | None = None
    refresh_token: Secret | None = field(default=None, converter=optional(_secret))
    scopes: tuple[str, ...] | None = field(default=None, converter=optional_tuple)

    def write(self) -> dict[str, Any]:
        """Return the tokens as plain values for a token store."""
        return plain(self)

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Tokens:
        """Return the tokens that :meth:`write` encoded.

        Raises:
            KeyError, TypeError: The value is malformed.
        """
        return cls(**{each.name: value[each.name] for each in fields(cls)})


def request_tokens(
    server: ServerMetadata,
    client: ClientIdentity | None,
    parameters: Mapping[str, str],
    *,
    prover: DPoPSigner | None = None,
    clock: Callable[[], float] = time.time,
) -> Flow[Tokens]:
    """Request tokens with a grant.

    Args:
        client: The client's credentials; ``None`` if the grant itself identifies the client.
        parameters: The parameters of the grant, including ``grant_type``.
        prover: The key to which the server should bind the tokens, if it supports DPoP.
        clock: Returns seconds since 1970.

    Raises:
        TokenRefused: The server refused the grant.
        AuthorizationError: The response is malformed, or the client has no usable authentication method.
        RequestFailed: The server is unreachable.
    """
    response, endpoint, asked_at = yield from ask_token_endpoint(server, client, parameters, prover=prover, clock=clock)
    return _read_tokens(response, endpoint, asked_at, bound=prover is not None)


def ask_token_endpoint(
    server: ServerMetadata,
    client: ClientIdentity | None,
    parameters: Mapping[str, str],
    *,
    prover: DPoPSigner | None = None,
    clock: Callable[[], float] = time.time,
) -> Flow[tuple[FetchResponse, str, float]]:
    """Send a request to the token endpoint; return the response, the endpoint's URL, and the time of the request.

    Raises:
        TokenRefused: The status is not 200.
        AuthorizationError, RequestFailed: As for :func:`request_tokens`.
    """
    endpoint = server.token_endpoint
    if endpoint is None:
        raise AuthorizationError(f"token_endpoint: missing from {shown(server.issuer)}")
    asked_at = clock()
    response = yield form_request(server, endpoint, client, parameters, prover=prover, clock=clock)
    # Only this refusal is retried, once. A code, an assertion and a refresh token may each be valid for one request
    # only, and a server that demands a nonce has not used them.
    has_new_nonce = prover is not None and prover.take_nonce(endpoint, response.headers)
    if has_new_nonce and response.status in (400, 401) and read_error(response)[0] == "use_dpop_nonce":
        asked_at = clock()
        response = yield form_request(server, endpoint, client, parameters, prover=prover, clock=clock)
        if prover is not None:
            prover.take_nonce(endpoint, response.headers)
    if response.status != 200:
        code, reason = read_error(response)
        raise TokenRefused(
            f"the authorization server refused the token request: {reason} at {shown(endpoint)}", code=code
        )
    return response, endpoint, asked_at


def refresh_tokens(
    server: ServerMetadata,
    client: ClientIdentity,
    tokens: Tokens,
    *,
    resource: str,
    prover: DPoPSigner | None = None,
    clock: Callable[[], float] = time.time,
) -> Flow[Tokens]:
    """Refresh an access token.

    The refresh token and the scopes are kept if the response omits them (RFC 6749 section 6).

    Raises:
        TokenRefused: The server refused; with the code ``invalid_grant`` the refresh token is no longer valid.
        AuthorizationError, RequestFailed: As for :func:`request_tokens`.
    """
    if tokens.refresh_token is None:
        raise AuthorizationError("expected a refresh token, got none")
    parameters = {
        "grant_type": "refresh_token",
        "refresh_token": tokens.refresh_token.reveal(),
        "resource": resource,
    }
    fresh = yield from request_tokens(server, client, parameters, prover=prover, clock=clock)
    return evolve(
        fresh,
        refresh_token=fresh.refresh_token or tokens.refresh_token,
        scopes=tokens.scopes if fresh.scopes is None else fresh.scopes,
    )


def revoke_token(server: ServerMetadata, client: ClientIdentity, token: Secret) -> Flow[bool]:
    """Revoke a refresh token and the access tokens issued from it.

    Returns:
        True if the server confirmed it; False if it has no revocation endpoint, refused, or is unreachable.
    """
    if server.revocation_endpoint is None:
        return False
    parameters = {"token": token.reveal(), "token_type_hint": "refresh_token"}
    try:
        response = yield form_request(server, server.revocation_endpoint, client, parameters)
    except RequestFailed:
        return False
    return response.status == 200


def choose_method(server: ServerMetadata, *, secret: bool, key: bool) -> AuthenticationMethod:
    """Return the strongest authentication method that the client and the server support.

    Args:
        secret: True if the client has a secret, or would receive one.
        key: True if the client has a private key that the server knows.

    Raises:
        AuthorizationError: The server and the client have no method in common.
    """
    supported = server.token_endpoint_auth_methods_supported
    strong: tuple[AuthenticationMethod, ...] = ("private_key_jwt",) if key else ()
    usual: tuple[AuthenticationMethod, ...] = ("client_secret_basic", "client_secret_post") if secret else ("none",)
    usable = (*strong, *usual)
    if supported is None:
        # RFC 8414 section 2: the default is client_secret_basic. That cannot apply to a client without a secret.
        return usable[0]
    for method in usable:
        if method in supported:
            return method
    if "none" in supported:
        # Do not send a secret that the server does not ask for.
        return "none"
    raise AuthorizationError(
        f"token_endpoint_auth_methods_supported: expected one of {', '.join(usable)}, "
        f"got {one_line(', '.join(supported))} from {shown(server.issuer)}"
    )


def read_error(response: FetchResponse) -> tuple[str, str]:
    """Return the error code of a response and a text for an error message, each on one line.

    The code is empty if the response has none. The text consists of the code and the description, or of the HTTP status
    if the response has neither.
    """
    try:
        members = read_object(response.body, "")
    except AuthorizationError:
        members = {}
    code, text = members.get("error"), members.get("error_description")
    texts = [one_line(each) if isinstance(each, str) else "" for each in (code, text)]
    return texts[0], ": ".join(filter(None, texts)) or f"HTTP {response.status}"


def one_line(text: str) -> str:
    """Return a text of the server for an error message: truncated, on one line, without terminal control characters."""
    words = " ".join(text[: 4 * _MAX_QUOTED_CHARS].split())
    line = "".join(each if each.isprintable() else "\ufffd" for each in words)
    return line[:_MAX_QUOTED_CHARS] + "…" if len(line) > _MAX_QUOTED_CHARS else line


def form_request(
    server: ServerMetadata,
    endpoint: str,
    client: ClientIdentity | None,
    parameters: Mapping[str, str],
    *,
    prover: DPoPSigner | None = None,
    clock: Callable[[], float] = time.time,
) -> FetchRequest:
    """Return a request to an endpoint of an authorization server, with the client's credentials.

    Args:
        endpoint: The URL of the endpoint.

    Raises:
        AuthorizationError: A credential is missing, or the server and the client have no method in common.
    """
    headers, credentials = _authenticate(server, client, clock()) if client is not None else ({}, {})
    if prover is not None:
        headers = {**headers, DPOP: prover.prove("POST", endpoint)}
    return FetchRequest(
        url=endpoint,
        method="POST",
        headers={**_FORM, **headers},
        body=urlencode({**parameters, **credentials}).encode(),
    )


def _authenticate(
    server: ServerMetadata, client: ClientIdentity, now: float
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Return the headers and parameters that authenticate a client."""
    id, secret = client.client_id, client.client_secret
    method = client.method or choose_method(server, secret=secret is not None, key=client.key is not None)
    if method == "private_key_jwt":
        if client.key is None:
            raise AuthorizationError("private_key_jwt: expected a private key, got none")
        claims = {
            "iss": id,
            "sub": id,
            # The issuer, not the token endpoint: another server could otherwise obtain an assertion for this one by
            # naming its endpoint.
            "aud": server.issuer,
            "jti": secrets.token_urlsafe(16),
            "iat": int(now),
            "exp": int(now) + _ASSERTION_SECONDS,
        }
        assertion = sign(claims, client.key)
        return {}, {"client_id": id, "client_assertion_type": _ASSERTION, "client_assertion": assertion}
    if method == "none":
        return {}, {"client_id": id}
    if secret is None:
        raise AuthorizationError(f"{method}: expected a client secret, got none")
    if method == "client_secret_post":
        return {}, {"client_id": id, "client_secret": secret.reveal()}
    # RFC 6749 section 2.3.1 requires form encoding, but some servers only percent-decode. %20 for a space is correct
    # for both. The id is repeated in the body because the official Python SDK's server looks up the client before it
    # reads the header.
    pair = f"{quote(id, safe='')}:{quote(secret.reveal(), safe='')}"
    return {"authorization": "Basic " + b64encode(pair.encode()).decode()}, {"client_id": id}


def _read_tokens(response: FetchResponse, endpoint: str, asked_at: float, *, bound: bool) -> Tokens:
    members = read_object(response.body, endpoint)
    token, kind = members.get("access_token"), members.get("token_type")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise AuthorizationError(f"access_token: expected 1 to 16384 visible ASCII characters at {shown(endpoint)}")
    scheme = _SCHEMES.get(kind.lower()) if isinstance(kind, str) else None
    # Without a proof key, a DPoP-bound token would be rejected on every request.
    if scheme is None or (scheme == "DPoP" and not bound):
        expected = "Bearer or DPoP" if bound else "Bearer"
        raise AuthorizationError(f"token_type: expected {expected}, got {one_line(repr(kind))} at {shown(endpoint)}")
    refresh, scope = members.get("refresh_token"), members.get("scope")
    if refresh is not None and not (isinstance(refresh, str) and 0 < len(refresh) <= 16384):
        raise AuthorizationError(f"refresh_token: expected a string of at most 16384 characters at {shown(endpoint)}")
    return Tokens(
        access_token=Secret(token),
        scheme=scheme,
        expires_at=_expiry(members.get("expires_in"), asked_at),
        refresh_token=None if refresh is None else Secret(refresh),
        scopes=read_scope(scope) if isinstance(scope, str) else None,
    )


def _expiry(seconds: object, asked_at: float) -> float | None:
    # Some servers send expires_in as a string.
    if isinstance(seconds, str) and re.fullmatch(r"[0-9]{1,12}", seconds):
        seconds = int(seconds)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return asked_at + min(max(float(seconds), 0.0), _MAX_LIFETIME_SECONDS)
