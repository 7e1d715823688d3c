"""An OpenID Connect provider where users log in: sent there with our own state, and what comes back of it judged.

Driven by :mod:`.authorization_server`.
The one rule: the user has consented to the client here before they are sent there; and what comes back is only taken by
the browser that was sent, once, for the request it consented to.

Our tokens are mapped to the provider's: they never outlive its access token, each refresh asks the provider anew, and
what the provider has ended ends here. Where it cannot be reached nothing is given and nothing ended.

Source: MCP 2025-03-26, basic/authorization, "Third-Party Authorization Flow"; MCP security best practices, "Confused
Deputy Problem"; OpenID Connect Core 1.0 sections 3.1.2.1, 3.1.3.3, 3.1.3.7, 5.3 and 12; RFC 9207.
"""

from __future__ import annotations

import base64
from collections.abc import Mapping
from hashlib import sha256
from typing import Any, Final
from urllib.parse import quote_plus, urlencode

import orjson
from attrs import asdict, field, frozen

from mcptrio.abc import FetchRequest
from mcptrio.auth import Flow, read_object
from mcptrio.auth.jose import ALGORITHMS, BadToken, KeySet, verify
from mcptrio.auth.urls import check_url, server_metadata_urls, shown
from mcptrio.errors import AuthorizationError, RequestFailed

from .claims import is_number
from .config import Config, UpstreamSettings
from .ledger import Ledger
from .opaque import digest_of, new_opaque
from .published_keys import fetch_keys
from .rates import Rate, count_attempt, neighbourhood
from .redirect_uris import with_parameters
from .refusals import Refusal, too_often
from .upstream_tokens import UpstreamTokens

__all__ = ["Errand", "Provider", "UpstreamEnded", "begin_errand", "end_errand", "exchange", "find_provider", "renew"]

_LOGIN_SECONDS: Final = 600.0
_MAX_LOGINS: Final = 5000
_SKEW: Final = 60.0
_SHORT: Final = 300.0
"""Seconds that an access token lives whose provider does not say."""
_LONG: Final = 365 * 86_400.0
_RATE: Final = Rate(kind="errand", most=60, seconds=_LOGIN_SECONDS)
_MAX_SUBJECT_CHARS: Final = 255


class UpstreamEnded(Refusal):
    """The provider has ended what it gave."""

    def __init__(self) -> None:
        super().__init__("invalid_grant", "the identity provider has ended this user's login; authorize anew")


@frozen(kw_only=True)
class Provider:
    """Its endpoints, as its metadata has them."""

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    sends_issuer: bool = False
    auth_post: bool = False
    """Whether it takes secrets only in the body."""


@frozen(kw_only=True)
class Errand:
    """A user on the way to the provider and back.

    Args:
        browser: digest of the cookie of the browser that was sent.
        query: the authorization request they consented to.
    """

    browser: str
    query: str = field(repr=False)
    scopes: tuple[str, ...]
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)


def find_provider(settings: UpstreamSettings) -> Flow[Provider]:
    """
    Raises:
        Refusal: it cannot be reached, or its metadata is not usable.
    """
    for url in server_metadata_urls(settings.issuer)[::-1]:
        try:
            response = yield FetchRequest(url=url, headers={"accept": "application/json"})
            if response.status != 200:
                continue
            document = read_object(response.body, url)
            if document.get("issuer") != settings.issuer:
                continue
            endpoints = {
                name: check_url(str(document.get(name)), name)
                for name in ("authorization_endpoint", "token_endpoint", "jwks_uri")
            }
            userinfo = document.get("userinfo_endpoint")
            methods = document.get("token_endpoint_auth_methods_supported") or ["client_secret_basic"]
            return Provider(
                issuer=settings.issuer,
                userinfo_endpoint=check_url(str(userinfo), "userinfo_endpoint") if userinfo else None,
                sends_issuer=document.get("authorization_response_iss_parameter_supported") is True,
                auth_post="client_secret_basic" not in methods and "client_secret_post" in methods,
                **endpoints,
            )
        except (RequestFailed, AuthorizationError):
            continue
    raise _away(f"its metadata cannot be read @ {shown(settings.issuer)}")


