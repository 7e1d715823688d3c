"""Client authentication at the token, introspection and revocation endpoints.

A client must use the method for which it is registered.

Source: OAuth 2.1 section 2.4; RFC 6749 section 2.3.1; RFC 7521 section 4.2; RFC 7523 sections 2.2 and 3; RFC 9700
section 2.5.
"""

from __future__ import annotations

import base64
import binascii
from collections.abc import Mapping
from typing import Final
from urllib.parse import unquote_plus

from attrs import field, frozen

from mcptrio.auth import check_claims
from mcptrio.auth.jose import ALGORITHMS, BadKey, BadToken, KeySet, peek, verify

from .clients import RegisteredClient, find_client
from .config import Config
from .ledger import Ledger
from .opaque import MAX_TOKEN_CHARS, digest_of, is_same
from .published_keys import cached_keys
from .rates import Rate, address_key, count_attempt, forget_attempts
from .refusals import Refusal, too_often

__all__ = ["ASSERTION", "UnverifiedClient", "authenticate_client", "read_credentials"]

ASSERTION: Final = "urn:ietf:params:oauth:client-assertion-type:jwt-bearer"
# Accepted typ headers: a DPoP proof, an access token or another grant's assertion with the same key must not
# authenticate the client.
_TYPES: Final = frozenset({"", "jwt", "client-authentication+jwt"})
# Seconds by which the client's clock may differ.
_SKEW_SECONDS: Final = 60.0
# Longest remaining lifetime of an assertion in seconds; it is remembered for as long.
_MAX_LIFETIME_SECONDS: Final = 600.0
# Assertions of one client that are remembered.
_MAX_ASSERTIONS: Final = 10_000
# A digest for comparison if the client is unknown, so that it takes as long as a wrong secret.
_NO_DIGEST: Final = "0" * 64


@frozen(kw_only=True)
class UnverifiedClient:
    """The client credentials in a request, not yet verified."""

    client_id: str
    method: str
    secret: str | None = field(default=None, repr=False)
    assertion: str | None = field(default=None, repr=False)


def read_credentials(form: Mapping[str, str], authorization: str | None) -> UnverifiedClient | None:
    """Return the client credentials of a request.

    Returns:
        ``None`` if the request names no client.

    Raises:
        Refusal: The credentials are malformed, or use several methods.
    """
    if authorization is not None:
        if "client_secret" in form or "client_assertion" in form:
            raise Refusal("invalid_request", "expected one method of client authentication, got several")
        id, secret = _basic(authorization)
        if form.get("client_id", id) != id:
            raise Refusal("invalid_request", "client_id: expected the id of the client that authenticates")
        return UnverifiedClient(client_id=id, method="client_secret_basic", secret=secret)
    if "client_assertion" in form or "client_assertion_type" in form:
        if "client_secret" in form:
            raise Refusal("invalid_request", "expected one method of client authentication, got several")
        if form.get("client_assertion_type") != ASSERTION:
            raise Refusal("invalid_request", f"client_assertion_type: expected {ASSERTION}")
        assertion = form.get("client_assertion", "")
        try:
            subject = peek(assertion).claims.get("sub")
        except BadToken as error:
            raise _invalid_client(f"client_assertion: {error}") from None
        if not isinstance(subject, str) or form.get("client_id", subject) != subject:
            raise _invalid_client("client_assertion: expected the client's id as its subject")
        return UnverifiedClient(client_id=subject, method="private_key_jwt", assertion=assertion)
    if "client_id" not in form:
        if "client_secret" in form:
            raise Refusal("invalid_request", "client_id: expected it together with client_secret")
        return None
    if "client_secret" in form:
        return UnverifiedClient(client_id=form["client_id"], method="client_secret_post", secret=form["client_secret"])
    return UnverifiedClient(client_id=form["client_id"], method="none")


