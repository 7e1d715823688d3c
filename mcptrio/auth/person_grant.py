"""What a person grants for one server: found out where to ask, asked for, renewed, kept.

Used by :mod:`mcptrio.auth.client_oauth`, which says when.
The one rule: whoever calls holds the server's lock, so nothing here is done twice at the same time.

Source: MCP 2026-07-28, basic/authorization, and basic/authorization/client-registration, "Authorization Server
Binding"; RFC 9449 section 5.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Callable
from typing import TYPE_CHECKING, Final

import trio
from attrs import define, evolve, field

from mcptrio.abc import Fetch
from mcptrio.auth.authorization_code import Attempt, begin, exchange, read_code
from mcptrio.auth.credentials import Binding, Credentials, Granted
from mcptrio.auth.discovery import Place, discover
from mcptrio.auth.dpop import Prover
from mcptrio.auth.flows import drive
from mcptrio.auth.metadata import ServerMetadata
from mcptrio.auth.redirects import Redirect
from mcptrio.auth.refusals import Refusal
from mcptrio.auth.registration import ClientMetadata, Registered, register
from mcptrio.auth.scope_choice import first_scopes, with_offline
from mcptrio.auth.token_requests import ClientIdentity, TokenRefused, Tokens, refresh_tokens
from mcptrio.auth.urls import check_url, shown
from mcptrio.errors import AuthorizationError, MCPTrioError
from mcptrio.nurseries import outlasting
from mcptrio.secret import Secret

if TYPE_CHECKING:
    from mcptrio.auth.client_oauth import OAuth

__all__ = ["ASKED", "PATIENCE", "PersonGrant", "ServerState"]

ASKED: Final = 3
"""Times that a person is asked for one server within :data:`PATIENCE`."""
PATIENCE: Final = 300.0
"""Seconds; also how long a step up that did not help is not tried again."""
_RENEWAL: Final = 5.0
"""Seconds for which a renewal goes on after its request was cancelled."""
_ALGORITHM: Final = "ES256"
_FINAL: Final = frozenset(
    {
        "invalid_client",
        "invalid_grant",
        "invalid_scope",
        "invalid_target",
        "unauthorized_client",
        "unsupported_grant_type",
    }
)
"""Refusals after which a refresh token is good for nothing any more."""


@define
class ServerState:
    """What is known of one server."""

    url: str
    lock: trio.Lock = field(factory=trio.Lock)
    loaded: bool = False
    binding: Binding | None = None
    granted: Granted | None = None
    place: Place | None = None
    rounds: int = 0
    """How often credentials were looked for, with whatever end."""
    failure: MCPTrioError | None = None
    """Of the last round."""
    asked: deque[float] = field(factory=lambda: deque(maxlen=ASKED))
    """When a person was."""
    stepped: dict[frozenset[str], float] = field(factory=dict)
    """When which scopes were asked for because others did not suffice."""


class PersonGrant:
    """For one server. Made with its client."""

    def __init__(
        self, oauth: OAuth, server: ServerState, fetch: Fetch, credentials: Credentials, metadata: ClientMetadata
    ) -> None:
        self._oauth = oauth
        self._server = server
        self._fetch = fetch
        self._credentials = credentials
        self._metadata = metadata

    async def ask(self, refusal: Refusal, scopes: tuple[str, ...] | None) -> bool:
        """Ask the person.

        Args:
            scopes: to ask for; ``None`` for what the server and the program want.
        """
        oauth, server = self._oauth, self._server
        now = oauth.clock()
        if len(server.asked) == ASKED and now - server.asked[0] < PATIENCE:
            raise AuthorizationError(
                f"{shown(server.url)} wants authorization again; "
                f"it was asked for {ASKED} times within {PATIENCE:g} seconds"
            )
        step = scopes
        place = await self.find(refusal.metadata_url)
        if scopes is None:
            supported = None if place.metadata is None else place.metadata.scopes_supported
            scopes = first_scopes(challenged=refusal.scopes, supported=supported, wanted=oauth.scopes)
        scopes = with_offline(scopes, place.server)
        prover = self._prover(place, refusal)
        known = await self._credentials.client(place.server.issuer)
        issuer = None if self._has_fixed_redirect(place.server) else place.server.issuer
        async with oauth.redirects.open(() if known is None else known.redirect_uris, issuer) as redirect:
            client, registered = await self._become_known(place, known, redirect, scopes, bound=prover is not None)
            attempt = begin(
                place.server,
                client,
                resource=place.resource,
                redirect_uri=redirect.uri,
                scopes=scopes,
                prover=prover,
            )
            server.asked.append(now)
            code = read_code(attempt, await redirect.authorize(attempt.url))
        tokens = await self._exchanged(attempt, code, prover)
        if step is not None:
            server.stepped[frozenset(step)] = oauth.clock()
        if tokens.scheme == "Bearer" and (place.dpop_required or oauth.dpop == "always"):
            raise AuthorizationError(f"token_type: expected DPoP, got Bearer from {shown(place.server.issuer)}")
        binding = Binding(issuer=place.server.issuer, resource=place.resource, metadata_url=refusal.metadata_url)
        granted = Granted(
            issuer=binding.issuer,
            resource=binding.resource,
            tokens=tokens,
            asked=scopes,
            obtained_at=oauth.clock(),
            by_consent=True,
            client=registered,
            prover=prover if tokens.scheme == "DPoP" else None,
        )
        await self._keep(binding, granted)
        return True

    async def renew(self, granted: Granted, is_good: Callable[[Granted], bool]) -> Granted | None:
        """Other tokens: those that another process has got meanwhile, or new ones for the refresh token.

        Processes that share the store take turns: the authorization server takes a refresh token that is used twice
        for stolen, and ends the login.

        Args:
            is_good: whether tokens that are in the store need no renewal.

        Returns:
            ``None`` where there are none to be had without the person.
        """
        async with self._credentials.lock(self._server.url):
            await self.reload()
            kept = self._server.granted
            if kept is None or is_good(kept):
                return kept
            if (kept.issuer, kept.resource) != (granted.issuer, granted.resource):
                return None
            return await self._refresh(kept)

    async def _refresh(self, granted: Granted) -> Granted | None:
        server = self._server
        if granted.tokens.refresh_token is None or server.binding is None:
            return None
        place = server.place or await self.find(server.binding.metadata_url)
        client = await self.holder(granted, place.server)
        if client is None or (place.server.issuer, place.resource) != (granted.issuer, granted.resource):
            return None
        flow = refresh_tokens(
            place.server,
            client,
            granted.tokens,
            resource=granted.resource,
            prover=granted.prover,
            clock=self._oauth.clock,
        )
        # Once the refresh token is sent, the answer may hold the only one that is good.
        async with outlasting(_RENEWAL):
            try:
                tokens = await drive(flow, self._fetch)
            except TokenRefused as refused:
                if refused.code not in _FINAL:
                    raise  # a server that is out of order may be in order again
                await self._heed(refused.code, place.server, client)
                server.granted = None
                await self._credentials.forget_tokens(server.binding)
                return None
            fresh = evolve(granted, tokens=tokens, obtained_at=self._oauth.clock(), by_consent=False)
            await self._keep(server.binding, fresh)
        return fresh

    async def reload(self) -> None:
        """What another process may have written meanwhile; a refresh token is good only once."""
        server = self._server
        binding = await self._credentials.binding(server.url)
        granted = None if binding is None else await self._credentials.granted(binding)
        same = (
            granted is not None
            and server.granted is not None
            and granted.tokens.access_token == server.granted.tokens.access_token
        )
        if not same:
            server.granted = granted
        server.binding = binding

    async def find(self, metadata_url: str | None) -> Place:
        server, oauth = self._server, self._oauth
        check_url(server.url, "url")
        ours = None
        before = None if server.binding is None else server.binding.issuer
        if oauth.client is not None:
            ours = oauth.client.issuer or next(iter(oauth._met), before)
        preferred = [issuer for issuer in (ours, before) if issuer is not None]
        place = await drive(discover(server.url, metadata_url=metadata_url, preferred=preferred), self._fetch)
        found = place.server.issuer
        if ours is not None and ours != found:
            raise AuthorizationError(
                f"the client is registered at {shown(ours)}, and {shown(server.url)} wants tokens of {shown(found)}: "
                "register one there, and say so"
            )
        if oauth.client is not None:
            oauth._met.setdefault(found)
        server.place = place
        return place

    async def holder(self, granted: Granted, server: ServerMetadata) -> ClientIdentity | None:
        """The client that tokens were granted to: it may have registered again since, as another one."""
        if granted.client is not None:
            return granted.client.identity
        if self._oauth.client is not None:
            return self._oauth.client.identity
        if self._metadata.document is not None and server.client_id_metadata_document_supported:
            return ClientIdentity(client_id=self._metadata.document, method="none")
        return None

    # Private

    async def _keep(self, binding: Binding, granted: Granted) -> None:
        self._server.binding, self._server.granted = binding, granted
        await self._credentials.keep(self._server.url, binding, granted)

    def _prover(self, place: Place, refusal: Refusal) -> Prover | None:
        """What makes proofs, where tokens are to be bound to a key."""
        mode = self._oauth.dpop
        if mode == "never" and (place.dpop_required or refusal.only_dpop):
            raise AuthorizationError(f"{shown(self._server.url)} wants tokens bound to a key, and dpop is never")
        algorithms = place.server.dpop_signing_alg_values_supported
        is_asked = place.dpop_required or refusal.only_dpop or (refusal.dpop and algorithms is not None)
        if mode == "never" or (mode == "asked" and not is_asked):
            return None
        if algorithms is not None and _ALGORITHM not in algorithms:
            raise AuthorizationError(
                f"dpop_signing_alg_values_supported: expected {_ALGORITHM} to be among them, "
                f"not so with {shown(place.server.issuer)}"
            )
        before = self._server.granted
        return before.prover if before is not None and before.prover is not None else Prover(clock=self._oauth.clock)

    async def _become_known(
        self,
        place: Place,
        known: Registered | None,
        redirect: Redirect,
        scopes: tuple[str, ...] | None,
        *,
        bound: bool,
    ) -> tuple[ClientIdentity, Registered | None]:
        """The client to use, and its registration if it has just got or already has one there."""
        server = place.server
        if self._oauth.client is not None:
            return self._oauth.client.identity, None
        is_fixed = self._has_fixed_redirect(server)
        if known is not None and not is_fixed and known.suits(redirect.uri, scopes, self._oauth.clock()):
            return known.identity, known
        # With all that a later step up may ask for: another registration would make us somebody else.
        offered = place.metadata.scopes_supported if place.metadata is not None else None
        registered = await drive(
            register(server, self._metadata, [redirect.uri], scopes=scopes, also=offered or (), bound_tokens=bound),
            self._fetch,
        )
        if not registered.redirect_uris:
            return registered.identity, None
        await self._credentials.keep_client(server.issuer, registered)
        return registered.identity, registered

    def _has_fixed_redirect(self, server: ServerMetadata) -> bool:
        """Whether redirects were agreed on elsewhere: with a client registered by hand, or in a metadata document."""
        has_document = self._metadata.document is not None and server.client_id_metadata_document_supported
        return self._oauth.client is not None or has_document

    async def _exchanged(self, attempt: Attempt, code: Secret, prover: Prover | None) -> Tokens:
        refused: TokenRefused
        try:
            return await drive(exchange(attempt, code, prover=prover, clock=self._oauth.clock), self._fetch)
        except TokenRefused as error:
            refused = error
        await self._heed(refused.code, attempt.server, attempt.client)
        raise refused

    async def _heed(self, code: str, server: ServerMetadata, client: ClientIdentity) -> None:
        """Register again next time with a server that no longer knows the client."""
        if code == "invalid_client" and self._oauth.client is None:
            await self._credentials.forget_client(server.issuer, client.client_id)
