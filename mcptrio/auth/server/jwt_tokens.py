"""Verification of signed access tokens (JWT) with the issuer's public keys.

:class:`mcptrio.auth.ResourceServer` uses it. The operator configures issuer, audience and algorithms. Valid tokens are
cached for ``remember`` seconds.

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

# Longest access token in characters; a longer one does not fit into a request header.
_MAX_TOKEN_CHARS: Final = 16 * 1024
# Longest subject in characters.
_MAX_SUBJECT_CHARS: Final = 1024
# Bounds the work for one token.
_MAX_SCOPES: Final = 1000
# Values in Keycloak's typ claim, Cognito's token_use and others for tokens that are not access tokens.
_OTHER_TOKEN_TYPES: Final = frozenset({"id", "refresh", "offline", "logout", "id_token", "refresh_token"})

# Values in the typ header, Keycloak's typ claim and Cognito's token_use for access tokens.
_ACCESS_TOKEN_TYPES: Final = frozenset({"at+jwt", "application/at+jwt", "bearer", "access"})

_log = logging.getLogger("mcptrio.auth")


def _algorithms(_: object, __: object, value: tuple[str, ...]) -> None:
    wrong = [each for each in value if each not in ALGORITHMS]
    if wrong or not value:
        got = ", ".join(wrong) or "none"
        raise ValueError(f"algorithms: expected some of {', '.join(sorted(ALGORITHMS))}, got {got}")


@frozen(kw_only=True)
class ClaimRules:
    """How the tokens of an issuer are read.

    Args:
        algorithms: Accepted signature algorithms.
        types: Accepted ``typ`` headers in lower case without ``application/``, ``""`` for none. RFC 9068 requires
            ``at+jwt``; most identity providers write ``JWT``.
        clock_skew: Seconds, up to 600, by which the issuer's clock may differ.
        scope_claims: Claims that contain scopes, as space-separated text or a list. Entra and Okta use ``scp``; add
            ``roles`` for what Entra grants to applications.
        client_claims: Claims that contain the client id; the first one present counts.
        remember: Seconds, up to 3600, for which a valid token is not verified again; 0 verifies it each time. After the
            issuer withdraws a key, cached tokens of that key are accepted for at most this time.
        remembered: The maximum number of tokens in the cache.
    """

    algorithms: tuple[str, ...] = field(default=("RS256", "ES256", "PS256", "EdDSA", "Ed25519"), validator=_algorithms)
    types: tuple[str, ...] = ("at+jwt", "jwt", "")
    clock_skew: float = field(default=60.0, validator=[validators.ge(0), validators.le(600)])
    scope_claims: tuple[str, ...] = ("scope", "scp")
    client_claims: tuple[str, ...] = ("client_id", "azp", "appid", "cid")
    remember: float = field(default=60.0, validator=[validators.ge(0), validators.le(3600)])
    remembered: int = field(default=10_000, validator=validators.ge(0))


class JWTTokens:
    """The signed tokens of one issuer, as a :class:`mcptrio.abc.TokenVerifier`.

    A token must name the issuer and one of the audiences, must expire, and must be an access token; ID tokens and
    refresh tokens of the issuer are rejected.

    Args:
        keys: The keys of the issuer.
        audience: Accepted audiences; a token has to name one of them. An audience is the canonical URL of the endpoint,
            or the name by which the issuer knows this server.
        rules: The rules by which tokens are read.
        clock: Returns seconds since 1970.
        ticks: Returns monotonic seconds.

    Raises:
        ValueError: No audience is given.
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
            raise ValueError(
                "audience: expected a list of at least one; without one, tokens for other servers would be accepted"
            )
        self._keys = keys
        self._audience = frozenset(audience)
        self._rules = rules or ClaimRules()
        self._clock = clock
        # A client that calls often costs one signature check per minute instead of one per request.
        self._cache: VerificationCache[Principal] = VerificationCache(
            self._rules.remembered if self._rules.remember else 0, ticks, clock
        )

    @property
    def issuer(self) -> str:
        return self._keys.issuer

    def recognizes(self, token: str, issuer: str | None) -> bool | None:
        """Return whether the token names this issuer. See :class:`mcptrio.abc.TokenVerifier`."""
        return issuer == self.issuer

    async def verify(self, token: str) -> Principal | None:
        """See :class:`mcptrio.abc.TokenVerifier`."""
        if len(token) > _MAX_TOKEN_CHARS or token.count(".") != 2:
            return None
        key = hash_of(token)
        if (known := self._cache.get(key)) is not None:
            return known[0]
        try:
            seen = peek(token)
            if seen.claims.get("iss") != self.issuer:
                return None
            kid = seen.header.get("kid")
            claims = await self._verified_claims(token, kid if isinstance(kid, str) else None)
            _check_nonce(claims, seen.header)
            principal = principal_of(
                claims, issuer=self.issuer, audience=self._audience, rules=self._rules, now=self._clock()
            )
        except BadToken as error:
            _log.info("token refused: issuer=%s: %s", self.issuer, error)
            # Raised only after the signature was verified, so the token is genuine and its sender may learn that it
            # expired.
            if isinstance(error, ExpiredToken):
                raise AuthorizationError(EXPIRED) from None
            return None
        expires_at = claims["exp"] + self._rules.clock_skew
        self._cache.put(
            key, principal, seconds=min(self._rules.remember, expires_at - self._clock()), expires_at=expires_at
        )
        return principal

    async def _verified_claims(self, token: str, kid: str | None) -> Mapping[str, Any]:
        """Return the claims of a token after verifying its signature.

        Raises:
            BadToken: The issuer did not sign it.
            Overloaded: The keys are not available now.
        """
        rules = self._rules
        keys = await self._keys.for_token(kid)
        try:
            return verify(token, keys, algorithms=rules.algorithms, typ=rules.types).claims
        except BadToken as error:
            problem = error
        # The issuer may have rotated its keys under the same kid, or without kids.
        newer = await self._keys.newer_than(keys)
        if newer is keys:
            raise problem
        return verify(token, newer, algorithms=rules.algorithms, typ=rules.types).claims


