"""Access tokens that an issuer has signed: JWTs, judged without asking anybody but for the issuer's keys.

Used by :class:`mcptrio.auth.ResourceServer`.
The one rule: issuer, audience and algorithms are the operator's, and a token has no say in them.

A token must name this issuer exactly and one of our audiences, must expire, and must be an access token: an ID token or
a refresh token of the same issuer is none. What was found good is remembered for a short while, so that a client that
calls often costs one signature and not hundreds; a key that is withdrawn counts for that while longer.

Source: RFC 9068 (JWT access tokens), RFC 7519 section 4.1, RFC 8725 (best practices), RFC 8707 section 2; MCP
2026-07-28, basic/authorization, "Token Handling".
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from typing import Any, Final

from attrs import field, frozen, validators

from mcptrio.abc import Principal
from mcptrio.auth.claims import EXPIRED, check_claims
from mcptrio.auth.jose import ALGORITHMS, BadToken, ExpiredToken, peek, verify
from mcptrio.auth.server.issuer_keys import IssuerKeys
from mcptrio.auth.server.verification_cache import VerificationCache, hash_of
from mcptrio.errors import AuthorizationError

__all__ = ["ClaimRules", "JWTTokens", "principal_of"]

_MAX_TOKEN_CHARS: Final = 16 * 1024
"""Of an access token; more does not fit into the header of a request anyway."""
_MAX_SUBJECT_CHARS: Final = 1024
_MAX_SCOPES: Final = 1000
_OF_OTHER_KINDS: Final = frozenset({"id", "refresh", "offline", "logout", "id_token", "refresh_token"})
"""What Keycloak (``typ``), Cognito (``token_use``) and others call tokens that are no access tokens."""

_OF_ACCESS: Final = frozenset({"at+jwt", "application/at+jwt", "bearer", "access"})
"""What the header's ``typ``, Keycloak's ``typ`` and Cognito's ``token_use`` say of access tokens."""

_log = logging.getLogger("mcptrio.auth")


def _algorithms(_: object, __: object, value: tuple[str, ...]) -> None:
    wrong = [each for each in value if each not in ALGORITHMS]
    if wrong or not value:
        got = ", ".join(wrong) or "none"
        raise ValueError(f"algorithms: expected some of {', '.join(sorted(ALGORITHMS))}, got {got}")


@frozen(kw_only=True)
class ClaimRules:
    """How a token of an issuer is read.

    Args:
        algorithms: it may be signed with.
        types: of its header's ``typ``, in lower case, without ``application/``; ``""`` for none. RFC 9068 has
            ``at+jwt``; most identity providers say ``JWT``.
        clock_skew: seconds that the issuer's clock may differ from ours.
        scope_claims: where its scopes are: text with spaces, or a list. ``scp`` is that of Entra and Okta; add
            ``roles`` for what Entra grants to applications.
        client_claims: where the client's id is; the first that is there.
        remember: seconds for which a token that was found good is not looked at again; 0 for no time.
        remembered: how many.
    """

    algorithms: tuple[str, ...] = field(default=("RS256", "ES256", "PS256", "EdDSA", "Ed25519"), validator=_algorithms)
    types: tuple[str, ...] = ("at+jwt", "jwt", "")
    clock_skew: float = field(default=60.0, validator=[validators.ge(0), validators.le(600)])
    scope_claims: tuple[str, ...] = ("scope", "scp")
    client_claims: tuple[str, ...] = ("client_id", "azp", "appid", "cid")
    remember: float = field(default=60.0, validator=[validators.ge(0), validators.le(3600)])
    remembered: int = field(default=10_000, validator=validators.ge(0))


