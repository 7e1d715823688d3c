"""Authorizing a client's requests with tokens that nobody has to be asked for.

Made by :class:`~mcptrio.auth.client_credentials.ClientCredentials`,
:class:`~mcptrio.auth.enterprise_managed.EnterpriseManaged` and
:class:`~mcptrio.auth.workload_identity.WorkloadIdentity`, each with its grant.
The one rule: a refusal counts only for the token that was sent. Whoever comes with an older one is given the newer one,
and a token that is refused although it is new is the end: another one would be no better.

What happens once for all requests that wait for it: finding out where tokens come from, and getting one.

Source: MCP 2026-07-28, basic/authorization; MCP extensions OAuth Client Credentials, Enterprise-Managed Authorization
and Workload Identity Federation; RFC 6750; RFC 9449.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Mapping
from typing import Final, Literal, TypeAlias
from weakref import WeakKeyDictionary

import trio
from attrs import define, field, frozen

from mcptrio.abc import Fetch
from mcptrio.auth.discovery import Place, discover
from mcptrio.auth.dpop import DPOP, Prover
from mcptrio.auth.flows import Flow, drive
from mcptrio.auth.refusals import Refusal
from mcptrio.auth.scope_choice import first_scopes, union
from mcptrio.auth.token_requests import Tokens
from mcptrio.auth.urls import canonical, check_url, origin, shown
from mcptrio.errors import AuthorizationError, MCPTrioError, RequestFailed

__all__ = ["DPOP_MODES", "Grant", "GrantRequest", "GrantRules", "GrantedClient", "GrantedServer"]

DPOP_MODES: Final = ("asked", "always", "never")

_EARLY: Final = 30.0
"""Seconds before its end that a token is replaced, or a tenth of its life where that is less."""
_FRESH: Final = 30.0
"""Seconds in which a token that is refused was never any good."""
_STEPS: Final = 3
"""Times that more scopes are asked for, of one server."""
_ALGORITHM: Final = "ES256"


@frozen(kw_only=True)
class GrantRules:
    """What these grants have in common.

    Args:
        issuer: whom the credentials are for. A server that names another authorization server is refused. ``None``: the
            first that it names, and no other afterwards; only for servers that one would trust with the credentials.
        scopes: to ask for, beside those that a challenge names; by default those that the server supports.
        dpop: whether tokens are bound to a key of ours: where the server asks for it, always, or never.
        clock: seconds since 1970.
    """

    issuer: str | None = None
    scopes: tuple[str, ...] = ()
    dpop: Literal["asked", "always", "never"] = "asked"
    clock: Callable[[], float] = field(default=time.time, repr=False)


@frozen(kw_only=True)
class GrantRequest:
    """One request for tokens.

    Args:
        scopes: ``None`` where the parameter is left out.
        prover: has the tokens bound to its key.
    """

    place: Place
    scopes: tuple[str, ...] | None
    prover: Prover | None
    clock: Callable[[], float]

    @property
    def parameters(self) -> dict[str, str]:
        """What goes into each: what for, and how much."""
        wanted = {"resource": self.place.resource}
        return wanted if self.scopes is None else {**wanted, "scope": " ".join(self.scopes)}


Grant: TypeAlias = Callable[[GrantRequest], Flow[Tokens]]


@define(eq=False)
class GrantedServer:
    """What is known of one server, by all its clients."""

    url: str
    lock: trio.Lock = field(factory=trio.Lock)
    issuer: str | None = None
    metadata_url: str | None = None
    place: Place | None = None
    tokens: Tokens | None = None
    prover: Prover | None = None
    asked: tuple[str, ...] | None = None
    obtained_at: float = 0.0
    steps: int = 0
    rounds: int = 0
    """How often tokens were asked for, with whatever end."""
    failure: MCPTrioError | None = None
    """Of the last round."""
    sent: WeakKeyDictionary[trio.lowlevel.Task, Tokens | None] = field(factory=WeakKeyDictionary)
    """What a task has sent: it is the same that hears of the refusal."""


class GrantedClient:
    """Authorizes the requests to one server.

    Args:
        prepare: makes the grant for each round; may wait for what it needs, such as a fresh assertion.
    """

    def __init__(
        self, server: GrantedServer, fetch: Fetch, rules: GrantRules, prepare: Callable[[], Awaitable[Grant]]
    ) -> None:
        self._server = server
        self._fetch = fetch
        self._rules = rules
        self._prepare = prepare

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """See :class:`mcptrio.abc.ClientAuth`.

        Raises:
            AuthorizationError, RequestFailed: the token has expired, and there is no other.
        """
        self._check_origin(url)
        server = self._server
        if server.tokens is not None and self._ends_soon(server.tokens):
            await self._replace(server.tokens)
        tokens = server.tokens
        server.sent[trio.lowlevel.current_task()] = tokens
        if tokens is None:
            return {}
        token = tokens.access_token.reveal()
        found = {"Authorization": f"{tokens.scheme} {token}"}
        if tokens.scheme == "DPoP" and server.prover is not None:
            found[DPOP] = server.prover.prove(method, url, token=token)
        return found

    async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        """See :class:`mcptrio.abc.ClientAuth`.

        Raises:
            AuthorizationError: there will be no token, or no other one.
            RequestFailed: those who give tokens cannot be reached.
        """
        self._check_origin(url)
        server, refusal = self._server, Refusal.read(headers)
        if server.prover is not None:
            server.prover.heard(url, headers)
            if refusal.error == "use_dpop_nonce":
                return "dpop-nonce" in headers
        if status == 403 and refusal.error != "insufficient_scope":
            return False
        refused, before = server.sent.get(trio.lowlevel.current_task()), server.rounds
        async with server.lock:
            if server.rounds != before and server.failure is not None:
                raise AuthorizationError(str(server.failure)) from server.failure
            if server.tokens is not None and server.tokens is not refused:
                return True
            server.metadata_url = refusal.metadata_url or server.metadata_url
            await self._round(refusal, self._next_scopes(refusal, status))
        return True

    async def _replace(self, tokens: Tokens) -> None:
        """Get others before these end; where that fails they are used until then."""
        server = self._server
        async with server.lock:
            if server.tokens is not tokens:
                return
            try:
                await self._round(Refusal(dpop=tokens.scheme == "DPoP"), server.asked)
            except (AuthorizationError, RequestFailed):
                if self._has_ended(tokens):
                    server.tokens = None
                    raise

    async def _round(self, refusal: Refusal, scopes: tuple[str, ...] | None) -> None:
        server = self._server
        try:
            server.tokens = await self._granted(refusal, scopes)
        except (AuthorizationError, RequestFailed) as error:
            server.failure = error
            raise
        else:
            server.failure = None
            server.obtained_at = self._rules.clock()
        finally:
            server.rounds += 1

    async def _granted(self, refusal: Refusal, scopes: tuple[str, ...] | None) -> Tokens:
        server, rules = self._server, self._rules
        check_url(server.url, "url")
        place = await self._find()
        if scopes is None:
            supported = None if place.metadata is None else place.metadata.scopes_supported
            scopes = first_scopes(challenged=refusal.scopes, supported=supported, wanted=rules.scopes)
        prover = self._prover_for(place, refusal)
        request = GrantRequest(place=place, scopes=scopes, prover=prover, clock=rules.clock)
        grant = await self._prepare()
        tokens = await drive(grant(request), self._fetch)
        if tokens.scheme == "Bearer" and (place.dpop_required or rules.dpop == "always"):
            raise AuthorizationError(f"token_type: expected DPoP, got Bearer from {shown(place.server.issuer)}")
        server.asked, server.prover = scopes, prover if tokens.scheme == "DPoP" else None
        return tokens

    async def _find(self) -> Place:
        """Where the tokens come from: the one place that the credentials are shown to."""
        server = self._server
        pinned = self._rules.issuer or server.issuer
        preferred = () if pinned is None else (pinned,)
        place = await drive(discover(server.url, metadata_url=server.metadata_url, preferred=preferred), self._fetch)
        if pinned is not None and place.server.issuer != pinned:
            raise AuthorizationError(
                f"the credentials are for {shown(pinned)}, and {shown(server.url)} wants tokens of "
                f"{shown(place.server.issuer)}: it is not shown them"
            )
        server.issuer = place.server.issuer
        return place

    def _next_scopes(self, refusal: Refusal, status: int) -> tuple[str, ...] | None:
        """Which scopes to ask for after a refusal; ``None`` for those that the server wants.

        Raises:
            AuthorizationError: asking again would change nothing.
        """
        server = self._server
        if server.tokens is None:
            return server.asked
        if status == 403:
            has = {*(server.asked or ()), *(server.tokens.scopes or ())}
            if set(refusal.scopes) <= has or server.steps >= _STEPS:
                raise AuthorizationError(
                    f"{shown(server.url)} refuses for want of a scope: it names "
                    f"{' '.join(refusal.scopes) or 'none'}, which was asked for"
                )
            server.steps += 1
            return union(server.asked or (), server.tokens.scopes or (), refusal.scopes)
        if self._rules.clock() - server.obtained_at < _FRESH:
            raise AuthorizationError(
                f"{shown(server.url)} refuses the token that it asked for"
                + (f": {refusal.words}" if refusal.words else "")
            )
        return server.asked

    def _prover_for(self, place: Place, refusal: Refusal) -> Prover | None:
        """What makes proofs, where tokens are to be bound to a key."""
        mode, algorithms = self._rules.dpop, place.server.dpop_signing_alg_values_supported
        must = place.dpop_required or refusal.only_dpop
        if mode == "never":
            if must:
                raise AuthorizationError(f"{shown(self._server.url)} wants tokens bound to a key, and dpop is never")
            return None
        if not (mode == "always" or must or (refusal.dpop and algorithms is not None)):
            return None
        if algorithms is not None and _ALGORITHM not in algorithms:
            raise AuthorizationError(
                f"dpop_signing_alg_values_supported: expected {_ALGORITHM} to be among them, "
                f"not so with {shown(place.server.issuer)}"
            )
        return self._server.prover or Prover(clock=self._rules.clock)

    def _ends_soon(self, tokens: Tokens) -> bool:
        if tokens.expires_at is None:
            return False
        life = max(tokens.expires_at - self._server.obtained_at, 0.0)
        return tokens.expires_at - self._rules.clock() < min(_EARLY, life / 10)

    def _has_ended(self, tokens: Tokens) -> bool:
        return tokens.expires_at is not None and tokens.expires_at <= self._rules.clock()

    def _check_origin(self, url: str) -> None:
        if origin(canonical(url)) != origin(self._server.url):
            raise AuthorizationError(f"credentials of {shown(self._server.url)} are not sent to {shown(url)}")