def principal_of(
    claims: Mapping[str, Any],
    *,
    issuer: str,
    audience: frozenset[str],
    rules: ClaimRules,
    now: float,
    expires: bool = True,
    subjects: Sequence[str] = ("sub",),
) -> Principal:
    """Return the principal of verified claims.

    Args:
        expires: True if the token must have an ``exp`` claim.
        subjects: The claims that may contain the subject; the first one present counts.

    Raises:
        BadToken: The claims have another issuer or audience, are not valid now, or are not those of an access token.
    """
    if claims.get("iss", issuer) != issuer:
        raise BadToken(f"iss: expected {issuer}, got another issuer")
    check_claims(claims, audience=audience, now=now, skew=rules.clock_skew, expires=expires)
    _check_kind(claims)
    client = next((claims[name] for name in rules.client_claims if isinstance(claims.get(name), str)), None)
    # Without a subject, the client acts for itself (RFC 9068 section 2.2 requires sub; some providers omit it).
    subject = next((claims[name] for name in subjects if claims.get(name) is not None), client)
    if not isinstance(subject, str) or not 0 < len(subject) <= _MAX_SUBJECT_CHARS:
        raise BadToken(f"sub: expected a string of 1 to {_MAX_SUBJECT_CHARS} characters")
    return Principal(
        subject=subject, issuer=issuer, client_id=client, scopes=_scopes_in(claims, rules.scope_claims), claims=claims
    )


def _check_kind(claims: Mapping[str, Any]) -> None:
    """Check that claims are those of an access token.

    Raises:
        BadToken: The token is an ID token, a refresh token, or another kind.
    """
    for name in ("typ", "token_use"):
        if isinstance(kind := claims.get(name), str) and kind.lower() in _OTHER_TOKEN_TYPES:
            raise BadToken(f"{name}: expected an access token, got another kind")
    # OpenID Connect Core section 3.1.3.6: only ID tokens have these two.
    if "at_hash" in claims or "c_hash" in claims:
        raise BadToken("expected an access token, got an ID token")


def _check_nonce(claims: Mapping[str, Any], header: Mapping[str, Any]) -> None:
    """Reject an ID token, recognized by its nonce.

    Raises:
        BadToken: The token has a nonce, and no claim declares it an access token.
    """
    # OpenID Connect Core section 2: an ID token repeats the nonce of its login. Access tokens of older Keycloak
    # releases do too, but declare their kind in another claim.
    kinds = {str(header.get("typ")), str(claims.get("typ")), str(claims.get("token_use"))}
    if "nonce" in claims and not {each.lower() for each in kinds} & _ACCESS_TOKEN_TYPES:
        raise BadToken("nonce: expected an access token, got an ID token")


def _scopes_in(claims: Mapping[str, Any], names: Sequence[str]) -> frozenset[str]:
    """Return the scopes in the named claims.

    Raises:
        BadToken: The token has more than 1000 scopes.
    """
    scopes: set[str] = set()
    for name in names:
        value = claims.get(name)
        if isinstance(value, str):
            # Only a space separates scopes; a split at other white space could turn one granted scope into two.
            scopes |= {each for each in value.split(" ") if each}
        elif isinstance(value, list):
            scopes |= {each for each in value if isinstance(each, str)}
    if len(scopes) > _MAX_SCOPES:
        raise BadToken(f"expected at most {_MAX_SCOPES} scopes, got {len(scopes)}")
    return frozenset(scopes)
