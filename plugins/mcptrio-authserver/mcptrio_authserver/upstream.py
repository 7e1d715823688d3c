"""Login at an upstream OpenID Connect provider: the redirect there and back, and the renewal of its tokens.

:mod:`.service` and :mod:`.outgoing_requests` run it. The user consents to the client here before the redirect.
Tokens of this server never outlive the provider's access token, and each refresh asks the provider.

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
from .rates import Rate, address_key, count_attempt
from .redirect_uris import with_parameters
from .refusals import Refusal, too_often
from .upstream_tokens import UpstreamTokens

__all__ = [
    "Provider",
    "UpstreamEnded",
    "UpstreamLogin",
    "begin_upstream_login",
    "end_upstream_login",
    "exchange",
    "find_provider",
    "renew",
]

# Time limit in seconds for a login at the provider.
_LOGIN_SECONDS: Final = 600.0
# Logins in progress. When full, the oldest ends.
_MAX_LOGINS: Final = 5000
# Seconds by which the provider's clock may differ.
_SKEW_SECONDS: Final = 60.0
# Lifetime in seconds of an access token whose provider names none.
_DEFAULT_LIFETIME_SECONDS: Final = 300.0
# Longest lifetime in seconds.
_MAX_LIFETIME_SECONDS: Final = 365 * 86_400.0
# Logins that one address may start.
_RATE: Final = Rate(kind="upstream_login", max_attempts=60, seconds=_LOGIN_SECONDS)
# Longest subject in characters (OpenID Connect Core section 2).
_MAX_SUBJECT_CHARS: Final = 255


class UpstreamEnded(Refusal):
    """The provider has ended the user's login."""

    def __init__(self) -> None:
        super().__init__("invalid_grant", "the identity provider has ended this user's login; authorize again")


@frozen(kw_only=True)
class Provider:
    """The provider's endpoints, from its metadata.

    Attributes:
        sends_issuer: True if its responses contain ``iss``.
        auth_post: True if it accepts client secrets only in the body.
    """

    issuer: str
    authorization_endpoint: str
    token_endpoint: str
    jwks_uri: str
    userinfo_endpoint: str | None = None
    sends_issuer: bool = False
    auth_post: bool = False


@frozen(kw_only=True)
class UpstreamLogin:
    """A login at the provider in progress.

    Args:
        browser: The digest of the browser's cookie.
        query: The authorization request to which the user consented.
        scopes: The scopes to which the user consented.
        nonce: The nonce for the ID token.
        verifier: The PKCE verifier.
    """

    browser: str
    query: str = field(repr=False)
    scopes: tuple[str, ...]
    nonce: str = field(repr=False)
    verifier: str = field(repr=False)


def find_provider(settings: UpstreamSettings) -> Flow[Provider]:
    """Return the provider's endpoints.

    Raises:
        Refusal: The provider is unreachable, or its metadata is unusable.
    """
    # OpenID Connect providers publish at the location of OpenID Connect Discovery, which is last in the list for OAuth.
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
    raise _unavailable(f"its metadata cannot be read at {shown(settings.issuer)}")


