"""Authorizing a client's requests with OAuth, on behalf of a person.

``connect`` makes an :class:`OAuthClient` of an :class:`OAuth` for the server it connects to.
The one rule: what is granted for a server is sent to that server and nobody else, and what an authorization server gave
us is shown to that one and nobody else.

What happens once for all requests that wait for it: finding out where tokens come from, refreshing, asking a person. A
server that goes on refusing what it asked for is not served for ever: see :mod:`mcptrio.auth.person_grant`.

Source: MCP 2026-07-28, basic/authorization; RFC 6750; RFC 9449.
"""

from __future__ import annotations

import time
from collections.abc import Awaitable, Callable, Iterable, Mapping, Sequence
from typing import Final, Literal

from attrs import Factory, field, frozen, validators

from mcptrio.abc import Fetch, TokenStore
from mcptrio.auth.credentials import Credentials, Granted
from mcptrio.auth.dpop import DPOP
from mcptrio.auth.flows import drive
from mcptrio.auth.loopback import LoopbackRedirects
from mcptrio.auth.person_grant import PATIENCE, PersonGrant, ServerState
from mcptrio.auth.redirects import Redirects
from mcptrio.auth.refusals import Refusal
from mcptrio.auth.registration import ClientMetadata, PreRegistered
from mcptrio.auth.scope_choice import union
from mcptrio.auth.token_requests import revoke_token
from mcptrio.auth.urls import canonical, origin, shown
from mcptrio.errors import AuthorizationError, ConfigError, ConsentNeeded, RequestFailed

__all__ = ["OAuth", "OAuthClient"]

_EARLY: Final = 30.0
"""Seconds before its end that an access token is renewed, or a tenth of its life where that is less."""
_FRESH: Final = 30.0
"""Seconds in which a token that is refused was never any good, so that another one will not be either."""


def _texts(texts: Iterable[str]) -> tuple[str, ...]:
    if isinstance(texts, str):
        raise ConfigError(f"expected a list of texts, got the text {texts[:80]!r}")
    return tuple(texts)


@frozen(kw_only=True)
class OAuth:
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
    scopes: tuple[str, ...] = field(default=(), converter=_texts)
    client: PreRegistered | None = None
    client_metadata_url: str | None = None
    client_uri: str | None = None
    dpop: Literal["asked", "always", "never"] = field(
        default="asked", validator=validators.in_(("asked", "always", "never"))
    )
    private_servers: tuple[str, ...] = field(default=(), converter=_texts)
    clock: Callable[[], float] = field(default=time.time, repr=False)
    _servers: dict[str, ServerState] = field(factory=dict, init=False, repr=False, eq=False)
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
        name = canonical(url)
        return OAuthClient(
            self, self._servers.setdefault(name, ServerState(name)), fetch, self._credentials, self._metadata
        )