def authenticate_client(
    ledger: Ledger, config: Config, credentials: UnverifiedClient | None, *, address: str | None, now: float
) -> RegisteredClient:
    """Verify the credentials and return the client.

    Raises:
        Refusal: ``invalid_client`` for all errors, or too many attempts.
    """
    if credentials is None:
        raise _invalid_client("client_id: expected a client, got none")
    client = find_client(ledger, config, credentials.client_id)
    if client is not None and client.is_public and credentials.method == "none":
        return client
    # Limited, because secrets that operators choose may have less than 256 bits.
    rate = Rate(kind="client", max_attempts=config.login_attempts * 10, seconds=config.login_window)
    key = f"{address_key(address)} {digest_of(credentials.client_id)}"
    if (wait := count_attempt(ledger, rate, key, now)) > 0:
        raise too_often(wait)
    if credentials.method == "private_key_jwt":
        _check_assertion(ledger, config, client, credentials.assertion or "", now)
    else:
        _check_secret(client, credentials)
    if client is None:
        raise _invalid_client("unknown client, or client authentication failed")
    forget_attempts(ledger, rate, key)
    return client


def _check_secret(client: RegisteredClient | None, credentials: UnverifiedClient) -> None:
    secret = (credentials.secret or "")[:MAX_TOKEN_CHARS]
    digest = client.secret_digest if client is not None and client.secret_digest is not None else _NO_DIGEST
    is_valid = is_same(secret, digest)
    methods = {client.auth_method} if client is not None else set()
    if client is not None and client.is_trusted and client.secret_digest is not None:
        methods = {"client_secret_basic", "client_secret_post"}
    if not is_valid or credentials.method not in methods:
        raise _invalid_client("unknown client, or client authentication failed")


def _check_assertion(
    ledger: Ledger, config: Config, client: RegisteredClient | None, assertion: str, now: float
) -> None:
    if client is None or client.auth_method != "private_key_jwt":
        raise _invalid_client("unknown client, or client authentication failed")
    try:
        if client.keys is not None:
            keys = KeySet.read(client.keys)
        else:
            keys = cached_keys(ledger, client.jwks_uri or "")
        claims = verify(assertion, keys, algorithms=ALGORITHMS, typ=_TYPES).claims
        # RFC 9700 requires the issuer; most clients use the token endpoint.
        audiences = (config.addresses.issuer, config.addresses.url("token"))
        check_claims(
            claims,
            audience=audiences,
            sole_audience=True,
            now=now,
            skew=_SKEW_SECONDS,
            max_lifetime=_MAX_LIFETIME_SECONDS,
        )
    except (BadToken, BadKey) as error:
        raise _invalid_client(f"client_assertion: {error}") from None
    if claims.get("iss") != client.id or claims.get("sub") != client.id:
        raise _invalid_client("client_assertion: expected the client's id as issuer and subject")
    expires, id = claims["exp"], claims.get("jti")
    if not isinstance(id, str) or not id:
        raise _invalid_client("client_assertion: expected a jti")
    key = digest_of(f"{client.id} {id}")
    # RFC 7523 section 3: an assertion with a used jti is a replay.
    if ledger.get("assertion", key) is not None:
        raise _invalid_client("client_assertion: it was used before")
    if ledger.count("assertion", client.id) >= _MAX_ASSERTIONS:
        raise too_often(_MAX_LIFETIME_SECONDS)
    ledger.put("assertion", key, {}, until=expires + _SKEW_SECONDS, group=client.id)


def _basic(authorization: str) -> tuple[str, str]:
    problem = _invalid_client("Authorization: expected Basic with the client's id and secret")
    scheme, _, rest = authorization.partition(" ")
    if scheme.lower() != "basic" or len(rest) > 4 * MAX_TOKEN_CHARS:
        raise problem
    try:
        text = base64.b64decode(rest.strip(), validate=True).decode()
    except (binascii.Error, ValueError):
        raise problem from None
    id, colon, secret = text.partition(":")
    if not colon or not id:
        raise problem
    # RFC 6749 section 2.3.1: both are form-encoded before the Basic encoding.
    return unquote_plus(id), unquote_plus(secret)


def _invalid_client(description: str) -> Refusal:
    return Refusal("invalid_client", description, status=401, headers={"WWW-Authenticate": 'Basic realm="token"'})
