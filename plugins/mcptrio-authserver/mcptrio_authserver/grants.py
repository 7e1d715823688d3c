"""What a user has granted to a client: the family of tokens that come of one consent.

A refresh token is used once. A used one that comes again later than :data:`LEEWAY` is a copy that somebody has taken,
and the server cannot tell which of the two is the client; so the whole family ends.

A family that ended is not there any more; all its tokens are refused then, by this server at once, and by those who
look at signatures only when they expire.

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
"""Seconds in which a used refresh token is good once more: its answer may have been lost on the way to the client, or
two processes of the client may have sent it at the same time."""
_MAX_USED_TOKENS: Final = 100
"""Used refresh tokens of a family that are recognised; older ones are merely refused."""


@frozen(kw_only=True)
class TokenGrant:
    """
    Args:
        client_name: what the client was called when the user consented.
        host: where the code went, as the user was shown it.
        begun: when the client got its first token, in seconds since 1970.
        dpop_key: thumbprint of the key that a public client's refresh tokens are bound to.
        ends: when the user has to be asked again, in seconds since 1970.
        upstream: what the provider gave for the user, sealed with the refresh token; see :mod:`.upstream_tokens`.
        upstream_ends: when that ends.
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
        # Records of an older version have none of these.
        before = {"client_name": record["client_id"], "host": "", "begun": record["auth_time"]}
        return cls(**{**before, **record, "scopes": tuple(record["scopes"])})

    def save(self, ledger: Ledger, config: Config) -> None:
        ledger.put("grant", self.id, asdict(self), until=self.ends, group=self.subject, most=config.max_grants)


def begin_grant(ledger: Ledger, config: Config, grant: TokenGrant, now: float) -> str:
    """Keep a grant.

    Returns:
        Its first refresh token.
    """
    grant.save(ledger, config)
    return _issue(ledger, config, grant, now)


def find_grant(ledger: Ledger, id: str) -> TokenGrant | None:
    """A grant that has not ended."""
    record = ledger.get("grant", id)
    return TokenGrant.of_record(record) if record is not None else None


def end_grant(ledger: Ledger, id: str) -> bool:
    """Whether it had not ended yet."""
    ledger.delete_group("refresh", id)
    return ledger.delete("grant", id)


def list_grants(ledger: Ledger, subject: str | None = None) -> Sequence[TokenGrant]:
    """The grants of one subject, or of all of them, the oldest first."""
    return [TokenGrant.of_record(record) for record in ledger.list("grant", subject)]


def end_grants(ledger: Ledger, subject: str | None = None) -> int:
    """End all grants of one subject, or of all of them, and the codes that a client has yet to redeem.

    Returns:
        The number of grants.
    """
    ledger.delete_group("code", subject)
    return sum(end_grant(ledger, grant.id) for grant in list_grants(ledger, subject))


def find_refreshed(ledger: Ledger, token: str, client_id: str, now: float) -> TokenGrant:
    """The grant that a refresh token is of. A token that was used longer than :data:`LEEWAY` ago ends it.

    Raises:
        Refusal: ``invalid_grant``.
    """
    problem = Refusal("invalid_grant", "refresh_token: expected one that is good, and of this client")
    record = ledger.get("refresh", digest_of(token[:MAX_TOKEN_CHARS]))
    grant = find_grant(ledger, record["grant"]) if record is not None else None
    if record is None or grant is None or grant.client_id != client_id:
        raise problem
    used = record["used"]
    if used is not None and now - used <= LEEWAY:
        # What the provider gave is sealed with the token that came after this one.
        if grant.upstream is None:
            return grant
        raise problem
    if used is not None:
        end_grant(ledger, grant.id)
        raise Refusal(
            "invalid_grant",
            "refresh_token: it was used before, so all tokens of this grant have ended",
            is_alarming=True,
        )
    return grant


def rotate_refresh_token(ledger: Ledger, config: Config, grant: TokenGrant, token: str, now: float) -> str:
    """Take a refresh token that :func:`find_refreshed` found good, and give the next one."""
    before = ledger.get("refresh", digest_of(token))
    # The leeway begins with the first use.
    used = now if before is None or before["used"] is None else before["used"]
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
        most=_MAX_USED_TOKENS,
    )
    return token
