"""Token introspection and revocation.

A client may introspect and revoke its own tokens; clients with ``introspect`` may introspect all tokens. The response
about any other token is the same as for an unknown one.

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
    """Return the introspection response for a token.

    Raises:
        Refusal: The client may not introspect tokens, or the request names no token.
    """
    # RFC 7662 section 2.1 requires authentication: otherwise any program could test stolen tokens.
    if client.is_public:
        raise Refusal("invalid_client", "expected a client that authenticates", status=401)
    token = _token(form)
    claims = find_access_token(ledger, config, token, now)
    if claims is not None and (client.introspect or claims.get("client_id") == client.id):
        kind = "DPoP" if "cnf" in claims else "Bearer"
        return {"active": True, "token_type": kind, **claims}
    record = ledger.get("refresh", digest_of(token[:MAX_TOKEN_CHARS]))
    grant = find_grant(ledger, record["grant"]) if record is not None and not record["used"] else None
    # Only its client needs to know about a refresh token; resource servers never receive one.
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
    """Revoke a token of the client. Revoking a refresh token ends the whole grant.

    Raises:
        Refusal: The request names no token.
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
        raise Refusal("invalid_request", "token: expected a value, got none")
    return token
