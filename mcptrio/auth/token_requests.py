"""Asking a token endpoint: who we are, what we want, and what it answers.

Run by every grant.
The one rule: a refusal that says ``use_dpop_nonce`` is answered once, with another proof. Nothing else is sent twice: a
code, an assertion and a refresh token may all be good for one time only.

Source: RFC 6749 sections 2.3, 5 and 6; RFC 7009; RFC 7523 section 2.2; RFC 8707 section 2.2; RFC 9449 sections 5 and 8;
OpenID Connect Core 1.0 section 9.
"""

from __future__ import annotations

import re
import secrets
import time
from base64 import b64encode
from collections.abc import Callable, Mapping
from typing import Any, Final, Literal, TypeAlias
from urllib.parse import quote, urlencode

import orjson
from attrs import evolve, field, frozen

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
    "authenticate_client",
    "choose_method",
    "one_line",
    "refresh_tokens",
    "request_tokens",
    "revoke_token",
]

AuthenticationMethod: TypeAlias = Literal["none", "client_secret_basic", "client_secret_post", "private_key_jwt"]
"""How a client shows that it is the one it says it is."""

_ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
_ASSERTION_SECONDS: Final = 300
"""Seconds for which an assertion is good."""
_TOKEN: Final = re.compile(r"[\x21-\x7e]{1,16384}")
"""Goes into a header, so nothing else may be in it."""
_SCHEMES: Final = {"bearer": "Bearer", "dpop": "DPoP"}
_MAX_LIFETIME_SECONDS: Final = 10 * 365 * 86400.0
"""Seconds; what is said to be good for longer than that is good for that long."""
_MAX_QUOTED_CHARS: Final = 300
"""Characters of a server's words that an error repeats."""
_FORM: Final = {"content-type": "application/x-www-form-urlencoded", "accept": "application/json"}


class TokenRefused(AuthorizationError):
    """The authorization server refused.

    Args:
        code: its ``error``: ``invalid_grant``, ``invalid_client``; empty where it gave none.
    """

    def __init__(self, message: str, *, code: str = "") -> None:
        super().__init__(message)
        self.code = code


@frozen(kw_only=True)
class ClientIdentity:
    """Who asks.

    Args:
        client_id: as one authorization server knows it; it means nothing to another.
        client_secret: for ``client_secret_basic`` and ``client_secret_post``.
        key: private, for ``private_key_jwt``.
        method: by default chosen from what the server takes and what there is.
    """

    client_id: str
    client_secret: Secret | None = None
    key: Key | None = field(default=None, repr=False)
    method: AuthenticationMethod | None = None


@frozen(kw_only=True)
class Tokens:
    """What was granted.

    Args:
        scheme: how the access token is sent: ``Bearer``, or ``DPoP`` with proofs.
        expires_at: of the access token, seconds since 1970; ``None`` where nobody said.
        scopes: what was granted; ``None`` where nobody said, which means what was asked for.
    """

    access_token: Secret
    scheme: str = "Bearer"
    expires_at: float | None = None
    refresh_token: Secret | None = None
    scopes: tuple[str, ...] | None = None

    def write(self) -> dict[str, Any]:
        """As a token store keeps it."""
        return {
            "access_token": self.access_token.reveal(),
            "scheme": self.scheme,
            "expires_at": self.expires_at,
            "refresh_token": None if self.refresh_token is None else self.refresh_token.reveal(),
            "scopes": None if self.scopes is None else list(self.scopes),
        }

    @classmethod
    def read(cls, value: Mapping[str, Any]) -> Tokens:
        """What :meth:`write` wrote.

        Raises:
            KeyError, TypeError: it did not.
        """
        refresh, scopes = value["refresh_token"], value["scopes"]
        return cls(
            access_token=Secret(value["access_token"]),
            scheme=value["scheme"],
            expires_at=value["expires_at"],
            refresh_token=None if refresh is None else Secret(refresh),
            scopes=None if scopes is None else tuple(scopes),
        )


