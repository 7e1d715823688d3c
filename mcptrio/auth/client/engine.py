"""Authorization of a client's requests to one server, with any grant.

``OAuth``, ``ClientCredentials``, ``EnterpriseManaged`` and ``WorkloadIdentity`` create it, each with its grant.
Discovery and token requests run once for all requests that wait for them.

Source: MCP 2026-07-28, basic/authorization; RFC 6750; RFC 9449.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from typing import Final

import trio

from mcptrio.auth.challenges import ChallengeResponse
from mcptrio.auth.client.credentials import Binding, Granted
from mcptrio.auth.client.grants import MAX_STEP_UPS, USER_TIMEOUT, Grant, GrantMethod, GrantRequest
from mcptrio.auth.discovery import TokenSource
from mcptrio.auth.dpop import DPOP, DPoPSigner
from mcptrio.auth.scopes import first_scopes, union
from mcptrio.auth.urls import canonical, origin, shown
from mcptrio.errors import AuthorizationError, ConsentNeeded, RequestFailed

__all__ = ["GrantClient"]

# Seconds before its expiry that an access token is renewed, or a tenth of its lifetime if that is less.
_RENEW_EARLY_SECONDS: Final = 30.0
# A token that is rejected within this many seconds after it was issued was never valid; another would not be either.
_FRESH_SECONDS: Final = 30.0
# The algorithm of generated DPoP keys.
_ALGORITHM: Final = "ES256"


class GrantClient:
    """Authorizes the requests to one server, as a :class:`mcptrio.abc.ClientAuth`.

    Made by :meth:`mcptrio.abc.AuthMethod.client_auth`. Tokens are sent to that server only.
    """

    def __init__(self, grant: Grant[GrantMethod]) -> None:
        self._grant = grant
        self._server = grant.server
        self._method = grant.method
        self._checked_url = ""

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return the authorization headers of a request. See :class:`mcptrio.abc.ClientAuth`.

        Raises:
            AuthorizationError, RequestFailed: The token has expired and cannot be renewed now.
        """
        self._check_origin(url)
        await self._load()
        granted = self._server.granted
        if granted is not None and self._expires_soon(granted):
            granted = await self._renew_if_expired(granted)
        # A rejection counts only for the token that the request carried: a concurrent request may have renewed it.
        self._server.sent[trio.lowlevel.current_task()] = self._server.granted
        if granted is None:
            return {}
        token = granted.tokens.access_token.reveal()
        headers = {"Authorization": f"{granted.tokens.scheme} {token}"}
        if granted.tokens.scheme == "DPoP" and granted.prover is not None:
            headers[DPOP] = granted.prover.prove(method, url, token=token)
        return headers

    async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        """Handle a 401 or 403 response. See :class:`mcptrio.abc.ClientAuth`.

        Raises:
            ConsentNeeded: A user has to be asked.
            AuthorizationError: No token can be obtained, or no better one.
            RequestFailed: The authorization server is unreachable.
        """
        self._check_origin(url)
        server, refusal = self._server, ChallengeResponse.read(headers)
        if server.granted is not None and server.granted.prover is not None:
            server.granted.prover.take_nonce(url, headers)
            if refusal.error == "use_dpop_nonce":
                # Retry with the new nonce; the token itself was not rejected.
                return "dpop-nonce" in headers
        if status == 403 and refusal.error != "insufficient_scope":
            return False
        refused = server.sent.get(trio.lowlevel.current_task(), server.granted)
        return await self._run_round(lambda: self._obtain_other(refusal, status, refused))

    # One round

    async def _run_round(self, work: Callable[[], Awaitable[bool]]) -> bool:
        """Obtain credentials, once for all concurrent callers."""
        server = self._server
        before = server.rounds
        async with server.lock:
            # Another task obtained credentials while this one waited for the lock; use its result.
            if server.rounds != before:
                self._raise_failure()
                return True
            try:
                is_obtained = await work()
            except ConsentNeeded:
                # The user decides later, so this is not the end of a round.
                raise
            except (AuthorizationError, RequestFailed) as error:
                server.rounds += 1
                server.failure = error
                raise
            server.rounds += 1
            server.failure = None
            return is_obtained

    def _raise_failure(self) -> None:
        if (failure := self._server.failure) is not None:
            raise AuthorizationError(str(failure)) from failure

    async def _obtain_other(self, refusal: ChallengeResponse, status: int, refused: Granted | None) -> bool:
        """Obtain other tokens, or raise ``ConsentNeeded`` if only a user can grant them."""
        server, scopes = self._server, None
        # The token was replaced after this request was sent.
        if server.granted is not None and server.granted is not refused:
            return True
        is_step_up = status == 403 and server.granted is not None
        if status == 403 and server.granted is not None:
            scopes = self._scopes_for_step_up(server.granted, refusal)
        elif await self._find_or_renew(refusal):
            return True
        if not self._grant.needs_user:
            return await self._obtain(refusal, scopes or server.wanted, is_step_up=is_step_up)
        before = server.rounds

        async def ask() -> None:
            if server.rounds == before:
                await self._run_round(lambda: self._obtain(refusal, scopes, is_step_up=is_step_up))
            else:
                self._raise_failure()

        raise ConsentNeeded(f"{shown(server.url)} requires authorization", ask=ask)

    async def _find_or_renew(self, refusal: ChallengeResponse) -> bool:
        """Return True if another token is available now: stored by another process, or renewed."""
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
        is_fresh = self._method.clock() - refused.obtained_at < _FRESH_SECONDS
        if is_fresh and refused.is_from_grant:
            raise AuthorizationError(
                f"{shown(server.url)} rejects a token that was issued for it"
                + (f": {refusal.description}" if refusal.description else "")
            )
        return not is_fresh and await self._grant.renew(refused, lambda kept: kept is not refused) is not None

    def _scopes_for_step_up(self, granted: Granted, refusal: ChallengeResponse) -> tuple[str, ...]:
        """Return the scopes to request after the granted ones did not suffice.

        Raises:
            AuthorizationError: Another request would not help.
        """
        server, now = self._server, self._method.clock()
        # MCP "Step-Up Authorization Flow": request the earlier scopes too, or the new token loses them.
        wanted = union(granted.requested_scopes or (), granted.scopes, refusal.scopes)
        if set(refusal.scopes) <= set(granted.scopes):
            raise AuthorizationError(
                f"{shown(server.url)} reports missing scopes, but the token has all that it names: "
                f"{' '.join(refusal.scopes) or 'none'}"
            )
        server.step_ups = {scopes: then for scopes, then in server.step_ups.items() if now - then < USER_TIMEOUT}
        if frozenset(wanted) in server.step_ups:
            raise AuthorizationError(
                f"{shown(server.url)} requires the scopes {' '.join(refusal.scopes)}, "
                f"which were requested and not granted less than {USER_TIMEOUT:g} seconds ago"
            )
        if len(server.step_ups) >= MAX_STEP_UPS:
            raise AuthorizationError(
                f"{shown(server.url)} reports missing scopes; "
                f"more were requested {MAX_STEP_UPS} times within {USER_TIMEOUT:g} seconds"
            )
        return wanted

    async def _obtain(
        self, refusal: ChallengeResponse, scopes: tuple[str, ...] | None, *, is_step_up: bool = False
    ) -> bool:
        """Obtain tokens with the grant and store them.

        Args:
            refusal: The server's challenge.
            scopes: The scopes to request; ``None`` for those that the server and the program name.
            is_step_up: True if the granted scopes did not suffice.
        """
        server, method = self._server, self._method
        source = await self._grant.find(refusal.metadata_url)
        requested = scopes
        if requested is None:
            supported = None if source.metadata is None else source.metadata.scopes_supported
            requested = first_scopes(challenged=refusal.scopes, supported=supported, wanted=method.scopes)
        request = GrantRequest(
            source=source, scopes=requested, prover=self._prover(source, refusal), clock=method.clock
        )
        granted = await self._grant.obtain(request)
        if is_step_up and scopes is not None:
            server.step_ups[frozenset(scopes)] = method.clock()
        # RFC 9449 section 5: a server that does not support DPoP ignores the proof and issues a bearer token.
        if granted.tokens.scheme == "Bearer" and (source.dpop_required or method.dpop == "always"):
            raise AuthorizationError(f"token_type: expected DPoP, got Bearer from {shown(source.server.issuer)}")
        server.wanted = requested
        binding = Binding(issuer=granted.issuer, resource=granted.resource, metadata_url=refusal.metadata_url)
        await self._grant.keep(binding, granted)
        return True

    def _prover(self, source: TokenSource, refusal: ChallengeResponse) -> DPoPSigner | None:
        """Return the key for the tokens, or ``None`` for bearer tokens."""
        mode, algorithms = self._method.dpop, source.server.dpop_signing_alg_values_supported
        is_required = source.dpop_required or refusal.only_dpop
        if mode == "never":
            if is_required:
                raise AuthorizationError(
                    f"{shown(self._server.url)} requires DPoP-bound tokens, but dpop is 'never'; "
                    "set dpop to 'auto' or 'always'"
                )
            return None
        if not (mode == "always" or is_required or (refusal.dpop and algorithms is not None)):
            return None
        if algorithms is not None and _ALGORITHM not in algorithms:
            raise AuthorizationError(
                f"dpop_signing_alg_values_supported: expected {_ALGORITHM} to be among them, "
                f"got others from {shown(source.server.issuer)}"
            )
        # Reuse the key, with the nonces that its signer has received.
        before = self._server.granted
        return (
            before.prover if before is not None and before.prover is not None else DPoPSigner(clock=self._method.clock)
        )

    # Renewal before expiry

    async def _renew_if_expired(self, granted: Granted) -> Granted | None:
        """Return the same or newer tokens; ``None`` if they have expired and only a user can grant others."""
        server = self._server
        async with server.lock:
            # Another task has renewed the token while this one waited for the lock.
            if server.granted is not granted:
                return server.granted
            try:
                is_new = await self._renew(granted)
            except (AuthorizationError, RequestFailed) as error:
                if server.granted is None or self._has_expired(server.granted):
                    server.rounds += 1
                    server.failure = error
                    if not self._grant.needs_user:
                        # The next request is then sent without a token, and its 401 starts a new round.
                        server.granted = None
                    raise
            else:
                if is_new:
                    server.rounds += 1
                    server.failure = None
        # A failed early renewal is not an error while the token is still valid.
        return server.granted if server.granted is not None and not self._has_expired(server.granted) else None

    async def _renew(self, granted: Granted) -> bool:
        if await self._grant.renew(granted, lambda kept: not self._expires_soon(kept)) is not None:
            return True
        if self._grant.needs_user:
            return False
        metadata_url = None if self._server.binding is None else self._server.binding.metadata_url
        challenge = ChallengeResponse(dpop=granted.tokens.scheme == "DPoP", metadata_url=metadata_url)
        return await self._obtain(challenge, granted.requested_scopes)

    async def _load(self) -> None:
        server = self._server
        if not server.loaded:
            async with server.lock:
                if not server.loaded:
                    await self._grant.load()
                    server.loaded = True

    def _expires_soon(self, granted: Granted) -> bool:
        expires = granted.tokens.expires_at
        if expires is None:
            return False
        life = max(expires - granted.obtained_at, 0)
        return expires - self._method.clock() < min(_RENEW_EARLY_SECONDS, life / 10)

    def _has_expired(self, granted: Granted) -> bool:
        return granted.tokens.expires_at is not None and granted.tokens.expires_at <= self._method.clock()

    def _check_origin(self, url: str) -> None:
        if url == self._checked_url:
            # Nearly all requests go to the same URL.
            return
        # Redirects and server-supplied URLs must not obtain the token of another server.
        if origin(canonical(url)) != origin(self._server.url):
            raise AuthorizationError(f"credentials of {shown(self._server.url)} are not sent to {shown(url)}")
        self._checked_url = url
