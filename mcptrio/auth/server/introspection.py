"""Verification of opaque access tokens by token introspection at their authorization server.

:class:`mcptrio.auth.ResourceServer` uses it. Results are cached, valid ones never beyond the expiry of the token, so a
revoked token is accepted for at most ``remember`` seconds.

Source: RFC 7662 sections 2 and 4; RFC 8707 section 2; MCP 2026-07-28, basic/authorization, "Token Handling".
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Mapping, Sequence
from math import inf
from typing import Any, Final

import trio
from attrs import field, frozen, validators

from mcptrio.abc import Fetch, FetchResponse, Principal
from mcptrio.auth.discovery import discover_server
from mcptrio.auth.flows import Flow, drive
from mcptrio.auth.jose import BadToken
from mcptrio.auth.metadata import ServerMetadata, read_object
from mcptrio.auth.server.jwt_tokens import ClaimRules, principal_of
from mcptrio.auth.server.static_tokens import PREFIX
from mcptrio.auth.server.verification_cache import VerificationCache, hash_of
from mcptrio.auth.token_requests import ClientIdentity, form_request
from mcptrio.auth.urls import check_url, shown
from mcptrio.errors import AuthorizationError, Overloaded, RequestFailed

__all__ = ["IntrospectedTokens", "IntrospectionBounds"]

# Longest token in characters; a longer one is not sent to the issuer.
_MAX_TOKEN_CHARS: Final = 16 * 1024
# Values of token_type that mean an access token (RFC 7662 section 2.2 takes them from RFC 6749 section 5.1).
_ACCESS_TOKEN_TYPES: Final = frozenset({"bearer", "dpop", "access_token"})
# Seconds until the next request after the issuer was unreachable.
_RETRY_SECONDS: Final = 5.0

_log = logging.getLogger("mcptrio.auth")


@frozen(kw_only=True)
class IntrospectionBounds:
    """The limits of token introspection.

    Args:
        remember: Seconds for which a valid token is cached; 0 sends a request each time.
        remember_bad: Seconds for which an invalid token is cached, so a client that repeats itself causes one request.
        remembered: The maximum number of tokens in the cache.
        asking: The maximum number of concurrent introspection requests.
        waiting: The maximum number of callers that wait for a request to end; further ones are rejected.
        request_timeout: Seconds for one result, counted from the call.
    """

    remember: float = field(default=30.0, validator=[validators.ge(0), validators.le(3600)])
    remember_bad: float = field(default=10.0, validator=[validators.ge(0), validators.le(3600)])
    remembered: int = field(default=10_000, validator=validators.ge(0))
    asking: int = field(default=20, validator=validators.ge(1))
    waiting: int = field(default=200, validator=validators.ge(0))
    request_timeout: float = field(default=10.0, validator=validators.gt(0))


class IntrospectedTokens:
    """The opaque tokens of one authorization server, as a :class:`mcptrio.abc.TokenVerifier`.

    Args:
        issuer: The issuer of the tokens.
        client: The credentials of this server at the issuer.
        fetch: Sends the requests.
        audience: Accepted audiences; a token has to name one of them. Leave it empty only if the issuer issues tokens
            for this server alone, or answers only about those: then every active token is accepted.
        endpoint: The introspection endpoint; ``None`` takes it from the issuer's metadata.
        rules: The rules by which responses are read; algorithms and types have no effect here.
        bounds: Limits of requests and memory.
        clock: Returns seconds since 1970.
        ticks: Returns monotonic seconds.

    Raises:
        ValueError: A URL is not allowed, or ``audience`` is a string.
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
            raise ValueError("audience: expected a list, got a string")
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
        self._cache: VerificationCache[Principal | None] = VerificationCache(self._bounds.remembered, ticks, clock)
        self._in_flight: dict[bytes, trio.Event] = {}
        self._limiter = trio.CapacityLimiter(self._bounds.asking)
        self._waiting = 0
        self._retry_at = float("-inf")

    def recognizes(self, token: str, issuer: str | None) -> bool | None:
        """Return whether the token is a JWT of this issuer. See :class:`mcptrio.abc.TokenVerifier`.

        ``None`` for other texts that may be its tokens; False for JWTs of other issuers and for tokens of ``mcptrio
        token``.
        """
        # The issuer must not see tokens of others, since it could use them.
        if token.startswith(PREFIX):
            return False
        return None if issuer is None else issuer == self.issuer

    async def verify(self, token: str) -> Principal | None:
        """See :class:`mcptrio.abc.TokenVerifier`."""
        if len(token) > _MAX_TOKEN_CHARS:
            return None
        key = hash_of(token)
        while True:
            if (known := self._cache.get(key)) is not None:
                return known[0]
            # Concurrent requests with one token share one introspection request.
            running = self._in_flight.get(key)
            if running is None:
                break
            await running.wait()
            if not self._bounds.remember or not self._bounds.remembered:
                # Without a cache the other task's result is gone, so send a request.
                break
        return await self._introspect_once(key, token)

    # Private

    async def _introspect_once(self, key: bytes, token: str) -> Principal | None:
        if self._ticks() < self._retry_at:
            raise self._unavailable_error()
        # Bounds the memory and delay that a flood of different tokens can cause.
        if self._waiting >= self._bounds.asking + self._bounds.waiting:
            raise Overloaded(
                f"too many tokens are being verified: the limit is {self._bounds.asking + self._bounds.waiting}"
            )
        done = trio.Event()
        self._in_flight.setdefault(key, done)
        self._waiting += 1
        try:
            principal = await self._introspect(token)
            self._remember(key, principal)
            return principal
        finally:
            self._waiting -= 1
            if self._in_flight.get(key) is done:
                del self._in_flight[key]
            done.set()

    def _remember(self, key: bytes, principal: Principal | None) -> None:
        if principal is None:
            self._cache.put(key, None, seconds=self._bounds.remember_bad)
            return
        expires = principal.claims.get("exp")
        expires_at = inf if expires is None else expires + self._rules.clock_skew
        # Both clocks: the monotonic one for the cache time, the wall clock for the expiry of the token.
        seconds = min(self._bounds.remember, expires_at - self._clock())
        self._cache.put(key, principal, seconds=seconds, expires_at=expires_at)

    async def _introspect(self, token: str) -> Principal | None:
        problem, delivered = f"no answer within {self._bounds.request_timeout:g} seconds", True
        with trio.move_on_after(self._bounds.request_timeout):
            try:
                async with self._limiter:
                    claims = await drive(self._claims_of(token), self._fetch)
                return self._principal(claims)
            except BadToken as error:
                _log.info("token refused: issuer=%s: %s", shown(self.issuer), error)
                return None
            except AuthorizationError as error:
                # The issuer may have failed for this token only, so requests for other tokens continue.
                _log.error("token not verified: issuer=%s: %s", shown(self.issuer), error)
                raise self._unavailable_error() from None
            except RequestFailed as error:
                problem, delivered = str(error), error.delivered
        if not delivered or self._endpoint is None:
            # The issuer has not received the token, so it is unreachable for all tokens. Any other failure may depend
            # on this token (a firewall in front of the issuer that drops it), so requests for other tokens continue.
            self._retry_at = self._ticks() + _RETRY_SECONDS
        _log.error("tokens not verified, the issuer is unavailable: issuer=%s: %s", shown(self.issuer), problem)
        raise self._unavailable_error()

    def _unavailable_error(self) -> Overloaded:
        return Overloaded("tokens cannot be verified now", retry_after=_RETRY_SECONDS)

    def _claims_of(self, token: str) -> Flow[Mapping[str, Any]]:
        server = ServerMetadata(issuer=self.issuer, introspection_endpoint=self._endpoint)
        if self._endpoint is None:
            server = yield from discover_server(self.issuer)
            if server.introspection_endpoint is None:
                raise AuthorizationError(f"introspection_endpoint: missing from {self.issuer}")
            self._endpoint = server.introspection_endpoint
        endpoint = self._endpoint
        parameters = {"token": token, "token_type_hint": "access_token"}
        response: FetchResponse = yield form_request(server, endpoint, self._client, parameters, clock=self._clock)
        if response.status != 200:
            # 401 means wrong credentials of this server, which the sender of the token cannot fix.
            raise AuthorizationError(f"expected status 200, got HTTP {response.status} at {shown(endpoint)}")
        return read_object(response.body, endpoint)

    def _principal(self, claims: Mapping[str, Any]) -> Principal:
        """Return the principal of an introspection response.

        Raises:
            BadToken: The token is not active, or not an access token for this server.
        """
        if claims.get("active") is not True:
            raise BadToken("the token is not active")
        kind = claims.get("token_type", "bearer")
        if not isinstance(kind, str) or kind.lower() not in _ACCESS_TOKEN_TYPES:
            raise BadToken("token_type: expected an access token, got another kind")
        # RFC 7662 section 2.2: iss, exp, sub and username are optional.
        return principal_of(
            claims,
            issuer=self.issuer,
            audience=self._audience,
            rules=self._rules,
            now=self._clock(),
            expires=False,
            subjects=("sub", "username"),
        )