def request_tokens(
    server: ServerMetadata,
    client: ClientIdentity | None,
    parameters: Mapping[str, str],
    *,
    prover: DPoPSigner | None = None,
    clock: Callable[[], float] = time.time,
) -> Flow[Tokens]:
    """Ask for tokens.

    Args:
        client: ``None`` where the grant itself says who asks.
        parameters: of the grant, ``grant_type`` among them.
        prover: has the tokens bound to its key, if the server does that.
        clock: seconds since 1970.

    Raises:
        TokenRefused: there are none.
        AuthorizationError: what came is no answer of a token endpoint, or we cannot authenticate there.
        RequestFailed: nothing came.
    """
    response, where, asked_at = yield from ask_token_endpoint(server, client, parameters, prover=prover, clock=clock)
    return _read_tokens(response, where, asked_at, bound=prover is not None)


def ask_token_endpoint(
    server: ServerMetadata,
    client: ClientIdentity | None,
    parameters: Mapping[str, str],
    *,
    prover: DPoPSigner | None = None,
    clock: Callable[[], float] = time.time,
) -> Flow[tuple[FetchResponse, str, float]]:
    """What a token endpoint answers, whatever it is that it gives; its URL; and when it was asked.

    Raises:
        TokenRefused: with anything but status 200.
        AuthorizationError, RequestFailed: as :func:`request_tokens`.
    """
    where = server.token_endpoint
    if where is None:
        raise AuthorizationError(f"token_endpoint: expected to be there, got none from {shown(server.issuer)}")
    asked_at = clock()
    response = yield _request(server, where, client, parameters, prover, asked_at)
    again = prover is not None and prover.heard(where, response.headers)
    if again and response.status in (400, 401) and _error(response)[0] == "use_dpop_nonce":
        asked_at = clock()
        response = yield _request(server, where, client, parameters, prover, asked_at)
        if prover is not None:
            prover.heard(where, response.headers)
    if response.status != 200:
        code, text = _error(response)
        said = ": ".join(filter(None, (code, text))) or f"HTTP {response.status}"
        raise TokenRefused(f"the authorization server gave no token: {said} @ {shown(where)}", code=code)
    return response, where, asked_at


def refresh_tokens(
    server: ServerMetadata,
    client: ClientIdentity,
    tokens: Tokens,
    *,
    resource: str,
    prover: DPoPSigner | None = None,
    clock: Callable[[], float] = time.time,
) -> Flow[Tokens]:
    """Have an access token renewed. What the answer leaves out stays as it was: the refresh token, the scopes.

    Raises:
        TokenRefused: ``invalid_grant``: the refresh token is good for nothing any more.
        AuthorizationError, RequestFailed: as :func:`request_tokens`.
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
    """Have a refresh token, and what came of it, made worthless.

    Returns:
        Whether the server did; not all can.
    """
    if server.revocation_endpoint is None:
        return False
    headers, parameters = authenticate_client(server, client, time.time())
    parameters = {"token": token.reveal(), "token_type_hint": "refresh_token", **parameters}
    try:
        response = yield FetchRequest(
            url=server.revocation_endpoint,
            method="POST",
            headers={**_FORM, **headers},
            body=urlencode(parameters).encode(),
        )
    except RequestFailed:
        return False
    return response.status == 200


def choose_method(server: ServerMetadata, *, secret: bool, key: bool) -> AuthenticationMethod:
    """How a client authenticates there: as strongly as both can.

    Args:
        secret: whether it has one, or would be given one.
        key: whether it has a private one that the server knows.

    Raises:
        AuthorizationError: there is no way that both know.
    """
    supported = server.token_endpoint_auth_methods_supported
    strong: tuple[AuthenticationMethod, ...] = ("private_key_jwt",) if key else ()
    usual: tuple[AuthenticationMethod, ...] = ("client_secret_basic", "client_secret_post") if secret else ("none",)
    usable = (*strong, *usual)
    if supported is None:
        # RFC 8414 section 2: then it is client_secret_basic, which says nothing of clients that have no secret.
        return usable[0]
    for method in usable:
        if method in supported:
            return method
    if "none" in supported:
        return "none"  # a secret that nobody wants to see stays where it is
    raise AuthorizationError(
        f"token_endpoint_auth_methods_supported: expected one of {', '.join(usable)}, "
        f"got {one_line(', '.join(supported))} from {shown(server.issuer)}"
    )


def one_line(text: str) -> str:
    """Somebody else's text for an error: bounded, on one line, nothing in it that steers a terminal."""
    words = " ".join(text[: 4 * _MAX_QUOTED_CHARS].split())
    line = "".join(each if each.isprintable() else "\ufffd" for each in words)
    return line[:_MAX_QUOTED_CHARS] + "…" if len(line) > _MAX_QUOTED_CHARS else line


