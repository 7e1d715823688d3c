"""Asking a person: the address to send them to, what their browser brings back, and what that is exchanged for.

Run by :mod:`mcptrio.auth.client.oauth`; between the two halves there is a person.
The one rule: what comes back is believed to be of no more than one attempt. State and issuer are compared, as they
came, with those of the attempt, before anything else of it is read, even an error.

Source: OAuth 2.1 (draft 13) sections 4.1 and 7.5; RFC 7636; RFC 9207 section 2.4; RFC 8707 section 2; RFC 9449
section 10; MCP 2026-07-28, basic/authorization, "Authorization Response Validation".
"""

from __future__ import annotations

import secrets
import time
from base64 import urlsafe_b64encode
from collections.abc import Callable
from hashlib import sha256
from hmac import compare_digest
from typing import Final
from urllib.parse import parse_qsl, urlencode, urlsplit, urlunsplit

from attrs import field, frozen

from mcptrio.auth.dpop import DPoPSigner
from mcptrio.auth.flows import Flow
from mcptrio.auth.metadata import ServerMetadata
from mcptrio.auth.token_requests import ClientIdentity, TokenRefused, Tokens, one_line, request_tokens
from mcptrio.auth.urls import check_url, shown
from mcptrio.errors import AuthorizationError
from mcptrio.ground.secret import Secret

__all__ = ["Attempt", "begin", "exchange", "read_code"]

_S256: Final = "S256"
_MAX_REDIRECT_CHARS: Final = 16 * 1024
"""Characters of what a browser brings back."""
_MAX_REDIRECT_FIELDS: Final = 50


@frozen(kw_only=True)
class Attempt:
    """One time that a person is asked. What is compared later is written down here before they are."""

    server: ServerMetadata
    client: ClientIdentity
    resource: str
    redirect_uri: str
    scopes: tuple[str, ...] | None
    state: str = field(factory=lambda: secrets.token_urlsafe(24), repr=False)
    verifier: Secret = field(factory=lambda: Secret(secrets.token_urlsafe(48)))
    key_thumbprint: str | None = None
    """Of the key that the code is bound to."""

    @property
    def url(self) -> str:
        """Where to send the person."""
        endpoint = urlsplit(self.server.authorization_endpoint or "")
        parameters = {
            "response_type": "code",
            "client_id": self.client.client_id,
            "redirect_uri": self.redirect_uri,
            "state": self.state,
            "code_challenge": _challenge(self.verifier),
            "code_challenge_method": _S256,
            "resource": self.resource,
        }
        if self.scopes:
            parameters["scope"] = " ".join(self.scopes)
        if self.key_thumbprint is not None:
            parameters["dpop_jkt"] = self.key_thumbprint
        # What it has of its own is kept, but not where it would say one of these twice.
        kept = [(name, value) for name, value in parse_qsl(endpoint.query, True) if name not in parameters]
        return urlunsplit((*endpoint[:3], urlencode([*kept, *parameters.items()]), ""))


def begin(
    server: ServerMetadata,
    client: ClientIdentity,
    *,
    resource: str,
    redirect_uri: str,
    scopes: tuple[str, ...] | None,
    prover: DPoPSigner | None = None,
) -> Attempt:
    """A new attempt.

    Args:
        scopes: to ask for; ``None`` to leave it to the server.

    Raises:
        AuthorizationError: the server cannot do it, or not safely.
    """
    if server.authorization_endpoint is None:
        raise AuthorizationError(f"authorization_endpoint: expected to be there, got none from {shown(server.issuer)}")
    check_url(server.authorization_endpoint, "authorization_endpoint")
    if _S256 not in (server.code_challenge_methods_supported or ()):
        methods = server.code_challenge_methods_supported
        got = "none" if methods is None else one_line(", ".join(methods)) or "an empty list"
        raise AuthorizationError(
            f"code_challenge_methods_supported: expected {_S256} to be among them, got {got} "
            f"from {shown(server.issuer)}; without PKCE a code can be stolen"
        )
    return Attempt(
        server=server,
        client=client,
        resource=resource,
        redirect_uri=redirect_uri,
        scopes=scopes,
        key_thumbprint=None if prover is None else prover.thumbprint,
    )


def read_code(attempt: Attempt, redirected: str) -> Secret:
    """The code that a browser brought back.

    Args:
        redirected: the whole URL it was sent to.

    Raises:
        TokenRefused: the person, or the server, said no.
        AuthorizationError: it is not an answer to this attempt.
    """
    if len(redirected) > _MAX_REDIRECT_CHARS:
        raise AuthorizationError(
            f"expected a redirect of at most {_MAX_REDIRECT_CHARS} characters, got {len(redirected)}"
        )
    there, expected = urlsplit(redirected), urlsplit(attempt.redirect_uri)
    if there[:3] != expected[:3]:
        raise AuthorizationError(f"expected a redirect to {shown(attempt.redirect_uri)}, got {shown(redirected)}")
    try:
        pairs = parse_qsl(there.query, True, max_num_fields=_MAX_REDIRECT_FIELDS)
    except ValueError:
        raise AuthorizationError(f"expected a redirect with at most {_MAX_REDIRECT_FIELDS} parameters") from None
    parameters = dict(pairs)
    repeated = {name for name, _ in pairs if sum(other == name for other, _ in pairs) > 1}
    if repeated & {"state", "iss", "code", "error"}:
        raise AuthorizationError("expected each parameter of the redirect once, got one of them several times")
    if not compare_digest(parameters.get("state", "").encode(), attempt.state.encode()):
        raise AuthorizationError("state: the redirect is not an answer to what we asked; it may be an attack")
    _check_issuer(attempt.server, parameters.get("iss"))
    if (error := parameters.get("error")) is not None:
        said = ": ".join(filter(None, (one_line(error), one_line(parameters.get("error_description", "")))))
        raise TokenRefused(
            f"the authorization server did not authorize us: {said} @ {shown(attempt.server.issuer)}",
            code=one_line(error),
        )
    if not (code := parameters.get("code")):
        raise AuthorizationError("code: expected to be there, got none in the redirect")
    return Secret(code)


def exchange(
    attempt: Attempt, code: Secret, *, prover: DPoPSigner | None = None, clock: Callable[[], float] = time.time
) -> Flow[Tokens]:
    """What a code is good for.

    Raises:
        TokenRefused: nothing.
        AuthorizationError, RequestFailed: as :func:`mcptrio.auth.token_requests.request_tokens`.
    """
    parameters = {
        "grant_type": "authorization_code",
        "code": code.reveal(),
        "redirect_uri": attempt.redirect_uri,
        "code_verifier": attempt.verifier.reveal(),
        "resource": attempt.resource,
    }
    return (yield from request_tokens(attempt.server, attempt.client, parameters, prover=prover, clock=clock))


def _check_issuer(server: ServerMetadata, issuer: str | None) -> None:
    if issuer is None:
        if server.authorization_response_iss_parameter_supported:
            raise AuthorizationError(f"iss: expected {server.issuer!r} in the redirect, got none")
    elif issuer != server.issuer:
        raise AuthorizationError(
            f"iss: expected {one_line(server.issuer)!r} in the redirect, got {one_line(issuer)!r}: "
            "another authorization server has answered"
        )


def _challenge(verifier: Secret) -> str:
    return urlsafe_b64encode(sha256(verifier.reveal().encode()).digest()).rstrip(b"=").decode()
