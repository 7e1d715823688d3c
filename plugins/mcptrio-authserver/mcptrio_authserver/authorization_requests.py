"""Authorization requests: parsed from the query of the authorization endpoint and validated.

:mod:`.service` parses the query again at each step, so nothing is stored between the pages.

Source: OAuth 2.1 sections 4.1.1, 4.1.2.1 and 7.12.2; RFC 7636 section 4.4.1; RFC 9207 section 2; RFC 8707 section 2;
RFC 9449 section 10; OpenID Connect Core 1.0 section 3.1.2.6 (``prompt``).
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Final

from attrs import field, frozen

from .clients import RegisteredClient
from .config import Config
from .redirect_uris import host_of, is_local, is_registered, with_parameters
from .refusals import Refusal
from .resources import resource_of
from .scopes import granted_scopes

__all__ = ["AuthorizationRequest", "ReturnedRefusal", "read_authorization_request"]

# A SHA-256 in base64url.
_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
# Longest state in characters.
_MAX_STATE_CHARS: Final = 2048


@frozen(kw_only=True)
class AuthorizationRequest:
    """A valid authorization request.

    Args:
        redirect_uri: The redirect URI.
        state: The client's state, returned unchanged.
        challenge: The PKCE challenge.
        resource: The audience of the tokens.
        scopes: The requested scopes that are offered and allowed for the client; a user may have fewer.
        dpop_key: The thumbprint of the key to which the tokens will be bound; ``None`` if the request names none.
        query: The text from which it was parsed, for the next step.
        silent: True to return an error instead of asking the user.
        issuer: The issuer, for the ``iss`` of the response.
    """

    client: RegisteredClient
    redirect_uri: str
    state: str | None = field(repr=False)
    challenge: str = field(repr=False)
    resource: str
    scopes: tuple[str, ...]
    dpop_key: str | None
    query: str = field(repr=False)
    silent: bool = False
    issuer: str

    @property
    def host(self) -> str:
        """The target of the response, as users see it."""
        return host_of(self.redirect_uri)

    @property
    def is_local(self) -> bool:
        """True if the response goes to a program on the user's machine."""
        return is_local(self.redirect_uri)

    def answer(self, code: str) -> str:
        """Return the redirect URL with a code."""
        return self._return({"code": code})

    def refusal(self, error: str, description: str) -> ReturnedRefusal:
        """Return an error for the client."""
        return ReturnedRefusal(
            error,
            description,
            client=self.client,
            location=self._return({"error": error, "error_description": description}),
        )

    def _return(self, parameters: Mapping[str, str]) -> str:
        return _location(self.redirect_uri, parameters, self.state, self.issuer)


class ReturnedRefusal(Refusal):
    """A refusal that the client receives through a redirect.

    Args:
        error: The error code.
        description: The expected value, for developers.
        location: The redirect URL with the error.
    """

    def __init__(self, error: str, description: str, *, client: RegisteredClient, location: str) -> None:
        super().__init__(error, description)
        self.client = client
        self.location = location


def read_authorization_request(
    config: Config, client: RegisteredClient | None, query: Mapping[str, str], raw: str
) -> AuthorizationRequest:
    """Validate an authorization request.

    Args:
        client: The client that ``client_id`` names, if it is known.
        query: The parameters of the query.
        raw: The text from which they were parsed.

    Raises:
        ReturnedRefusal: The request is refused; the client receives the error.
        Refusal: The request is refused; the user sees the error, because the client or its redirect URI is unknown.
    """
    if client is None:
        raise Refusal("invalid_client", "client_id: unknown client; register it again")
    redirect = _registered_redirect(client, query)
    # From here on the redirect URI is valid, so errors may be returned to the client.
    state, issuer = query.get("state"), config.issuer
    if state is not None and len(state) > _MAX_STATE_CHARS:
        raise Refusal("invalid_request", f"state: expected at most {_MAX_STATE_CHARS} characters")
    try:
        _check_supported(client, query)
        challenge, dpop_key = _code_challenge(query), _dpop_key(query)
        return AuthorizationRequest(
            client=client,
            redirect_uri=redirect,
            state=state,
            challenge=challenge,
            resource=resource_of(config, query.get("resource")),
            scopes=granted_scopes(config, query.get("scope"), client.scopes),
            dpop_key=dpop_key,
            query=raw,
            silent="none" in query.get("prompt", "").split(),
            issuer=issuer,
        )
    except Refusal as refusal:
        error, description = refusal.error, refusal.description
        parameters = {"error": error, "error_description": description}
        raise ReturnedRefusal(
            error, description, client=client, location=_location(redirect, parameters, state, issuer)
        ) from None


def _registered_redirect(client: RegisteredClient, query: Mapping[str, str]) -> str:
    """Return the redirect URI of the request, or the only one of the client."""
    redirect = query.get("redirect_uri")
    if redirect is None and len(client.redirect_uris) == 1:
        [redirect] = client.redirect_uris
    if redirect is None or not is_registered(redirect, client.redirect_uris):
        raise Refusal(
            "invalid_request", "redirect_uri: expected a registered redirect URI of the client, character for character"
        )
    return redirect


def _check_supported(client: RegisteredClient, query: Mapping[str, str]) -> None:
    """Refuse a request for another flow than the authorization code with its parameters in the query."""
    if query.get("response_type") != "code":
        error = "unsupported_response_type" if "response_type" in query else "invalid_request"
        raise Refusal(error, "response_type: expected code")
    if query.get("response_mode", "query") != "query":
        raise Refusal("invalid_request", "response_mode: expected query")
    # OpenID Connect Core section 6: refused, because their parameters would otherwise be ignored without notice.
    if "request" in query or "request_uri" in query:
        name = "request" if "request" in query else "request_uri"
        raise Refusal(f"{name}_not_supported", f"{name}: expected the parameters in the query itself")
    if "authorization_code" not in client.grant_types:
        raise Refusal("unauthorized_client", "the client is not registered for authorization codes")


def _code_challenge(query: Mapping[str, str]) -> str:
    # OAuth 2.1 section 7.5: with plain, a stolen request would reveal the verifier.
    if query.get("code_challenge_method") != "S256":
        raise Refusal("invalid_request", "code_challenge_method: expected S256")
    challenge = query.get("code_challenge", "")
    if not _CHALLENGE.fullmatch(challenge):
        raise Refusal("invalid_request", "code_challenge: expected 43 characters of base64url")
    return challenge


def _dpop_key(query: Mapping[str, str]) -> str | None:
    key = query.get("dpop_jkt")
    if key is not None and not _CHALLENGE.fullmatch(key):
        raise Refusal("invalid_request", "dpop_jkt: expected a JWK thumbprint of 43 characters of base64url")
    return key


def _location(redirect: str, parameters: Mapping[str, str], state: str | None, issuer: str) -> str:
    return with_parameters(redirect, {**parameters, **({"state": state} if state is not None else {}), "iss": issuer})