def begin_upstream_login(
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
    """Start a login at the provider; return the URL for the browser.

    Args:
        browser: The cookie of the browser.
        address: The address of the user.
        query: The client's authorization request.
        scopes: The scopes to which the user consented.
        now: Seconds since 1970.

    Raises:
        Refusal: The address has started too many logins.
    """
    settings = config.upstream
    assert settings is not None
    if (wait := count_attempt(ledger, _RATE, address_key(address), now)) > 0:
        raise too_often(wait)
    state, verifier = new_opaque(), new_opaque()
    login = UpstreamLogin(browser=digest_of(browser), query=query, scopes=scopes, nonce=new_opaque(), verifier=verifier)
    ledger.put("upstream_login", digest_of(state), asdict(login), until=now + _LOGIN_SECONDS, max_records=_MAX_LOGINS)
    challenge = base64.urlsafe_b64encode(sha256(verifier.encode()).digest()).rstrip(b"=").decode()
    parameters = {
        "response_type": "code",
        "client_id": settings.client_id,
        "redirect_uri": config.addresses.url("upstream"),
        "scope": " ".join(settings.scopes),
        "state": state,
        "nonce": login.nonce,
        "code_challenge": challenge,
        "code_challenge_method": "S256",
    }
    return with_parameters(provider.authorization_endpoint, parameters)


def end_upstream_login(ledger: Ledger, *, state: str, browser: str) -> UpstreamLogin:
    """Return the login that a browser returns from, once.

    Raises:
        Refusal: No such login was started in this browser.
    """
    digest = digest_of(state)
    record = ledger.get("upstream_login", digest)
    ledger.delete("upstream_login", digest)
    # An attacker could otherwise send a victim's browser here with the attacker's login (login CSRF), or steal the code
    # of a consent.
    if record is None or record["browser"] != digest_of(browser):
        raise Refusal("invalid_request", "state: expected the state of a login that was started in this browser")
    return UpstreamLogin(**{**record, "scopes": tuple(record["scopes"])})


def exchange(
    config: Config, provider: Provider, login: UpstreamLogin, answer: Mapping[str, str], *, now: float
) -> Flow[UpstreamTokens]:
    """Exchange the provider's code for tokens.

    Args:
        login: The login in progress.
        answer: The query of the redirect.
        now: Seconds since 1970.

    Raises:
        Refusal: The provider refused, or its response is invalid.
    """
    issuer = answer.get("iss")
    # RFC 9207: a response from another provider must not be exchanged here (mix-up attack).
    if (issuer is None and provider.sends_issuer) or issuer not in (None, provider.issuer):
        raise Refusal("access_denied", "iss: the response is not from the identity provider")
    if "code" not in answer:
        raise Refusal("access_denied", "the identity provider did not log the user in")
    form = {
        "grant_type": "authorization_code",
        "code": answer["code"],
        "redirect_uri": config.addresses.url("upstream"),
        "code_verifier": login.verifier,
    }
    document = yield from _token(config, provider, form)
    if document is None:
        raise Refusal("access_denied", "the identity provider rejected its own code")
    keys = yield from fetch_keys(provider.jwks_uri)
    subject = _subject(config, provider, document, keys, nonce=login.nonce, now=now)
    return _tokens(document, subject, None, now)


def renew(config: Config, provider: Provider, tokens: UpstreamTokens, *, now: float) -> Flow[UpstreamTokens]:
    """Ask the provider whether the login is still valid; return current tokens.

    Raises:
        UpstreamEnded: The provider has ended it.
        Refusal: The provider is unreachable.
    """
    if tokens.refresh is not None:
        # Fetch the keys first: once the provider has answered, its old refresh token is invalid, and no step may fail
        # before the new one is stored.
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
            raise _unavailable("it does not respond") from None
        if response.status in (400, 401, 403):
            raise UpstreamEnded
        if response.status != 200:
            raise _unavailable(f"it responds with status {response.status}")
    return tokens


def _token(config: Config, provider: Provider, form: dict[str, str]) -> Flow[Mapping[str, Any] | None]:
    """Return the response of the provider's token endpoint; ``None`` if it rejects the grant."""
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
        raise _unavailable("it does not respond") from None
    if response.status in (400, 401, 403):
        error = _error(response.body)
        if error == "invalid_grant":
            return None
        if error in ("invalid_client", "unauthorized_client"):
            raise _unavailable("this server is no longer one of its clients")
        # A proxy may have sent it, so the status alone does not mean that the grant is invalid.
        raise _unavailable(f"it responds with status {response.status} and not with invalid_grant")
    try:
        document = read_object(response.body, provider.token_endpoint)
    except AuthorizationError:
        document = {}
    if response.status != 200 or not isinstance(document.get("access_token"), str):
        raise _unavailable(f"it responds with status {response.status} and no token")
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
        problem = "iss: expected the issuer of the provider"
    elif settings.client_id not in audiences or claims.get("azp", settings.client_id) != settings.client_id:
        problem = "aud: expected the client_id of this server"
    elif nonce is not None and claims.get("nonce") != nonce:
        problem = "nonce: expected the nonce of the request"
    elif not is_number(expires := claims.get("exp")) or expires <= now - _SKEW_SECONDS:
        problem = "exp: the token has expired"
    subject = claims.get("sub")
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT_CHARS or not subject.isprintable():
        problem = problem or "sub: expected printable characters"
    if problem is not None:
        raise Refusal("access_denied", f"the identity provider's id_token: {problem}")
    return str(subject)


def _tokens(document: Mapping[str, Any], subject: str, refresh: str | None, now: float) -> UpstreamTokens:
    lifetime = document.get("expires_in")
    seconds = (
        min(float(lifetime), _MAX_LIFETIME_SECONDS)
        if is_number(lifetime) and lifetime > 0
        else _DEFAULT_LIFETIME_SECONDS
    )
    new_refresh = document.get("refresh_token")
    return UpstreamTokens(
        subject=subject,
        access=str(document["access_token"]),
        refresh=new_refresh if isinstance(new_refresh, str) and new_refresh else refresh,
        ends=now + seconds,
    )


def _error(body: bytes) -> str:
    try:
        document = orjson.loads(body)
    except orjson.JSONDecodeError:
        return ""
    return str(document.get("error", "")) if isinstance(document, dict) else ""


def _unavailable(problem: str) -> Refusal:
    return Refusal("temporarily_unavailable", f"the identity provider is unavailable: {problem}", status=503)
