"""Authorizing a client's requests to one server with OAuth, whatever the grant.

Made by :class:`~mcptrio.auth.client.oauth.OAuth`, :class:`~mcptrio.auth.client.client_credentials.ClientCredentials`,
:class:`~mcptrio.auth.client.enterprise_managed.EnterpriseManaged` and
:class:`~mcptrio.auth.client.workload_identity.WorkloadIdentity`, each with its grant.
Tokens for a server are sent to that server only. A refusal counts only for the token that the request carried. If a
server refuses a new token, the client gives up, since another token would be no better.

Discovery and token requests run once for all requests that wait for them.

Source: MCP 2026-07-28, basic/authorization; RFC 6750; RFC 9449.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio

from mcptrio.auth.challenges import ChallengeResponse
from mcptrio.auth.client.credentials import Binding, Granted
from mcptrio.auth.client.grants import MAX_STEP_UPS, USER_TIMEOUT, Grant, GrantRequest
from mcptrio.auth.discovery import TokenSource
from mcptrio.auth.dpop import DPOP, DPoPSigner
from mcptrio.auth.scopes import first_scopes, union
from mcptrio.auth.urls import canonical, origin, shown
from mcptrio.errors import AuthorizationError, ConsentNeeded, RequestFailed

__all__ = ["GrantClient"]

_RENEW_EARLY_SECONDS: Final = 30.0
"""Seconds before its end that an access token is renewed, or a tenth of its life where that is less."""
_FRESH: Final = 30.0
"""Seconds in which a token that is refused was never any good, so that another one will not be either."""
_ALGORITHM: Final = "ES256"


class GrantClient:
    """Authorizes the requests to one server: a :class:`mcptrio.abc.ClientAuth`. Made by ``client_auth`` of a method."""

    def __init__(self, grant: Grant) -> None:
        self._grant = grant
        self._server = grant.server
        self._method = grant.method
        self._checked = ""

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """See :class:`mcptrio.abc.ClientAuth`.

        Raises:
            AuthorizationError, RequestFailed: the token has expired, and cannot be renewed now.
        """
        self._check_origin(url)
        await self._load()
        granted = self._server.granted
        if granted is not None and self._ends_soon(granted):
            granted = await self._renewed(granted)
        self._server.sent[trio.lowlevel.current_task()] = self._server.granted
        if granted is None:
            return {}
        token = granted.tokens.access_token.reveal()
        found = {"Authorization": f"{granted.tokens.scheme} {token}"}
        if granted.tokens.scheme == "DPoP" and granted.prover is not None:
            found[DPOP] = granted.prover.prove(method, url, token=token)
        return found

    async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        """See :class:`mcptrio.abc.ClientAuth`.

        Raises:
            ConsentNeeded: a person has to be asked.
            AuthorizationError: there will be no token, or no other one.
            RequestFailed: those who give tokens cannot be reached.
        """
        self._check_origin(url)
        server, refusal = self._server, ChallengeResponse.read(headers)
        if server.granted is not None and server.granted.prover is not None:
            server.granted.prover.heard(url, headers)
            if refusal.error == "use_dpop_nonce":
                return "dpop-nonce" in headers
        if status == 403 and refusal.error != "insufficient_scope":
            return False
        refused = server.sent.get(trio.lowlevel.current_task(), server.granted)
        return await self._round(lambda: self._answer(refusal, status, refused))

    # One round

    async def _round(self, work: Callable[[], Awaitable[bool]]) -> bool:
        """Look for credentials, once for all who do so at the same time."""
        server = self._server
        before = server.rounds
        async with server.lock:
            if server.rounds != before:
                self._raise_failure()
                return True
            try:
                found = await work()
            except ConsentNeeded:
                raise  # nothing has been decided yet
            except (AuthorizationError, RequestFailed) as error:
                server.rounds += 1
                server.failure = error
                raise
            server.rounds += 1
            server.failure = None
            return found

    def _raise_failure(self) -> None:
        if (failure := self._server.failure) is not None:
            raise AuthorizationError(str(failure)) from failure

    async def _answer(self, refusal: ChallengeResponse, status: int, refused: Granted | None) -> bool:
        """Get other tokens, or raise :class:`ConsentNeeded` if only a person can grant them."""
        server, scopes = self._server, None
        if server.granted is not None and server.granted is not refused:
            return True
        is_step = status == 403 and server.granted is not None
        if status == 403 and server.granted is not None:
            scopes = self._step(server.granted, refusal)
        elif await self._without_asking(refusal):
            return True
        if not self._grant.needs_user:
            return await self._obtain(refusal, scopes or server.wanted, is_step=is_step)
        before = server.rounds

        async def ask() -> None:
            if server.rounds == before:
                await self._round(lambda: self._obtain(refusal, scopes, is_step=is_step))
            else:
                self._raise_failure()

        raise ConsentNeeded(f"{shown(server.url)} wants authorization", ask=ask)

    async def _without_asking(self, refusal: ChallengeResponse) -> bool:
        """Whether there is another token, of another process or for a refresh token."""
        server = self._server
        refused = server.granted
        await self._grant.load()
        if refused is None or server.granted is None:
            return server.granted is not None
        if server.granted.tokens.access_token != refused.tokens.access_token:
            return True
        if await self._grant.has_moved(refused, refusal.metadata_url):
            server.granted = None
            return False
        is_fresh = self._method.clock() - refused.obtained_at < _FRESH
        if is_fresh and refused.is_from_grant:
            raise AuthorizationError(
                f"{shown(server.url)} refuses the token that it asked for"
                + (f": {refusal.words}" if refusal.words else "")
            )
        return not is_fresh and await self._grant.renew(refused, lambda kept: kept is not refused) is not None

    def _step(self, granted: Granted, refusal: ChallengeResponse) -> tuple[str, ...]:
        """The scopes to ask for now, after those granted did not suffice.

        Raises:
            AuthorizationError: asking would change nothing.
        """
        server, now = self._server, self._method.clock()
        wanted = union(granted.asked or (), granted.scopes, refusal.scopes)
        if set(refusal.scopes) <= set(granted.scopes):
            raise AuthorizationError(
                f"{shown(server.url)} refuses for want of a scope, and the token has all that it names: "
                f"{' '.join(refusal.scopes) or 'none'}"
            )
        server.stepped = {scopes: then for scopes, then in server.stepped.items() if now - then < USER_TIMEOUT}
        if frozenset(wanted) in server.stepped:
            raise AuthorizationError(
                f"{shown(server.url)} wants the scopes {' '.join(refusal.scopes)}, "
                f"which were asked for and not granted less than {USER_TIMEOUT:g} seconds ago"
            )
        if len(server.stepped) >= MAX_STEP_UPS:
            raise AuthorizationError(
                f"{shown(server.url)} refuses for want of a scope; "
                f"more were asked for {MAX_STEP_UPS} times within {USER_TIMEOUT:g} seconds"
            )
        return wanted

    async def _obtain(
        self, refusal: ChallengeResponse, scopes: tuple[str, ...] | None, *, is_step: bool = False
    ) -> bool:
        """Get tokens by the grant.

        Args:
            scopes: to ask for; ``None`` for the scopes that the server and the program want.
        """
        server, method = self._server, self._method
        place = await self._grant.find(refusal.metadata_url)
        asked = scopes
        if asked is None:
            supported = None if place.metadata is None else place.metadata.scopes_supported
            asked = first_scopes(challenged=refusal.scopes, supported=supported, wanted=method.scopes)
        request = GrantRequest(place=place, scopes=asked, prover=self._prover(place, refusal), clock=method.clock)
        granted = await self._grant.obtain(request)
        if is_step and scopes is not None:
            server.stepped[frozenset(scopes)] = method.clock()
        if granted.tokens.scheme == "Bearer" and (place.dpop_required or method.dpop == "always"):
            raise AuthorizationError(f"token_type: expected DPoP, got Bearer from {shown(place.server.issuer)}")
        server.wanted = asked
        binding = Binding(issuer=granted.issuer, resource=granted.resource, metadata_url=refusal.metadata_url)
        await self._grant.keep(binding, granted)
        return True

    def _prover(self, place: TokenSource, refusal: ChallengeResponse) -> DPoPSigner | None:
        """Return the prover, if tokens must be bound to a key."""
        mode, algorithms = self._method.dpop, place.server.dpop_signing_alg_values_supported
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
        before = self._server.granted
        return (
            before.prover if before is not None and before.prover is not None else DPoPSigner(clock=self._method.clock)
        )

    # Before a token ends

    async def _renewed(self, granted: Granted) -> Granted | None:
        """The same or newer tokens; none where they have ended and there are no others without a person."""
        server = self._server
        async with server.lock:
            if server.granted is not granted:
                return server.granted
            try:
                is_new = await self._renew(granted)
            except (AuthorizationError, RequestFailed) as error:
                if server.granted is None or self._has_ended(server.granted):
                    server.rounds += 1
                    server.failure = error
                    if not self._grant.needs_user:
                        server.granted = None  # the next request has nothing to send, and asks for another
                    raise
            else:
                if is_new:
                    server.rounds += 1
                    server.failure = None
        return server.granted if server.granted is not None and not self._has_ended(server.granted) else None

    async def _renew(self, granted: Granted) -> bool:
        if await self._grant.renew(granted, lambda kept: not self._ends_soon(kept)) is not None:
            return True
        if self._grant.needs_user:
            return False
        where = None if self._server.binding is None else self._server.binding.metadata_url
        again = ChallengeResponse(dpop=granted.tokens.scheme == "DPoP", metadata_url=where)
        return await self._obtain(again, granted.asked)

    async def _load(self) -> None:
        server = self._server
        if not server.loaded:
            async with server.lock:
                if not server.loaded:
                    await self._grant.load()
                    server.loaded = True

    def _ends_soon(self, granted: Granted) -> bool:
        expires = granted.tokens.expires_at
        if expires is None:
            return False
        life = max(expires - granted.obtained_at, 0)
        return expires - self._method.clock() < min(_RENEW_EARLY_SECONDS, life / 10)

    def _has_ended(self, granted: Granted) -> bool:
        return granted.tokens.expires_at is not None and granted.tokens.expires_at <= self._method.clock()

    def _check_origin(self, url: str) -> None:
        if url == self._checked:
            return  # nearly all requests go to one URL
        if origin(canonical(url)) != origin(self._server.url):
            raise AuthorizationError(f"credentials of {shown(self._server.url)} are not sent to {shown(url)}")
        self._checked = url
