"""Grants: the tokens that result from one consent of a user to a client.

Ending a grant removes it and its refresh tokens. This server rejects its access tokens at once; servers that check only
signatures accept them until they expire.

Source: OAuth 2.1 section 4.3.1; RFC 9700 section 4.14.2.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Final, Self

from attrs import asdict, field, frozen

from .config import Config
from .ledger import Ledger
from .opaque import MAX_TOKEN_CHARS, digest_of, new_opaque
from .refusals import Refusal

__all__ = [
    "LEEWAY",
    "TokenGrant",
    "begin_grant",
    "end_grant",
    "end_grants",
    "find_grant",
    "find_refreshed",
    "list_grants",
    "rotate_refresh_token",
]

LEEWAY: Final = 10.0
"""Seconds for which a used refresh token stays valid: the response may have been lost, or two processes of the client
may have sent it at the same time."""
# Used refresh tokens of a grant that are recognised; older ones are rejected without ending the grant.
_MAX_USED_TOKENS: Final = 100


@frozen(kw_only=True)
class TokenGrant:
    """One grant.

    Args:
        id: The id of the grant.
        client_id: The id of the client.
        client_name: The client's name when the user consented.
        host: The target of the redirect, as the user saw it.
        subject: The id of the user.
        scopes: The granted scopes.
        resource: The audience of its tokens.
        auth_time: The time at which the user logged in, in seconds since 1970.
        begun: The time at which the client received its first token, in seconds since 1970.
        ends: The time at which the user has to be asked again, in seconds since 1970.
        dpop_key: The thumbprint of the key to which a public client's refresh tokens are bound.
        upstream: The provider's tokens, encrypted with the refresh token; see :mod:`.upstream_tokens`.
        upstream_ends: The time at which the provider's access token expires, in seconds since 1970.
    """

    id: str
    client_id: str
    client_name: str
    host: str
    subject: str
    scopes: tuple[str, ...]
    resource: str
    auth_time: float
    begun: float
    ends: float
    dpop_key: str | None = None
    upstream: str | None = field(default=None, repr=False)
    upstream_ends: float | None = None

    @classmethod
    def of_record(cls, record: Mapping[str, Any]) -> Self:
        # Records of an older version lack these members.
        before = {"client_name": record["client_id"], "host": "", "begun": record["auth_time"]}
        return cls(**{**before, **record, "scopes": tuple(record["scopes"])})

    def save(self, ledger: Ledger, config: Config) -> None:
        ledger.put("grant", self.id, asdict(self), until=self.ends, group=self.subject, max_records=config.max_grants)


def begin_grant(ledger: Ledger, config: Config, grant: TokenGrant, now: float) -> str:
    """Store a grant and return its first refresh token."""
    grant.save(ledger, config)
    return _issue(ledger, config, grant, now)


def find_grant(ledger: Ledger, id: str) -> TokenGrant | None:
    """Return a grant that has not ended, or ``None``."""
    record = ledger.get("grant", id)
    return TokenGrant.of_record(record) if record is not None else None


def end_grant(ledger: Ledger, id: str) -> bool:
    """End a grant; return whether it existed."""
    ledger.delete_group("refresh", id)
    return ledger.delete("grant", id)


def list_grants(ledger: Ledger, subject: str | None = None) -> Sequence[TokenGrant]:
    """Return the grants of one subject, or of all, the oldest first."""
    return [TokenGrant.of_record(record) for record in ledger.list("grant", subject)]


def end_grants(ledger: Ledger, subject: str | None = None) -> int:
    """End all grants of one subject, or of all, and delete the codes that clients have not redeemed.

    Returns:
        The number of grants.
    """
    ledger.delete_group("code", subject)
    return sum(end_grant(ledger, grant.id) for grant in list_grants(ledger, subject))


def find_refreshed(ledger: Ledger, token: str, client_id: str, now: float) -> TokenGrant:
    """Return the grant of a refresh token. A token that was used longer than :data:`LEEWAY` ago ends the grant.

    Raises:
        Refusal: ``invalid_grant``.
    """
    problem = Refusal("invalid_grant", "refresh_token: expected a valid refresh token of this client")
    record = ledger.get("refresh", digest_of(token[:MAX_TOKEN_CHARS]))
    grant = find_grant(ledger, record["grant"]) if record is not None else None
    if record is None or grant is None or grant.client_id != client_id:
        raise problem
    used = record["used"]
    if used is not None and now - used <= LEEWAY:
        # The provider's tokens are encrypted with the next refresh token, so this one cannot be used again.
        if grant.upstream is None:
            return grant
        raise problem
    if used is not None:
        # One of the two senders of the token has a copy, and the server cannot tell which one is the client.
        end_grant(ledger, grant.id)
        raise Refusal(
            "invalid_grant",
            "refresh_token: it was used before, so all tokens of this grant have ended",
            is_alarming=True,
        )
    return grant


def rotate_refresh_token(ledger: Ledger, config: Config, grant: TokenGrant, token: str, now: float) -> str:
    """Mark a refresh token as used and return the next one."""
    record = ledger.get("refresh", digest_of(token))
    # The leeway begins with the first use.
    used = now if record is None or record["used"] is None else record["used"]
    ledger.put("refresh", digest_of(token), {"grant": grant.id, "used": used}, until=grant.ends, group=grant.id)
    grant.save(ledger, config)
    return _issue(ledger, config, grant, now)


def _issue(ledger: Ledger, config: Config, grant: TokenGrant, now: float) -> str:
    token = new_opaque("mcpar_")
    until = min(grant.ends, now + config.refresh_idle)
    ledger.put(
        "refresh",
        digest_of(token),
        {"grant": grant.id, "used": None},
        until=until,
        group=grant.id,
        max_records=_MAX_USED_TOKENS,
    )
    return token
