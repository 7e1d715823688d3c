"""Access tokens: signed JWTs that resource servers verify with the published keys.

A token has one audience and a short lifetime, and its id contains that of its grant.

Source: RFC 9068 sections 2 and 3; RFC 9449 section 6.1; RFC 8707.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from attrs import frozen

from mcptrio.auth.jose import BadToken, sign, verify

from .config import Config
from .grants import find_grant
from .ledger import Ledger
from .opaque import new_id
from .signing_keys import signing_keys

__all__ = ["AccessToken", "find_access_token", "issue_access_token", "revoke_access_token"]

# Revoked tokens that are remembered until they expire.
_MAX_REVOKED: Final = 100_000


@frozen(kw_only=True)
class AccessToken:
    """The contents of an access token.

    Args:
        subject: The user or client.
        client_id: The id of the client.
        resource: The audience, as a URL.
        scopes: The granted scopes.
        grant: The id of the grant; ``None`` if no user granted it.
        dpop_key: The thumbprint of the key to which it is bound, if any.
        auth_time: The time at which the user logged in, in seconds since 1970.
        until: The latest expiry, in seconds since 1970.
    """

    subject: str
    client_id: str
    resource: str
    scopes: tuple[str, ...]
    grant: str | None = None
    dpop_key: str | None = None
    auth_time: float | None = None
    until: float | None = None


def issue_access_token(ledger: Ledger, config: Config, token: AccessToken, now: float) -> dict[str, Any]:
    """Return a new token in the form of a token response."""
    lifetime = config.access_lifetime
    if token.until is not None:
        lifetime = max(1, min(lifetime, int(token.until - now)))
    jti = new_id()
    claims: dict[str, Any] = {
        "iss": config.issuer,
        "sub": token.subject,
        "aud": token.resource,
        "client_id": token.client_id,
        "iat": int(now),
        "exp": int(now) + lifetime,
        # The grant in the id lets introspection reject the token once the grant has ended.
        "jti": f"{token.grant}.{jti}" if token.grant is not None else jti,
    }
    if token.scopes:
        claims["scope"] = " ".join(token.scopes)
    if token.auth_time is not None:
        claims["auth_time"] = int(token.auth_time)
    if token.dpop_key is not None:
        claims["cnf"] = {"jkt": token.dpop_key}
    return {
        "access_token": sign(claims, signing_keys(ledger, config, now).signing, typ="at+jwt"),
        "token_type": "DPoP" if token.dpop_key is not None else "Bearer",
        "expires_in": lifetime,
        "scope": " ".join(token.scopes),
    }


def find_access_token(ledger: Ledger, config: Config, token: str, now: float) -> Mapping[str, Any] | None:
    """Return the claims of a valid token of this server; ``None`` for others."""
    try:
        keys = signing_keys(ledger, config, now).published
        claims = verify(token, keys, algorithms=("ES256",), typ=frozenset({"at+jwt"})).claims
    except BadToken:
        return None
    id = str(claims.get("jti", ""))
    if claims.get("iss") != config.issuer or not claims.get("exp", 0) > now or ledger.get("revoked", id) is not None:
        return None
    grant, dot, _ = id.rpartition(".")
    if dot and find_grant(ledger, grant) is None:
        return None
    return claims


def revoke_access_token(ledger: Ledger, claims: Mapping[str, Any]) -> None:
    """Revoke one token; its grant stays."""
    ledger.put("revoked", str(claims["jti"]), {}, until=float(claims["exp"]), max_records=_MAX_REVOKED)