def _request(
    server: ServerMetadata,
    where: str,
    client: ClientIdentity | None,
    parameters: Mapping[str, str],
    prover: DPoPSigner | None,
    now: float,
) -> FetchRequest:
    headers, own = authenticate_client(server, client, now) if client is not None else ({}, {})
    if prover is not None:
        headers = {**headers, DPOP: prover.prove("POST", where)}
    return FetchRequest(
        url=where, method="POST", headers={**_FORM, **headers}, body=urlencode({**parameters, **own}).encode()
    )


def authenticate_client(
    server: ServerMetadata, client: ClientIdentity, now: float
) -> tuple[Mapping[str, str], Mapping[str, str]]:
    """Headers and parameters that say who we are, at the token endpoint and at others of that server.

    Args:
        now: seconds since 1970.

    Raises:
        AuthorizationError: we cannot authenticate there.
    """
    id, secret = client.client_id, client.client_secret
    method = client.method or choose_method(server, secret=secret is not None, key=client.key is not None)
    if method == "private_key_jwt":
        if client.key is None:
            raise AuthorizationError("private_key_jwt: expected a private key, got none")
        claims = {
            "iss": id,
            "sub": id,
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
    # A blank as %20 is read alike by those who decode forms and those who decode URLs. The id is said again for servers
    # that look for the client before they look at how it authenticates: those of the official Python SDK.
    pair = f"{quote(id, safe='')}:{quote(secret.reveal(), safe='')}"
    return {"authorization": "Basic " + b64encode(pair.encode()).decode()}, {"client_id": id}


def _read_tokens(response: FetchResponse, where: str, asked_at: float, *, bound: bool) -> Tokens:
    members = read_object(response.body, where)
    token, kind = members.get("access_token"), members.get("token_type")
    if not isinstance(token, str) or not _TOKEN.fullmatch(token):
        raise AuthorizationError(f"access_token: expected visible ASCII characters, at most 16384 @ {shown(where)}")
    scheme = _SCHEMES.get(kind.lower()) if isinstance(kind, str) else None
    if scheme is None or (scheme == "DPoP" and not bound):
        expected = "Bearer or DPoP" if bound else "Bearer"
        raise AuthorizationError(f"token_type: expected {expected}, got {one_line(repr(kind))} @ {shown(where)}")
    refresh, scope = members.get("refresh_token"), members.get("scope")
    if refresh is not None and not (isinstance(refresh, str) and 0 < len(refresh) <= 16384):
        raise AuthorizationError(f"refresh_token: expected a text of at most 16384 characters @ {shown(where)}")
    return Tokens(
        access_token=Secret(token),
        scheme=scheme,
        expires_at=_expiry(members.get("expires_in"), asked_at),
        refresh_token=None if refresh is None else Secret(refresh),
        scopes=read_scope(scope) if isinstance(scope, str) else None,
    )


def _expiry(seconds: object, asked_at: float) -> float | None:
    # Some say it as a text.
    if isinstance(seconds, str) and re.fullmatch(r"[0-9]{1,12}", seconds):
        seconds = int(seconds)
    if isinstance(seconds, bool) or not isinstance(seconds, int | float):
        return None
    return asked_at + min(max(float(seconds), 0.0), _MAX_LIFETIME_SECONDS)


def _error(response: FetchResponse) -> tuple[str, str]:
    """The code and the words of a refusal, harmless; empty where there are none."""
    try:
        members = orjson.loads(response.body) if len(response.body) <= 65536 else None
    except orjson.JSONDecodeError:
        members = None
    if not isinstance(members, dict):
        return "", ""
    code, text = members.get("error"), members.get("error_description")
    return one_line(code) if isinstance(code, str) else "", one_line(text) if isinstance(text, str) else ""