def begin_errand(
    ledger: Ledger,
    config: Config,
    provider: Provider,
    *,
    browser: str,
    address: str | None,
    query: str,
    scopes: tuple[str, ...],
    now: float,
) -> str:
    """Where to send the browser.

    Args:
        browser: its cookie.
        scopes: what the user consented to.

    Raises:
        Refusal: too many were sent from there.
    """
    settings = config.upstream
    assert settings is not None
    if (wait := count_attempt(ledger, _RATE, neighbourhood(address), now)) > 0:
        raise too_often(wait)
    state, verifier = new_opaque(), new_opaque()
    errand = Errand(browser=digest_of(browser), query=query, scopes=scopes, nonce=new_opaque(), verifier=verifier)
    ledger.put("errand", digest_of(state), asdict(errand), until=now + _LOGIN_SECONDS, most=_MAX_LOGINS)
    challenge = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    parameters = {
        "response_type": "code",
        "client_id": settings.client_id,
        "redirect_uri": config.addresses.url("upstream"),
        "scope": " ".join(settings.scopes),
        "state": state,
        "nonce": errand.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return with_parameters(provider.authorization_endpoint, parameters)


def end_errand(ledger: Ledger, *, state: str, browser: str) -> Errand:
    """The errand that a browser comes back from; once.

    Raises:
        Refusal: it was not sent on one.
    """
    digest = digest_of(state)
    record = ledger.get("errand", digest)
    ledger.delete("errand", digest)
    if record is None or record["browser"] != digest_of(browser):
        raise Refusal("invalid_request", "state: expected the one of a login that was begun in this browser")
    return Errand(**{**record, "scopes": tuple(record["scopes"])})


def exchange(
    config: Config, provider: Provider, errand: Errand, answer: Mapping[str, str], *, now: float
) -> Flow[UpstreamTokens]:
    """What the provider gives for a code.

    Args:
        answer: the query the browser came back with.

    Raises:
        Refusal: nothing, or nothing that can be believed.
    """
    given = answer.get("iss")
    if (given is None and provider.sends_issuer) or given not in (None, provider.issuer):
        raise Refusal("access_denied", "the answer is not the identity provider's (iss)")
    if "code" not in answer:
        raise Refusal("access_denied", "the identity provider did not log the user in")
    form = {
        "grant_type": "authorization_code",
        "code": answer["code"],
        "redirect_uri": config.addresses.url("upstream"),
        "code_verifier": errand.verifier,
    }
    document = yield from _token(config, provider, form)
    if document is None:
        raise Refusal("access_denied", "the identity provider did not take its own code")
    keys = yield from fetch_keys(provider.jwks_uri)
    subject = _subject(config, provider, document, keys, nonce=errand.nonce, now=now)
    return _tokens(document, subject, None, now)


def renew(config: Config, provider: Provider, tokens: UpstreamTokens, *, now: float) -> Flow[UpstreamTokens]:
    """The tokens, which the provider was asked about now.

    Raises:
        UpstreamEnded: it has ended them.
        Refusal: it cannot be asked.
    """
    if tokens.refresh is not None:
        # First: once it has answered it takes its old refresh token no more, and nothing may fail before the new one is
        # kept.
        keys = yield from fetch_keys(provider.jwks_uri)
        form = {"grant_type": "refresh_token", "refresh_token": tokens.refresh}
        document = yield from _token(config, provider, form)
        if document is None:
            raise UpstreamEnded
        if "id_token" in document and _subject(config, provider, document, keys, nonce=None, now=now) != tokens.subject:
            raise UpstreamEnded
        return _tokens(document, tokens.subject, tokens.refresh, now)
    if now >= tokens.ends:
        raise UpstreamEnded
    if provider.userinfo_endpoint is not None:
        headers = {"accept": "application/json", "authorization": f"Bearer {tokens.access}"}
        try:
            response = yield FetchRequest(url=provider.userinfo_endpoint, headers=headers)
        except RequestFailed:
            raise _away("it does not answer") from None
        if response.status in (400, 401, 403):
            raise UpstreamEnded
        if response.status != 200:
            raise _away(f"it answers with status {response.status}")
    return tokens


def _token(config: Config, provider: Provider, form: dict[str, str]) -> Flow[Mapping[str, Any] | None]:
    """What its token endpoint gives; ``None`` where it refuses the grant."""
    settings = config.upstream
    assert settings is not None
    headers = {"accept": "application/json", "content-type": "application/x-www-form-urlencoded"}
    secret = settings.client_secret.reveal() if settings.client_secret is not None else None
    if secret is None:
        form = {**form, "client_id": settings.client_id}
    elif provider.auth_post:
        form = {**form, "client_id": settings.client_id, "client_secret": secret}
    else:
        pair = f"{quote_plus(settings.client_id)}:{quote_plus(secret)}"
        headers["authorization"] = f"Basic {base64.b64encode(pair.encode()).decode()}"
    try:
        response = yield FetchRequest(
            url=provider.token_endpoint, method="POST", headers=headers, body=urlencode(form).encode()
        )
    except RequestFailed:
        raise _away("it does not answer") from None
    if response.status in (400, 401, 403):
        error = _error(response.body)
        if error == "invalid_grant":
            return None
        if error in ("invalid_client", "unauthorized_client"):
            raise _away("it does not know this server any more")
        # Such as what stands between says for it: it says nothing of the grant.
        raise _away(f"it answers with status {response.status} and not with invalid_grant")
    try:
        document = read_object(response.body, provider.token_endpoint)
    except AuthorizationError:
        document = {}
    if response.status != 200 or not isinstance(document.get("access_token"), str):
        raise _away(f"it answers with status {response.status} and no token")
    return document


def _subject(
    config: Config,
    provider: Provider,
    document: Mapping[str, Any],
    keys: KeySet,
    *,
    nonce: str | None,
    now: float,
) -> str:
    settings = config.upstream
    assert settings is not None
    try:
        claims = verify(str(document.get("id_token", "")), keys, algorithms=ALGORITHMS).claims
    except BadToken as error:
        raise Refusal("access_denied", f"the identity provider's id_token: {error}") from None
    audience = claims.get("aud")
    audiences = audience if isinstance(audience, list) else [audience]
    problem: str | None = None
    if claims.get("iss") != provider.issuer:
        problem = "iss: expected the provider's"
    elif settings.client_id not in audiences or claims.get("azp", settings.client_id) != settings.client_id:
        problem = "aud: expected this server"
    elif nonce is not None and claims.get("nonce") != nonce:
        problem = "nonce: expected the one that was sent"
    elif not is_number(expires := claims.get("exp")) or expires <= now - _SKEW:
        problem = "exp: it has expired"
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT_CHARS or not subject.isprintable():
        problem = problem or "sub: expected a printable text"
    if problem is not None:
        raise Refusal("access_denied", f"the identity provider's id_token: {problem}")
    return str(subject)


def _tokens(document: Mapping[str, Any], subject: str, refresh: str | None, now: float) -> UpstreamTokens:
    lasts = document.get("expires_in")
    seconds = min(float(lasts), _LONG) if is_number(lasts) and lasts > 0 else _SHORT
    new = document.get("refresh_token")
    return UpstreamTokens(
        subject=subject,
        access=str(document["access_token"]),
        refresh=new if isinstance(new, str) and new else refresh,
        ends=now + seconds,
    )


def _error(body: bytes) -> str:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    return str(document.get("error", "")) if isinstance(document, dict) else ""


def _away(problem: str) -> Refusal:
    return Refusal("temporarily_unavailable", f"the identity provider cannot be asked: {problem}", status=503)
