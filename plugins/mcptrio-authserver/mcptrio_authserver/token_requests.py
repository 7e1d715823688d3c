"""The token endpoint, for all grants.

:mod:`.service` calls it in two transactions, between which it may send a request to the upstream provider.

Source: OAuth 2.1 sections 3.2, 4.1.3, 4.2 and 4.3; RFC 6749 section 5; RFC 9449 section 5; RFC 7523 section 2.1.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final

from attrs import evolve, field, frozen

from mcptrio.auth.jose import KeySet

from .access_tokens import AccessToken, issue_access_token
from .assertions import accept_assertion
from .client_authentication import UnverifiedClient, authenticate_client
from .clients import RegisteredClient, find_client
from .codes import AuthorizationCode, redeem_code
from .config import Config
from .grants import TokenGrant, begin_grant, end_grant, find_refreshed, rotate_refresh_token
from .ledger import Ledger
from .opaque import digest_of
from .redirect_uris import host_of
from .refusals import Refusal
from .registration import note_use
from .resources import resource_of
from .scopes import granted_scopes, narrowed_scopes
from .token_proofs import current_nonce, dpop_key_of
from .upstream_tokens import UpstreamTokens, open_tokens, seal_tokens
from .users import User

__all__ = [
    "BEARER",
    "TokenRequest",
    "TokenRequester",
    "authenticate_sender",
    "end_renewal",
    "issue_tokens",
    "upstream_of",
]

BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"
# Seconds after which another request may ask the provider, if the process of the first one has ended.
_RENEWAL_SECONDS: Final = 60.0
_GRANTS: Final = ("authorization_code", "refresh_token", "client_credentials", BEARER)


@frozen(kw_only=True)
class TokenRequest:
    """A request to the token endpoint.

    Args:
        form: The parameters of the body.
        credentials: The client credentials, not yet verified.
        proofs: The values of all ``DPoP`` headers.
        address: The address of the client.
        upstream: The provider's current tokens for the user of a refresh token.
        users: The current users, if they log in here.
    """

    form: Mapping[str, str] = field(repr=False)
    credentials: UnverifiedClient | None
    proofs: Sequence[str] = field(default=(), repr=False)
    address: str | None = None
    upstream: UpstreamTokens | None = field(default=None, repr=False)
    users: Mapping[str, User] | None = field(default=None, repr=False)


@frozen(kw_only=True)
class TokenRequester:
    """The authenticated sender of a token request.

    Args:
        client: The client; ``None`` for a workload without one.
        dpop_key: The thumbprint of the key that the request proves, if any.
    """

    client: RegisteredClient | None
    dpop_key: str | None


def authenticate_sender(ledger: Ledger, config: Config, request: TokenRequest, now: float) -> TokenRequester:
    """Authenticate the sender of a token request, and check that it may use the grant.

    Raises:
        Refusal: As for :func:`issue_tokens`.
    """
    grant = request.form.get("grant_type", "")
    if grant not in _GRANTS:
        error = "unsupported_grant_type" if grant else "invalid_request"
        raise Refusal(error, f"grant_type: expected one of {', '.join(_GRANTS)}")
    client: RegisteredClient | None = None
    if grant != BEARER or request.credentials is not None:
        client = authenticate_client(ledger, config, request.credentials, address=request.address, now=now)
    if client is not None and grant not in client.grant_types and grant != BEARER:
        raise Refusal("unauthorized_client", f"the client is not registered for {grant}")
    return TokenRequester(client=client, dpop_key=dpop_key_of(ledger, config, client, request.proofs, now))


def upstream_of(ledger: Ledger, requester: TokenRequester, request: TokenRequest, now: float) -> UpstreamTokens | None:
    """Return the provider's tokens for the user of a refresh token; ``None`` without a provider.

    If it returns tokens, no other request can use the refresh token until :func:`issue_tokens` or :func:`end_renewal`.

    Raises:
        Refusal: As for :func:`issue_tokens`.
    """
    token = request.form.get("refresh_token")
    if request.form.get("grant_type") != "refresh_token" or token is None or requester.client is None:
        return None
    grant = find_refreshed(ledger, token, requester.client.id, now)
    if grant.upstream is None:
        return None
    # If two requests send the provider's refresh token, the provider treats the token as stolen and ends the login.
    if ledger.get("renewing", digest_of(token)) is not None:
        description = "refresh_token: another request is using it"
        raise Refusal("temporarily_unavailable", description, status=503, headers={"Retry-After": "2"})
    tokens = open_tokens(grant.upstream, token)
    ledger.put("renewing", digest_of(token), {}, until=now + _RENEWAL_SECONDS, group=grant.id)
    return tokens


def end_renewal(ledger: Ledger, request: TokenRequest) -> None:
    """Allow other requests to use a refresh token again, after a failed request to the provider."""
    ledger.delete("renewing", digest_of(request.form.get("refresh_token", "")))


def issue_tokens(
    ledger: Ledger, config: Config, requester: TokenRequester, request: TokenRequest, keys: KeySet, now: float
) -> tuple[dict[str, Any], dict[str, str]]:
    """Issue tokens.

    Args:
        requester: The authenticated sender.
        keys: The keys of the issuer of an assertion.
        now: Seconds since 1970.

    Returns:
        Body and headers of the response.

    Raises:
        Refusal: The request is refused.
    """
    form, client = request.form, requester.client
    kind = form["grant_type"]
    # The operator may have removed the client during the request to the upstream provider.
    if client is not None and client.origin == "registration" and find_client(ledger, config, client.id) is None:
        raise Refusal("invalid_client", "the client was removed during the request", status=401)
    if kind == BEARER:
        accepted = accept_assertion(ledger, config, client, keys, form, now=now)
        token = AccessToken(
            subject=accepted.subject,
            client_id=accepted.client_id,
            resource=accepted.resource,
            scopes=accepted.scopes,
            dpop_key=requester.dpop_key,
        )
        body = issue_access_token(ledger, config, token, now)
    elif client is None:
        raise Refusal("invalid_client", "client_id: expected a client, got none", status=401)
    elif kind == "client_credentials":
        token = AccessToken(
            # RFC 9068 section 5: a client's subject must not collide with a user's; user names contain no colon.
            subject=f"client:{client.id}",
            client_id=client.id,
            resource=resource_of(config, form.get("resource")),
            scopes=granted_scopes(config, form.get("scope"), client.scopes),
            dpop_key=requester.dpop_key,
        )
        body = issue_access_token(ledger, config, token, now)
    elif kind == "refresh_token":
        body = _refresh(ledger, config, client, requester.dpop_key, request, now)
    else:
        code = redeem_code(ledger, config, client, form, dpop_key=requester.dpop_key, now=now)
        body = _redeem(ledger, config, client, requester.dpop_key, code, form["code"], now)
    headers = {"DPoP-Nonce": current_nonce(ledger, now)} if requester.dpop_key and config.dpop_nonces else {}
    return body, headers


def _redeem(
    ledger: Ledger,
    config: Config,
    client: RegisteredClient,
    dpop_key: str | None,
    code: AuthorizationCode,
    code_text: str,
    now: float,
) -> dict[str, Any]:
    refreshes = "refresh_token" in client.grant_types
    grant_end = now + (config.refresh_lifetime if refreshes else config.access_lifetime)
    upstream = open_tokens(code.upstream, code_text) if code.upstream is not None else None
    # Without a refresh token, the provider can confirm the login only while its access token is valid.
    if upstream is not None and upstream.refresh is None:
        grant_end = min(grant_end, upstream.ends)
    grant = TokenGrant(
        id=code.grant,
        client_id=client.id,
        client_name=client.name,
        host=host_of(code.redirect_uri),
        subject=code.subject,
        scopes=code.scopes,
        resource=code.resource,
        auth_time=code.auth_time,
        begun=now,
        ends=grant_end,
        # RFC 9449 section 5: the refresh tokens of a client that authenticates are bound to the client already.
        dpop_key=dpop_key if client.is_public else None,
        upstream_ends=upstream.ends if upstream is not None else None,
    )
    refresh: str | None = None
    if refreshes:
        refresh = begin_grant(ledger, config, grant, now)
        if upstream is not None:
            evolve(grant, upstream=seal_tokens(upstream, refresh)).save(ledger, config)
    else:
        grant.save(ledger, config)
    note_use(ledger, config, client, now)
    body = issue_access_token(ledger, config, _access_token(grant, grant.scopes, dpop_key), now)
    return {**body, **({"refresh_token": refresh} if refresh is not None else {})}


def _refresh(
    ledger: Ledger, config: Config, client: RegisteredClient, dpop_key: str | None, request: TokenRequest, now: float
) -> dict[str, Any]:
    form = request.form
    token = form.get("refresh_token", "")
    if not token:
        raise Refusal("invalid_request", "refresh_token: expected a value, got none")
    end_renewal(ledger, request)
    grant = find_refreshed(ledger, token, client.id, now)
    if request.upstream is not None:
        # Stored even if the request is refused below: the provider has invalidated its old refresh token.
        sealed = seal_tokens(request.upstream, token)
        grant = evolve(grant, upstream=sealed, upstream_ends=request.upstream.ends)
        grant.save(ledger, config)
    if grant.dpop_key is not None and dpop_key != grant.dpop_key:
        raise Refusal("invalid_dpop_proof", "expected a DPoP proof with the key to which the refresh token is bound")
    if "resource" in form and resource_of(config, form["resource"]) != grant.resource:
        raise Refusal("invalid_target", "resource: expected the resource of the grant")
    user = request.users.get(grant.subject) if request.users is not None else None
    if (grant.upstream is None and user is None) or (grant.upstream is not None and request.upstream is None):
        # The user was removed, or the grant was issued when the settings named another way to log in.
        end_grant(ledger, grant.id)
        raise Refusal("invalid_grant", "the user of this grant no longer exists")
    offered = [
        scope
        for scope in grant.scopes
        if scope in config.scopes and (user is None or user.scopes is None or scope in user.scopes)
    ]
    scopes = narrowed_scopes(form.get("scope"), offered)
    refresh = rotate_refresh_token(ledger, config, grant, token, now)
    if request.upstream is not None:
        evolve(grant, upstream=seal_tokens(request.upstream, refresh)).save(ledger, config)
    note_use(ledger, config, client, now)
    body = issue_access_token(ledger, config, _access_token(grant, scopes, dpop_key), now)
    return {**body, "refresh_token": refresh}


def _access_token(grant: TokenGrant, scopes: tuple[str, ...], dpop_key: str | None) -> AccessToken:
    end_times = [grant.ends] if grant.upstream_ends is None else [grant.ends, grant.upstream_ends]
    return AccessToken(
        subject=grant.subject,
        client_id=grant.client_id,
        resource=grant.resource,
        scopes=scopes,
        grant=grant.id,
        dpop_key=dpop_key,
        auth_time=grant.auth_time,
        until=min(end_times),
    )
