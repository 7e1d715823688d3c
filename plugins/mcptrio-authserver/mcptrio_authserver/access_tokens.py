"""Access tokens: JWTs that whoever has our public keys can check.

The one rule: a token is for one audience, short-lived, and names the grant it is of, so that it ends with it wherever
this server is asked.

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

_REVOKED: Final = 100_000


@frozen(kw_only=True)
class AccessToken:
    """What a token says.

    Args:
        grant: the id of the grant it is of; ``None`` where no user granted anything.
        until: when it has to end at the latest, whatever its lifetime.
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
    """The token and what is said of it, as the token endpoint answers."""
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
    """The claims of a token of ours that is good; ``None`` for any other."""
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
    """End one token, and leave its grant."""
    ledger.put("revoked", str(claims["jti"]), {}, until=float(claims["exp"]), most=_REVOKED)
