"""The authorization code flow: the URL for the user's browser, the check of the redirect, and the token request.

:mod:`mcptrio.auth.client.oauth` runs it; the user logs in after the first part.

Source: OAuth 2.1 (draft 13) sections 4.1 and 7.5; RFC 7636; RFC 9207 section 2.4; RFC 8707 section 2; RFC 9449 section
10; MCP 2026-07-28, basic/authorization, "Authorization Response Validation".
"""

from __future__ import annotations

import secrets
import time
from collections.abc import Callable
from hmac import compare_digest
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from attrs import field, frozen

from mcptrio.auth.dpop import DPoPSigner, base64url_sha256
from mcptrio.auth.flows import Flow
from mcptrio.auth.metadata import ServerMetadata
from mcptrio.auth.token_requests import ClientIdentity, TokenRefused, Tokens, one_line, request_tokens
from mcptrio.auth.urls import check_url, shown
from mcptrio.errors import AuthorizationError
from mcptrio.ground.secret import Secret

__all__ = ["Attempt", "exchange", "read_code"]

_S256: Final = "S256"
# Longest redirect URL in characters.
_MAX_REDIRECT_CHARS: Final = 16 * 1024
# Parameters of a redirect.
_MAX_REDIRECT_FIELDS: Final = 50


@frozen(kw_only=True)
class Attempt:
    """One authorization request, with the values that its redirect has to match.

    Args:
        scopes: The scopes to request; ``None`` lets the server choose.
        prover: The key to which the code is bound (DPoP).

    Raises:
        AuthorizationError: The server has no authorization endpoint, or does not support PKCE.
    """

    server: ServerMetadata
    client: ClientIdentity
    resource: str
    redirect_uri: str
    scopes: tuple[str, ...] | None
    prover: DPoPSigner | None = field(default=None, repr=False)
    state: str = field(factory=lambda: secrets.token_urlsafe(24), init=False, repr=False)
    verifier: Secret = field(factory=lambda: Secret(secrets.token_urlsafe(48)), init=False)

    def __attrs_post_init__(self) -> None:
        server = self.server
        if server.authorization_endpoint is None:
            raise AuthorizationError(f"authorization_endpoint: missing from {shown(server.issuer)}")
        check_url(server.authorization_endpoint, "authorization_endpoint")
        # MCP, basic/authorization, "Authorization Code Protection": without this member, clients must not proceed.
        if _S256 not in (server.code_challenge_methods_supported or ()):
            methods = server.code_challenge_methods_supported
            got = "none" if methods is None else one_line(", ".join(methods)) or "an empty list"
            raise AuthorizationError(
                f"code_challenge_methods_supported: expected {_S256} to be among them, got {got} "
                f"from {shown(server.issuer)}; without PKCE a code can be stolen"
            )

    @property
    def url(self) -> str:
        """The URL to which the user's browser is sent."""
        endpoint = urlsplit(self.server.authorization_endpoint or "")
        parameters = {
            "response_type": "code",
            "client_id": self.client.client_id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": base64url_sha256(self.verifier.reveal()),
            "code_challenge_method": _S256,
            "resource": self.resource,
        }
        if self.scopes:
            parameters["scope"] = " ".join(self.scopes)
        if self.prover is not None:
            parameters["dpop_jkt"] = self.prover.thumbprint
        # RFC 6749 section 3.1: keep the endpoint's own query, but no parameter may occur twice.
        kept = [(name, value) for name, value in parse_qsl(endpoint.query, True) if name not in parameters]
        return urlunsplit((*endpoint[:3], urlencode([*kept, *parameters.items()]), ""))


def read_code(attempt: Attempt, redirected: str) -> Secret:
    """Check a redirect and return its authorization code.

    Args:
        redirected: The whole URL to which the browser was redirected.

    Raises:
        TokenRefused: The user or the server refused.
        AuthorizationError: The redirect does not belong to this request, or is malformed.
    """
    if len(redirected) > _MAX_REDIRECT_CHARS:
        raise AuthorizationError(
            f"expected a redirect of at most {_MAX_REDIRECT_CHARS} characters, got {len(redirected)}"
        )
    actual, expected = urlsplit(redirected), urlsplit(attempt.redirect_uri)
    if actual[:3] != expected[:3]:
        raise AuthorizationError(f"expected a redirect to {shown(attempt.redirect_uri)}, got {shown(redirected)}")
    try:
        pairs = parse_qsl(actual.query, True, max_num_fields=_MAX_REDIRECT_FIELDS)
    except ValueError:
        raise AuthorizationError(f"expected a redirect with at most {_MAX_REDIRECT_FIELDS} parameters") from None
    parameters = dict(pairs)
    repeated = {name for name, _ in pairs if sum(other == name for other, _ in pairs) > 1}
    if repeated & {"state", "iss", "code", "error"}:
        raise AuthorizationError("expected each parameter of the redirect once, got one of them several times")
    # State and issuer come first, before even an error is read: until they match, the redirect may come from an
    # attacker.
    if not compare_digest(parameters.get("state", "").encode(), attempt.state.encode()):
        raise AuthorizationError(
            "state: does not match the authorization request; possible attack, start the login again"
        )
    _check_issuer(attempt.server, parameters.get("iss"))
    if (error := parameters.get("error")) is not None:
        reason = ": ".join(filter(None, (one_line(error), one_line(parameters.get("error_description", "")))))
        raise TokenRefused(
            f"authorization refused: {reason} at {shown(attempt.server.issuer)}",
            code=one_line(error),
        )
    if not (code := parameters.get("code")):
        raise AuthorizationError("code: missing in the redirect")
    return Secret(code)


def exchange(attempt: Attempt, code: Secret, *, clock: Callable[[], float] = time.time) -> Flow[Tokens]:
    """Exchange a code for tokens.

    Raises:
        TokenRefused: The server refused the code.
        AuthorizationError, RequestFailed: As for ``mcptrio.auth.token_requests.request_tokens``.
    """
    parameters = {
        "grant_type": "authorization_code",
        "code": code.reveal(),
        "redirect_uri": attempt.redirect_uri,
        "code_verifier": attempt.verifier.reveal(),
        "resource": attempt.resource,
    }
    return request_tokens(attempt.server, attempt.client, parameters, prover=attempt.prover, clock=clock)


def _check_issuer(server: ServerMetadata, issuer: str | None) -> None:
    if issuer is None:
        # RFC 9207 section 2.4: a server that declares iss always sends it, so its absence is an attack.
        if server.authorization_response_iss_parameter_supported:
            raise AuthorizationError(f"iss: expected {server.issuer!r} in the redirect, got none")
    elif issuer != server.issuer:
        raise AuthorizationError(
            f"iss: expected {one_line(server.issuer)!r} in the redirect, got {one_line(issuer)!r}: "
            "another authorization server has answered"
        )