class OAuthClient:
    """Authorizes the requests to one server. Made by :meth:`OAuth.client_auth`."""

    def __init__(
        self, oauth: OAuth, server: ServerState, fetch: Fetch, credentials: Credentials, metadata: ClientMetadata
    ) -> None:
        self._oauth = oauth
        self._server = server
        self._fetch = fetch
        self._credentials = credentials
        self._grant = PersonGrant(oauth, server, fetch, credentials, metadata)
        self._checked = ""

    # As mcptrio.abc.ClientAuth

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
            AuthorizationError: they would be asked for nothing.
            RequestFailed: those who give tokens cannot be reached.
        """
        self._check_origin(url)
        granted = self._server.granted
        refusal = Refusal.read(headers)
        if granted is not None and granted.prover is not None:
            granted.prover.heard(url, headers)
            if refusal.error == "use_dpop_nonce":
                return "dpop-nonce" in headers
        if status == 403 and refusal.error != "insufficient_scope":
            return False
        return await self._round(lambda: self._answer(refusal, status))

    # For who wants it without a request

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
        refusal = Refusal.read(headers or {})
        await self._round(lambda: self._grant.ask(refusal, None))

    async def log_out(self) -> bool:
        """Forget what was granted, and have it made worthless where the authorization server can do that.

        Returns:
            Whether there was something.
        """
        await self._load()
        server = self._server
        async with server.lock:
            granted = server.granted
            if granted is not None and granted.tokens.refresh_token is not None:
                try:
                    place = await self._grant.find(None)
                    client = await self._grant.holder(granted, place.server)
                    if client is not None and place.server.issuer == granted.issuer:
                        await drive(revoke_token(place.server, client, granted.tokens.refresh_token), self._fetch)
                except (AuthorizationError, RequestFailed):
                    pass  # it ends by itself; here it is forgotten in any case
            server.granted = server.binding = server.place = None
            return await self._credentials.forget(server.url)

    # Private: one round

    async def _round(self, work: Callable[[], Awaitable[bool]]) -> bool:
        """Look for credentials, once for all who do so at the same time."""
        server = self._server
        before = server.rounds
        async with server.lock:
            if server.rounds != before:
                if server.failure is not None:
                    raise AuthorizationError(str(server.failure)) from server.failure
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

    async def _answer(self, refusal: Refusal, status: int) -> bool:
        """What can be done without a person is done; otherwise says what to ask them."""
        if status == 403 and self._server.granted is not None:
            scopes = self._step(self._server.granted, refusal)
        else:
            if await self._without_asking(refusal):
                return True
            scopes = None
        before = self._server.rounds
        raise ConsentNeeded(
            f"{shown(self._server.url)} wants authorization", ask=lambda: self._ask_once(refusal, scopes, before)
        )

    async def _without_asking(self, refusal: Refusal) -> bool:
        """Whether there is another token, of another process or for a refresh token."""
        server = self._server
        refused = server.granted
        await self._grant.reload()
        if refused is None or server.granted is None:
            return server.granted is not None
        if server.granted.tokens.access_token != refused.tokens.access_token:
            return True
        place = await self._grant.find(refusal.metadata_url)
        if (place.server.issuer, place.resource) != (refused.issuer, refused.resource):
            server.granted = None
            return False
        is_fresh = self._oauth.clock() - refused.obtained_at < _FRESH
        if is_fresh and refused.by_consent:
            raise AuthorizationError(
                f"{shown(server.url)} refuses the token that it asked for"
                + (f": {refusal.words}" if refusal.words else "")
            )
        if is_fresh:
            return False
        return await self._grant.renew(refused, lambda kept: kept is not refused) is not None

    def _step(self, granted: Granted, refusal: Refusal) -> tuple[str, ...]:
        """The scopes to ask for now, after those granted did not suffice.

        Raises:
            AuthorizationError: asking would change nothing.
        """
        server, now = self._server, self._oauth.clock()
        wanted = union(granted.asked or (), granted.scopes, refusal.scopes)
        if set(refusal.scopes) <= set(granted.scopes):
            raise AuthorizationError(
                f"{shown(server.url)} refuses for want of a scope, and the token has all that it names: "
                f"{' '.join(refusal.scopes) or 'none'}"
            )
        if now - server.stepped.get(frozenset(wanted), -PATIENCE) < PATIENCE:
            raise AuthorizationError(
                f"{shown(server.url)} wants the scopes {' '.join(refusal.scopes)}, "
                f"which were asked for and not granted less than {PATIENCE:g} seconds ago"
            )
        server.stepped = {scopes: then for scopes, then in server.stepped.items() if now - then < PATIENCE}
        return wanted

    async def _ask_once(self, refusal: Refusal, scopes: tuple[str, ...] | None, before: int) -> None:
        if self._server.rounds == before:
            await self._round(lambda: self._grant.ask(refusal, scopes))
        elif self._server.failure is not None:
            raise AuthorizationError(str(self._server.failure)) from self._server.failure

    async def _renewed(self, granted: Granted) -> Granted | None:
        """The same or newer tokens; none where they have ended and the person has to be asked."""
        server = self._server
        async with server.lock:
            if server.granted is not granted:
                return server.granted
            try:
                fresh = await self._grant.renew(granted, lambda kept: not self._ends_soon(kept))
            except (AuthorizationError, RequestFailed):
                if server.granted is None or self._has_ended(server.granted):
                    raise
            else:
                if fresh is not None:
                    server.rounds += 1
                    return fresh
        return server.granted if server.granted is not None and not self._has_ended(server.granted) else None

    async def _load(self) -> None:
        server = self._server
        if not server.loaded:
            async with server.lock:
                if not server.loaded:
                    await self._grant.reload()
                    server.loaded = True

    def _ends_soon(self, granted: Granted) -> bool:
        expires = granted.tokens.expires_at
        if expires is None:
            return False
        life = max(expires - granted.obtained_at, 0)
        return expires - self._oauth.clock() < min(_EARLY, life / 10)

    def _has_ended(self, granted: Granted) -> bool:
        return granted.tokens.expires_at is not None and granted.tokens.expires_at <= self._oauth.clock()

    def _check_origin(self, url: str) -> None:
        if url == self._checked:
            return  # nearly all requests go to one URL
        if origin(canonical(url)) != origin(self._server.url):
            raise AuthorizationError(f"credentials of {shown(self._server.url)} are not sent to {shown(url)}")
        self._checked = url


def _own_metadata(oauth: OAuth) -> ClientMetadata:
    return ClientMetadata(
        name=oauth.client_name,
        uri=oauth.client_uri,
        document=oauth.client_metadata_url,
        application_type=oauth.redirects.application_type,
    )
