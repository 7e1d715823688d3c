"""Authorizing a client's requests with OAuth, on behalf of a person.

``connect`` makes an :class:`OAuthClient` of an :class:`OAuth`. :mod:`mcptrio.auth.client.engine` decides when a person
is asked, and :class:`UserGrant` asks, renews and stores.

Source: MCP 2026-07-28, basic/authorization, and basic/authorization/client-registration, "Authorization Server
Binding"; RFC 6750; RFC 9449.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from attrs import Factory, evolve, field, frozen

from mcptrio.abc import Fetch, TokenStore
from mcptrio.auth.challenges import ChallengeResponse
from mcptrio.auth.client.authorization_code import Attempt, begin, exchange, read_code
from mcptrio.auth.client.credentials import Binding, Credentials, Granted
from mcptrio.auth.client.engine import GrantClient
from mcptrio.auth.client.grants import (
    MAX_STEP_UPS,
    USER_TIMEOUT,
    Grant,
    GrantMethod,
    GrantRequest,
    ServerState,
    text_tuple,
)
from mcptrio.auth.client.loopback import LoopbackRedirects
from mcptrio.auth.client.redirects import Redirect, Redirects
from mcptrio.auth.client.registration import ClientMetadata, PreRegistered, Registered, register
from mcptrio.auth.discovery import TokenSource
from mcptrio.auth.dpop import DPoPSigner
from mcptrio.auth.metadata import ServerMetadata
from mcptrio.auth.scopes import with_offline
from mcptrio.auth.token_requests import ClientIdentity, TokenRefused, Tokens, refresh_tokens, revoke_token
from mcptrio.auth.urls import shown
from mcptrio.errors import AuthorizationError, RequestFailed
from mcptrio.ground.nurseries import outlasting
from mcptrio.ground.secret import Secret

__all__ = ["OAuth", "OAuthClient"]

_RENEWAL: Final = 5.0
"""Seconds for which a renewal goes on after its request was cancelled."""
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


@frozen(kw_only=True)
class OAuth(GrantMethod):
    """OAuth for a client that acts for a person. One value serves for any number of servers and clients.

    Args:
        client_name: what the person is told asks for access.
        redirects: how they are sent to the authorization server and back; by default its address is printed, and their
            browser comes back to a port of this machine.
        store: keeps what was granted; by default it is forgotten with this value.
        scopes: wanted beside those that the server asks for.
        client: registered by hand, where authorization servers do not let clients register.
        client_metadata_url: of our Client ID Metadata Document, which is our id where it is understood.
        client_uri: a page about the program.
        private_servers: URLs of authorization servers that may be reached in private networks too. Others have to be
            public, unless they are the server itself.
        dpop: whether tokens are bound to a key of ours: where the server asks for it, always, or never.
        clock: seconds since 1970.

    Raises:
        ConfigError: the client has a secret or a key, and no issuer.
    """

    client_name: str = "mcptrio"
    redirects: Redirects = field(factory=LoopbackRedirects)
    store: TokenStore | None = field(default=None, repr=False)
    client: PreRegistered | None = None
    client_metadata_url: str | None = None
    client_uri: str | None = None
    private_servers: tuple[str, ...] = field(default=(), converter=text_tuple)
    _met: dict[str, None] = field(factory=dict, init=False, repr=False, eq=False)
    """Of the client that was registered by hand: the first one, where it was not said."""
    _credentials: Credentials = field(
        default=Factory(lambda self: Credentials(self.store), takes_self=True), init=False, repr=False, eq=False
    )
    _metadata: ClientMetadata = field(
        default=Factory(lambda self: _own_metadata(self), takes_self=True), init=False, repr=False, eq=False
    )

    def __attrs_post_init__(self) -> None:
        if self.client is not None:
            self.client.check_issuer()

    @property
    def named_servers(self) -> Sequence[str]:
        """See :class:`mcptrio.abc.AuthMethod`."""
        own = () if self.client is None or self.client.issuer is None else (self.client.issuer,)
        return (*self.private_servers, *own)

    def client_auth(self, url: str, fetch: Fetch) -> OAuthClient:
        """See :class:`mcptrio.abc.AuthMethod`. Clients of one server share what was granted for it.

        Raises:
            AuthorizationError: it is no http or https URL.
        """
        return OAuthClient(UserGrant(self, self._state_of(url), fetch, self._credentials, self._metadata))


class OAuthClient(GrantClient):
    """Authorizes the requests to one server. Made by :meth:`OAuth.client_auth`."""

    def __init__(self, grant: UserGrant) -> None:
        super().__init__(grant)
        self._user = grant

    async def log_in(self, headers: Mapping[str, str] | None = None) -> None:
        """Ask the person now, whatever there is.

        Args:
            headers: of the server's answer to somebody without credentials, in lower case; it may say where its
                metadata is, and which scopes it wants.

        Raises:
            AuthorizationError: they said no, or it is not possible.
            RequestFailed: somebody cannot be reached.
        """
        await self._load()
        refusal = ChallengeResponse.read(headers or {})
        await self._round(lambda: self._obtain(refusal, None))

    async def log_out(self) -> bool:
        """Forget what was granted, and have it made worthless where the authorization server can do that.

        Returns:
            Whether there was something.
        """
        await self._load()
        server = self._server
        async with server.lock:
            await self._user.revoke()
            server.granted = server.binding = server.place = None
            return await self._user.forget()


class UserGrant(Grant):
    """For one server. Made with its client."""

    needs_user: ClassVar[bool] = True

    def __init__(
        self, oauth: OAuth, server: ServerState, fetch: Fetch, credentials: Credentials, metadata: ClientMetadata
    ) -> None:
        super().__init__(oauth, server, fetch)
        self._oauth = oauth
        self._credentials = credentials
        self._metadata = metadata

    async def obtain(self, request: GrantRequest) -> Granted:
        """Ask the person."""
        oauth, asked, now = self._oauth, self.server.asked, self._oauth.clock()
        if len(asked) == MAX_STEP_UPS and now - asked[0] < USER_TIMEOUT:
            raise AuthorizationError(
                f"{shown(self.server.url)} wants authorization again; "
                f"it was asked for {MAX_STEP_UPS} times within {USER_TIMEOUT:g} seconds"
            )
        place, prover = request.place, request.prover
        request = evolve(request, scopes=with_offline(request.scopes, place.server))
        known = await self._credentials.client(place.server.issuer)
        issuer = None if self._has_fixed_redirect(place.server) else place.server.issuer
        async with oauth.redirects.open(() if known is None else known.redirect_uris, issuer) as redirect:
            client, registered = await self._register_client(request, known, redirect)
            attempt = begin(
                place.server,
                client,
                resource=place.resource,
                redirect_uri=redirect.uri,
                scopes=request.scopes,
                prover=prover,
            )
            asked.append(now)
            code = read_code(attempt, await redirect.authorize(attempt.url))
        return request.granted(await self._exchanged(attempt, code, prover), client=registered)

    async def renew(self, granted: Granted, is_good: Callable[[Granted], bool]) -> Granted | None:
        """Other tokens: those that another process has got meanwhile, or new ones for the refresh token.

        Processes that share the store take turns: the authorization server takes a refresh token that is used twice
        for stolen, and ends the login.
        """
        async with self._credentials.lock(self.server.url):
            await self.load()
            kept = self.server.granted
            if kept is None or is_good(kept):
                return kept
            if (kept.issuer, kept.resource) != (granted.issuer, granted.resource):
                return None
            return await self._refresh(kept)

    async def _refresh(self, granted: Granted) -> Granted | None:
        server = self.server
        if granted.tokens.refresh_token is None or server.binding is None:
            return None
        place = server.place or await self.find(server.binding.metadata_url)
        client = self.holder(granted, place.server)
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
                tokens = await self.drive(flow)
            except TokenRefused as refused:
                if refused.code not in _FINAL:
                    raise  # a server that is out of order may be in order again
                await self._heed(refused.code, place.server, client)
                server.granted = None
                await self._credentials.forget_tokens(server.binding)
                return None
            fresh = evolve(granted, tokens=tokens, obtained_at=self._oauth.clock(), is_from_grant=False)
            await self.keep(server.binding, fresh)
        return fresh

    async def load(self) -> None:
        """What another process may have written meanwhile; a refresh token is good only once."""
        server = self.server
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

    async def has_moved(self, granted: Granted, metadata_url: str | None) -> bool:
        """See :class:`mcptrio.auth.client.grants.Grant`."""
        place = await self.find(metadata_url)
        return (place.server.issuer, place.resource) != (granted.issuer, granted.resource)

    async def find(self, metadata_url: str | None) -> TokenSource:
        """See :class:`mcptrio.auth.client.grants.Grant`."""
        place = await super().find(metadata_url)
        if self._oauth.client is not None:
            self._oauth._met.setdefault(place.server.issuer)
        return place

    def pinned_issuer(self) -> str | None:
        """See :class:`mcptrio.auth.client.grants.Grant`. Only a client that was registered by hand belongs to one."""
        if self._oauth.client is None:
            return None
        before = None if self.server.binding is None else self.server.binding.issuer
        return self._oauth.client.issuer or next(iter(self._oauth._met), before)

    def names_other_issuer(self, pinned: str, found: str) -> str:
        return (
            f"the client is registered at {shown(pinned)}, and {shown(self.server.url)} wants tokens of "
            f"{shown(found)}: register one there, and say so"
        )

    async def revoke(self) -> None:
        """Have the refresh token made worthless, where the authorization server can do that."""
        granted = self.server.granted
        if granted is None or granted.tokens.refresh_token is None:
            return
        try:
            place = await self.find(None)
            client = self.holder(granted, place.server)
            if client is not None and place.server.issuer == granted.issuer:
                await self.drive(revoke_token(place.server, client, granted.tokens.refresh_token))
        except (AuthorizationError, RequestFailed):
            pass  # it ends by itself

    async def forget(self) -> bool:
        """Forget what was granted; whether there was something."""
        return await self._credentials.forget(self.server.url)

    async def keep(self, binding: Binding, granted: Granted) -> None:
        """See :class:`mcptrio.auth.client.grants.Grant`."""
        self.server.binding, self.server.granted = binding, granted
        await self._credentials.keep(self.server.url, binding, granted)

    def holder(self, granted: Granted, server: ServerMetadata) -> ClientIdentity | None:
        """The client that tokens were granted to: it may have registered again since, as another one."""
        if granted.client is not None:
            return granted.client.identity
        if self._oauth.client is not None:
            return self._oauth.client.identity
        if self._metadata.document is not None and server.client_id_metadata_document_supported:
            return ClientIdentity(client_id=self._metadata.document, method="none")
        return None

    # Private

    async def _register_client(
        self, request: GrantRequest, known: Registered | None, redirect: Redirect
    ) -> tuple[ClientIdentity, Registered | None]:
        """The client to use, and its registration if it has just got or already has one there."""
        place, scopes = request.place, request.scopes
        server = place.server
        if self._oauth.client is not None:
            return self._oauth.client.identity, None
        is_fixed = self._has_fixed_redirect(server)
        if known is not None and not is_fixed and known.suits(redirect.uri, scopes, self._oauth.clock()):
            return known.identity, known
        # With all that a later step up may ask for: another registration would make us somebody else.
        offered = place.metadata.scopes_supported if place.metadata is not None else None
        bound, also = request.prover is not None, offered or ()
        registered = await self.drive(
            register(server, self._metadata, [redirect.uri], scopes=scopes, also=also, bound_tokens=bound)
        )
        if not registered.redirect_uris:
            return registered.identity, None
        await self._credentials.keep_client(server.issuer, registered)
        return registered.identity, registered

    def _has_fixed_redirect(self, server: ServerMetadata) -> bool:
        """Whether redirects were agreed on elsewhere: with a client registered by hand, or in a metadata document."""
        has_document = self._metadata.document is not None and server.client_id_metadata_document_supported
        return self._oauth.client is not None or has_document

    async def _exchanged(self, attempt: Attempt, code: Secret, prover: DPoPSigner | None) -> Tokens:
        refused: TokenRefused
        try:
            return await self.drive(exchange(attempt, code, prover=prover, clock=self._oauth.clock))
        except TokenRefused as error:
            refused = error
        await self._heed(refused.code, attempt.server, attempt.client)
        raise refused

    async def _heed(self, code: str, server: ServerMetadata, client: ClientIdentity) -> None:
        """Register again next time with a server that no longer knows the client."""
        if code == "invalid_client" and self._oauth.client is None:
            await self._credentials.forget_client(server.issuer, client.client_id)


def _own_metadata(oauth: OAuth) -> ClientMetadata:
    return ClientMetadata(
        name=oauth.client_name,
        uri=oauth.client_uri,
        document=oauth.client_metadata_url,
        application_type=oauth.redirects.application_type,
    )
