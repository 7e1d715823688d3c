"""Access tokens that mean nothing to us: their authorization server is asked what they are.

Used by :class:`mcptrio.auth.ResourceServer`.
The one rule: an answer is used for a stated time at most, and never past the token's end; so a token that was revoked
is refused ``remember`` seconds later.

What is not known is remembered for a shorter time, so that a client that repeats itself costs one question. A token is
asked about once, however many requests bring it at the same time; so many questions are asked at the same time, more
wait, and still more are refused.

Source: RFC 7662 sections 2 and 4; RFC 8707 section 2; MCP 2026-07-28, basic/authorization, "Token Handling".
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, Final
from urllib.parse import urlencode

import trio
from attrs import field, frozen, validators

from mcptrio.abc import Fetch, FetchRequest, FetchResponse, Principal
from mcptrio.auth.claims import check_claims
from mcptrio.auth.discovery import discover_server
from mcptrio.auth.flows import Flow, drive
from mcptrio.auth.jose import BadToken
from mcptrio.auth.metadata import ServerMetadata, read_object
from mcptrio.auth.server.jwt_tokens import ClaimRules, check_kind, scopes_in
from mcptrio.auth.server.static_tokens import PREFIX
from mcptrio.auth.server.verification_cache import VerificationCache, hash_of
from mcptrio.auth.token_requests import ClientIdentity, authenticate_client
from mcptrio.auth.urls import check_url, shown
from mcptrio.errors import AuthorizationError, Overloaded, RequestFailed

__all__ = ["IntrospectedTokens", "IntrospectionBounds"]

_MAX_TOKEN_CHARS: Final = 16 * 1024
_MAX_SUBJECT_CHARS: Final = 1024
_KINDS: Final = frozenset({"bearer", "dpop", "access_token"})
_RETRY_SECONDS: Final = 5.0
"""Seconds until the next question after the issuer could not be reached."""

_log = logging.getLogger("mcptrio.auth")


@frozen(kw_only=True)
class IntrospectionBounds:
    """
    Args:
        remember: seconds for which a token that is good is not asked about again; 0: each request asks.
        remember_bad: the same for one that is not.
        remembered: tokens of either kind.
        asking: questions at the same time.
        waiting: requests that wait for their turn; one more is refused.
        request_timeout: seconds for one answer, from the request that brings the token.
    """

    remember: float = field(default=30.0, validator=[validators.ge(0), validators.le(3600)])
    remember_bad: float = field(default=10.0, validator=[validators.ge(0), validators.le(3600)])
    remembered: int = field(default=10_000, validator=validators.ge(0))
    asking: int = field(default=20, validator=validators.ge(1))
    waiting: int = field(default=200, validator=validators.ge(0))
    request_timeout: float = field(default=10.0, validator=validators.gt(0))


class IntrospectedTokens:
    """The tokens of one authorization server, as a :class:`mcptrio.abc.TokenVerifier`.

    Args:
        issuer: of the tokens.
        client: as which this server authenticates there.
        fetch: sends the requests.
        audience: what tokens must be made out to, any of these. Empty only where the authorization server gives out
            tokens for this server alone, or tells nobody else of them: then what it calls active is good.
        endpoint: where to ask; ``None``: where the issuer's metadata says.
        rules: how its answers are read; algorithms and types mean nothing here.
        bounds: of questions and memory.
        clock: seconds since 1970.
        ticks: seconds that never run backwards.

    Raises:
        ValueError: an address cannot be used.
    """

    def __init__(
        self,
        issuer: str,
        client: ClientIdentity,
        fetch: Fetch,
        *,
        audience: Sequence[str],
        endpoint: str | None = None,
        rules: ClaimRules | None = None,
        bounds: IntrospectionBounds | None = None,
        clock: Callable[[], float] = time.time,
        ticks: Callable[[], float] = time.monotonic,
    ) -> None:
        if isinstance(audience, str):
            raise ValueError("audience: expected a list")
        try:
            self.issuer = check_url(issuer, "issuer", query=False)
            self._endpoint = None if endpoint is None else check_url(endpoint, "introspection_endpoint")
        except AuthorizationError as error:
            raise ValueError(str(error)) from None
        self._client = client
        self._fetch = fetch
        self._audience = frozenset(audience)
        self._rules = rules or ClaimRules()
        self._bounds = bounds or IntrospectionBounds()
        self._clock = clock
        self._ticks = ticks
        self._kept: VerificationCache[Principal | None] = VerificationCache(self._bounds.remembered, ticks, clock)
        self._asking: dict[bytes, trio.Event] = {}
        self._turns = trio.CapacityLimiter(self._bounds.asking)
        self._waiting = 0
        self._not_before = float("-inf")

    def is_own(self, token: str, issuer: str | None) -> bool | None:
        """See :class:`mcptrio.abc.TokenVerifier`: a JWT that names this issuer.

        A JWT of another issuer and a token of ``mcptrio token`` are not its own: the issuer could use them elsewhere.
        Any other text may be.
        """
        if token.startswith(PREFIX):
            return False
        return None if issuer is None else issuer == self.issuer

    async def verify(self, token: str) -> Principal | None:
        """See :class:`mcptrio.abc.TokenVerifier`."""
        if len(token) > _MAX_TOKEN_CHARS:
            return None
        key = hash_of(token)
        while True:
            if (known := self._kept.get(key)) is not None:
                return known[0]
            asked = self._asking.get(key)
            if asked is None:
                break
            await asked.wait()
            if not self._bounds.remember or not self._bounds.remembered:
                break  # nothing is remembered, so each asks for itself
        return await self._ask_once(key, token)

    # Private

    async def _ask_once(self, key: bytes, token: str) -> Principal | None:
        if self._ticks() < self._not_before:
            raise self._unsure()
        if self._waiting >= self._bounds.asking + self._bounds.waiting:
            raise Overloaded("too many tokens are being verified")
        done = trio.Event()
        self._asking.setdefault(key, done)
        self._waiting += 1
        try:
            principal = await self._ask(token)
            self._remember(key, principal)
            return principal
        finally:
            self._waiting -= 1
            if self._asking.get(key) is done:
                del self._asking[key]
            done.set()

    def _remember(self, key: bytes, principal: Principal | None) -> None:
        if principal is None:
            self._kept.put(key, None, seconds=self._bounds.remember_bad)
            return
        expires = principal.claims.get("exp")
        ends = inf if expires is None else expires + self._rules.clock_skew
        seconds = min(self._bounds.remember, ends - self._clock())
        self._kept.put(key, principal, seconds=seconds, ends=ends)

    async def _ask(self, token: str) -> Principal | None:
        problem, delivered = f"no answer within {self._bounds.request_timeout:g} seconds", True
        with trio.move_on_after(self._bounds.request_timeout):
            try:
                async with self._turns:
                    claims = await drive(self._claims_of(token), self._fetch)
                return self._principal(claims)
            except BadToken as error:
                _log.info("a token of %s was refused: %s", shown(self.issuer), error)
                return None
            except AuthorizationError as error:
                # May be the doing of this one token, so others are still asked about.
                _log.error("a token of %s cannot be verified: %s", shown(self.issuer), error)
                raise self._unsure() from None
            except RequestFailed as error:
                problem, delivered = str(error), error.delivered
        if not delivered or self._endpoint is None:
            # Nothing of the token has left, so it is the issuer. Any other failure may be the doing of this one token
            # (a firewall before the issuer that drops it), and says nothing of the next.
            self._not_before = self._ticks() + _RETRY_SECONDS
        _log.error("tokens of %s cannot be verified: %s", shown(self.issuer), problem)
        raise self._unsure()

    def _unsure(self) -> Overloaded:
        return Overloaded("tokens cannot be verified now", retry_after=_RETRY_SECONDS)

    def _claims_of(self, token: str) -> Flow[Mapping[str, Any]]:
        server = ServerMetadata(issuer=self.issuer, introspection_endpoint=self._endpoint)
        if self._endpoint is None:
            server = yield from discover_server(self.issuer)
            if server.introspection_endpoint is None:
                raise AuthorizationError(f"introspection_endpoint: expected to be there, got none from {self.issuer}")
            self._endpoint = server.introspection_endpoint
        where = self._endpoint
        headers, own = authenticate_client(server, self._client, self._clock())
        response: FetchResponse = yield FetchRequest(
            url=where,
            method="POST",
            headers={
                "accept": "application/json",
                "content-type": "application/x-www-form-urlencoded",
                **headers,
            },
            body=urlencode({"token": token, "token_type_hint": "access_token", **own}).encode(),
        )
        if response.status != 200:
            # 401 means that we are not known there, which is nothing the token's sender could mend.
            raise AuthorizationError(f"expected an answer about a token, got HTTP {response.status} @ {shown(where)}")
        return read_object(response.body, where)

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        """
        Raises:
            BadToken: it is not good here.
        """
        if claims.get("active") is not True:
            raise BadToken("it is not active")
        if claims.get("iss", self.issuer) != self.issuer:
            raise BadToken("iss: expected another issuer")
        skew = self._rules.clock_skew
        check_claims(claims, audience=self._audience, now=self._clock(), skew=skew, expires=False)
        check_kind(claims)
        kind = claims.get("token_type", "bearer")
        if not isinstance(kind, str) or kind.lower() not in _KINDS:
            raise BadToken("token_type: expected an access token, got another kind")
        client = next((claims[name] for name in self._rules.client_claims if isinstance(claims.get(name), str)), None)
        # Both may be left out (RFC 7662 section 2.2). Where neither is there, it is the client that acts for itself.
        named = (claims.get("sub"), claims.get("username"), client)
        subject = next((each for each in named if isinstance(each, str)), "")
        if not 0 < len(subject) <= _MAX_SUBJECT_CHARS:
            raise BadToken("sub: expected a text")
        return Principal(
            subject=subject,
            issuer=self.issuer,
            client_id=client,
            scopes=scopes_in(claims, self._rules.scope_claims),
            claims=claims,
        )