class JWTTokens:
    """The tokens of one issuer, as a :class:`mcptrio.abc.TokenVerifier`.

    Args:
        keys: of the issuer.
        audience: what its tokens must be made out to, any of these: the canonical address of the endpoint, or whatever
            the issuer knows this server as.
        clock: seconds since 1970.
        ticks: seconds that never run backwards.

    Raises:
        ValueError: there is no audience.
    """

    def __init__(
        self,
        keys: IssuerKeys,
        *,
        audience: Sequence[str],
        rules: ClaimRules | None = None,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(audience, str) or not audience or not all(audience):
            raise ValueError("audience: expected a list of one at least: a token for anybody is a token for nobody")
        self._keys = keys
        self._audience = frozenset(audience)
        self._rules = rules or ClaimRules()
        self._clock = clock
        self._good: VerificationCache[Principal] = VerificationCache(
            self._rules.remembered if self._rules.remember else 0, ticks, clock
        )

    @property
    def issuer(self) -> str:
        return self._keys.issuer

    def is_own(self, token: str, issuer: str | None) -> bool | None:
        """See :class:`mcptrio.abc.TokenVerifier`: a token that names this issuer."""
        return issuer == self.issuer

    async def verify(self, token: str) -> Principal | None:
        """See :class:`mcptrio.abc.TokenVerifier`."""
        if len(token) > _MAX_TOKEN_CHARS or token.count(".") != 2:
            return None
        key = hash_of(token)
        if (known := self._good.get(key)) is not None:
            return known[0]
        try:
            seen = peek(token)
            if seen.claims.get("iss") != self.issuer:
                return None
            kid = seen.header.get("kid")
            claims = await self._signed(token, kid if isinstance(kid, str) else None)
            _check_nonce(claims, seen.header)
            principal = principal_of(
                claims, issuer=self.issuer, audience=self._audience, rules=self._rules, now=self._clock()
            )
        except BadToken as error:
            _log.info("a token of %s was refused: %s", self.issuer, error)
            if isinstance(error, ExpiredToken):  # found out after the signature was verified
                raise AuthorizationError(EXPIRED) from None
            return None
        ends = claims["exp"] + self._rules.clock_skew
        self._good.put(key, principal, seconds=min(self._rules.remember, ends - self._clock()), ends=ends)
        return principal

    async def _signed(self, token: str, kid: str | None) -> Mapping[str, Any]:
        """What a token says that the issuer has signed.

        Raises:
            BadToken: it has not.
            Overloaded: that cannot be found out now.
        """
        rules = self._rules
        keys = await self._keys.for_token(kid)
        try:
            return verify(token, keys, algorithms=rules.algorithms, typ=rules.types).claims
        except BadToken as error:
            problem = error
        newer = await self._keys.newer_than(keys)
        if newer is keys:
            raise problem
        return verify(token, newer, algorithms=rules.algorithms, typ=rules.types).claims


def principal_of(
    claims: Mapping[str, Any], *, issuer: str, audience: frozenset[str], rules: ClaimRules, now: float
) -> Principal:
    """Whom claims are about that are known to be the issuer's.

    Raises:
        BadToken: they are not meant for here and now, or not those of an access token.
    """
    if claims.get("iss") != issuer:
        raise BadToken("iss: expected another issuer")
    check_claims(claims, audience=audience, now=now, skew=rules.clock_skew)
    check_kind(claims)
    client = next((claims[name] for name in rules.client_claims if isinstance(claims.get(name), str)), None)
    subject = claims.get("sub", client)
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT_CHARS:
        raise BadToken("sub: expected a text")
    return Principal(
        subject=subject, issuer=issuer, client_id=client, scopes=scopes_in(claims, rules.scope_claims), claims=claims
    )


def check_kind(claims: Mapping[str, Any]) -> None:
    """
    Raises:
        BadToken: it is an ID token, a refresh token, or another that is no access token.
    """
    for name in ("typ", "token_use"):
        if isinstance(kind := claims.get(name), str) and kind.lower() in _OF_OTHER_KINDS:
            raise BadToken(f"{name}: expected an access token, got another kind")
    # OpenID Connect Core, section 3.1.3.6: these two belong to ID tokens.
    if "at_hash" in claims or "c_hash" in claims:
        raise BadToken("expected an access token, got an ID token")


def _check_nonce(claims: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """OpenID Connect Core, section 2: an ID token has the nonce of its login. An access token of an older Keycloak
    has it too, and says in another claim that it is one.

    Raises:
        BadToken: it has one, and nothing says that it is an access token.
    """
    said = {str(header.get("typ")), str(claims.get("typ")), str(claims.get("token_use"))}
    if "nonce" in claims and not {each.lower() for each in said} & _OF_ACCESS:
        raise BadToken("nonce: expected an access token, got an ID token")


def scopes_in(claims: Mapping[str, Any], names: Sequence[str]) -> frozenset[str]:
    """The scopes that claims speak of, wherever issuers put them.

    Raises:
        BadToken: more than anybody has.
    """
    found: set[str] = set()
    for name in names:
        value = claims.get(name)
        if isinstance(value, str):
            # Only a space separates scopes: what an issuer granted as one scope must not be read as two.
            found |= {each for each in value.split(" ") if each}
        elif isinstance(value, list):
            found |= {each for each in value if isinstance(each, str)}
    if len(found) > _MAX_SCOPES:
        raise BadToken(f"expected at most {_MAX_SCOPES} scopes, got {len(found)}")
    return frozenset(found)
