"""What a client asks of a user: read from the query of the authorization endpoint, and checked.

Asked again at each step, by :mod:`.web`: nothing is kept between the pages but the query itself.
The one rule: nothing is sent to a redirect URI that the client did not register, and nobody is redirected on the word
of a client that anybody could have made: such a client's errors are shown, with a link to where they belong.

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

_CHALLENGE: Final = re.compile(r"[A-Za-z0-9_-]{43}")
"""Of a SHA-256."""
_STATE: Final = 2048


@frozen(kw_only=True)
class AuthorizationRequest:
    """
    Args:
        scopes: as many of those asked for as there are and the client may have; a user may have fewer.
        dpop_key: thumbprint of the key that the tokens are to be bound to; ``None`` where that is not said yet.
        query: what it was read from, to be read again after the next step.
        silent: whether it is to end in an error rather than ask anybody anything.
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
        """Where the answer goes, as people are shown it."""
        return host_of(self.redirect_uri)

    @property
    def is_local(self) -> bool:
        """Whether it goes to a program on the user's machine."""
        return is_local(self.redirect_uri)

    def answer(self, code: str) -> str:
        """Where the browser goes with a code."""
        return self._return({"code": code})

    def refusal(self, error: str, description: str) -> ReturnedRefusal:
        """What is said to the client instead."""
        return ReturnedRefusal(
            error,
            description,
            client=self.client,
            location=self._return({"error": error, "error_description": description}),
        )

    def _return(self, parameters: Mapping[str, str]) -> str:
        return _location(self.redirect_uri, parameters, self.state, self.issuer)


class ReturnedRefusal(Refusal):
    """A refusal that the client is told of.

    Args:
        location: where the browser goes to tell it.
    """

    def __init__(self, error: str, description: str, *, client: RegisteredClient, location: str) -> None:
        super().__init__(error, description)
        self.client = client
        self.location = location


def read_authorization_request(
    config: Config, client: RegisteredClient | None, query: Mapping[str, str], raw: str
) -> AuthorizationRequest:
    """
    Args:
        client: the one that ``client_id`` names, if it is known.
        query: each parameter once.
        raw: what they were read from.

    Raises:
        ReturnedRefusal: the client is told.
        Refusal: the user is told, since it is not sure who the client is.
    """
    if client is None:
        raise Refusal("invalid_client", "client_id: expected a client that is known here; it may have to register anew")
    redirect = query.get("redirect_uri")
    if redirect is None and len(client.redirect_uris) == 1:
        [redirect] = client.redirect_uris
    if redirect is None or not is_registered(redirect, client.redirect_uris):
        raise Refusal("invalid_request", "redirect_uri: expected one that the client has registered, to the letter")
    state, issuer = query.get("state"), config.issuer
    if state is not None and len(state) > _STATE:
        raise Refusal("invalid_request", f"state: expected at most {_STATE} characters")

    def refused(error: str, description: str) -> ReturnedRefusal:
        told = {"error": error, "error_description": description}
        return ReturnedRefusal(error, description, client=client, location=_location(redirect, told, state, issuer))

    if query.get("response_type") != "code":
        given = "unsupported_response_type" if "response_type" in query else "invalid_request"
        raise refused(given, "response_type: expected code")
    if query.get("response_mode", "query") != "query":
        raise refused("invalid_request", "response_mode: expected query")
    if "request" in query or "request_uri" in query:
        name = "request" if "request" in query else "request_uri"
        raise refused(f"{name}_not_supported", "expected the parameters themselves")
    if "authorization_code" not in client.grant_types:
        raise refused("unauthorized_client", "the client is not registered for authorization codes")
    if query.get("code_challenge_method") != "S256":
        raise refused("invalid_request", "code_challenge_method: expected S256")
    challenge = query.get("code_challenge", "")
    if not _CHALLENGE.fullmatch(challenge):
        raise refused("invalid_request", "code_challenge: expected 43 characters of base64url")
    key = query.get("dpop_jkt")
    if key is not None and not _CHALLENGE.fullmatch(key):
        raise refused("invalid_request", "dpop_jkt: expected the thumbprint of a key")
    try:
        resource = resource_of(config, query.get("resource"))
        scopes = granted_scopes(config, query.get("scope"), client.scopes)
    except Refusal as refusal:
        raise refused(refusal.error, refusal.description) from None
    return AuthorizationRequest(
        client=client,
        redirect_uri=redirect,
        state=state,
        challenge=challenge,
        resource=resource,
        scopes=scopes,
        dpop_key=key,
        query=raw,
        silent="none" in query.get("prompt", "").split(),
        issuer=issuer,
    )


def _location(redirect: str, parameters: Mapping[str, str], state: str | None, issuer: str) -> str:
    return with_parameters(redirect, {**parameters, **({"state": state} if state is not None else {}), "iss": issuer})
