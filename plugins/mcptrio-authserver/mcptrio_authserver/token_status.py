"""What others may know and do about a token that they hold: whether it is good, and that it should end.

The one rule: who asks authenticates; a client hears of its own tokens, and only those the operator names for that hear
of anybody's. Of all others the answer is the same as of a token that never was.

Source: RFC 7662 sections 2.1, 2.2 and 4; RFC 7009 sections 2.1 and 2.2; RFC 9449 section 6.2.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from .access_tokens import find_access_token, revoke_access_token
from .clients import RegisteredClient
from .config import Config
from .grants import end_grant, find_grant
from .ledger import Ledger
from .opaque import MAX_TOKEN_CHARS, digest_of
from .refusals import Refusal

__all__ = ["introspect", "revoke"]


def introspect(
    ledger: Ledger, config: Config, client: RegisteredClient, form: Mapping[str, str], now: float
) -> dict[str, Any]:
    """What is said of a token.

    Raises:
        Refusal: the client may not ask, or does not say of what.
    """
    if client.is_public:
        raise Refusal("invalid_client", "expected a client that authenticates", status=401)
    token = _token(form)
    claims = find_access_token(ledger, config, token, now)
    if claims is not None and (client.introspect or claims.get("client_id") == client.id):
        kind = "DPoP" if "cnf" in claims else "Bearer"
        return {"active": True, "token_type": kind, **claims}
    record = ledger.get("refresh", digest_of(token[:MAX_TOKEN_CHARS]))
    grant = find_grant(ledger, record["grant"]) if record is not None and not record["used"] else None
    # A refresh token is for nobody but its client; a resource server has no business with one.
    if grant is None or grant.client_id != client.id:
        return {"active": False}
    return {
        "active": True,
        "iss": config.issuer,
        "sub": grant.subject,
        "client_id": grant.client_id,
        "scope": " ".join(grant.scopes),
        "exp": int(grant.ends),
    }


def revoke(ledger: Ledger, config: Config, client: RegisteredClient, form: Mapping[str, str], now: float) -> None:
    """End a token of the client's, if it is one. Of a refresh token the whole grant ends.

    Raises:
        Refusal: it does not say which.
    """
    token = _token(form)
    record = ledger.get("refresh", digest_of(token[:MAX_TOKEN_CHARS]))
    grant = find_grant(ledger, record["grant"]) if record is not None else None
    if grant is not None and grant.client_id == client.id:
        end_grant(ledger, grant.id)
        return
    claims = find_access_token(ledger, config, token, now)
    if claims is not None and claims.get("client_id") == client.id:
        revoke_access_token(ledger, claims)


def _token(form: Mapping[str, str]) -> str:
    token = form.get("token", "")
    if not token:
        raise Refusal("invalid_request", "token: expected one")
    return token
