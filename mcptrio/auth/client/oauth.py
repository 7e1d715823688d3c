"""OAuth on behalf of a user: login, renewal and logout.

``connect`` creates an :class:`OAuthClient` from an :class:`OAuth`. :mod:`mcptrio.auth.client.engine` decides when a
user is asked; :class:`UserGrant` asks, renews and stores.

Source: MCP 2026-07-28, basic/authorization, and basic/authorization/client-registration, "Authorization Server
Binding"; RFC 6750; RFC 9449.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import ClassVar, Final

from attrs import Factory, evolve, field, frozen

from mcptrio.abc import Fetch, TokenStore
from mcptrio.auth.challenges import ChallengeResponse
from mcptrio.auth.client.authorization_code import Attempt, exchange, read_code
from mcptrio.auth.client.credentials import Binding, Credentials, Granted
from mcptrio.auth.client.engine import GrantClient
from mcptrio.auth.client.grants import (
    MAX_STEP_UPS,
    USER_TIMEOUT,
    Grant,
    GrantMethod,
    GrantRequest,
    text_tuple,
)
from mcptrio.auth.client.loopback import LoopbackRedirects
from mcptrio.auth.client.redirects import Redirect, Redirects
from mcptrio.auth.client.registration import ClientMetadata, PreRegistered, Registered, register
from mcptrio.auth.discovery import TokenSource
from mcptrio.auth.metadata import ServerMetadata
from mcptrio.auth.scopes import with_offline
from mcptrio.auth.token_requests import ClientIdentity, TokenRefused, Tokens, refresh_tokens, revoke_token
from mcptrio.auth.urls import shown
from mcptrio.errors import AuthorizationError, RequestFailed
from mcptrio.ground.nurseries import delay_cancellation
from mcptrio.ground.secret import Secret

__all__ = ["OAuth", "OAuthClient"]

# Seconds for which a renewal continues after its request was cancelled.
_RENEWAL_SECONDS: Final = 5.0
# Errors after which a refresh token is no longer usable.
_FINAL_ERRORS: Final = frozenset(
    {
        "invalid_client",
        "invalid_grant",
        "invalid_scope",
        "invalid_target",
        "unauthorized_client",
        "unsupported_grant_type",
    }
)


@frozen(kw_only=True)
class OAuth(GrantMethod):
    """OAuth for a client that acts for a user. One value serves any number of servers and clients.

    Args:
        client_name: The name of the program that users see when they consent.
        redirects: The way in which users are sent to the authorization server and return. By default, the URL is
            printed, and the browser is redirected to a port on this machine.
        store: Keeps tokens and registrations; by default they are kept in this value.
        scopes: The scopes to request in addition to those that the server asks for.
        client: A pre-registered client, for authorization servers without client registration.
        client_metadata_url: The URL of the program's Client ID Metadata Document, which servers that support it accept
            as its client id.
        client_uri: The URL of a page about the program.
        private_servers: URLs of authorization servers that may be in private networks. Others must have public
            addresses, unless they have the server's own origin.
        dpop: Whether tokens are bound to a key of the client: ``auto`` (if the server asks for it), ``always`` or
            ``never``.
        clock: Returns seconds since 1970.

    Raises:
        ConfigError: The client has a secret or a key and no issuer.
    """

    client_name: str = "mcptrio"
    redirects: Redirects = field(factory=LoopbackRedirects)
    store: TokenStore | None = field(default=None, repr=False)
    client: PreRegistered | None = None
    client_metadata_url: str | None = None
    client_uri: str | None = None
    private_servers: tuple[str, ...] = field(default=(), converter=text_tuple)
    # Issuers found for a pre-registered client. Without a configured issuer, the client belongs to the first of them.
    _seen_issuers: dict[str, None] = field(factory=dict, init=False, repr=False, eq=False)
    _credentials: Credentials = field(
        default=Factory(lambda self: Credentials(self.store), takes_self=True), init=False, repr=False, eq=False
    )
    _metadata: ClientMetadata = field(
        default=Factory(
            lambda self: ClientMetadata(
                name=self.client_name,
                uri=self.client_uri,
                document=self.client_metadata_url,
                application_type=self.redirects.application_type,
            ),
            takes_self=True,
        ),
        init=False,
        repr=False,
        eq=False,
    )

    def __attrs_post_init__(self) -> None:
        if self.client is not None:
            self.client.check_issuer()

    @property
    def named_servers(self) -> Sequence[str]:
        """See :class:`mcptrio.abc.AuthMethod`."""
        client_issuer = () if self.client is None or self.client.issuer is None else (self.client.issuer,)
        return (*self.private_servers, *client_issuer)

    def client_auth(self, url: str, fetch: Fetch) -> OAuthClient:
        """See :class:`mcptrio.abc.AuthMethod`. Clients of one server share its tokens.

        Raises:
            AuthorizationError: The URL is not an http or https URL.
        """
        return OAuthClient(UserGrant(self, self._state_of(url), fetch))


class OAuthClient(GrantClient):
    """Authorizes the requests to one server. Made by :meth:`OAuth.client_auth`."""

    def __init__(self, grant: UserGrant) -> None:
        super().__init__(grant)
        self._user = grant

    async def log_in(self, headers: Mapping[str, str] | None = None) -> None:
        """Ask the user to log in now, even if tokens exist.

        Args:
            headers: The headers of the server's response to a request without credentials, with names in lower case.
                They may name its metadata and scopes.

        Raises:
            AuthorizationError: The user refused, or the login failed.
            RequestFailed: The server's metadata or the authorization server is unreachable.
        """
        await self._load()
        refusal = ChallengeResponse.read(headers or {})
        await self._run_round(lambda: self._obtain(refusal, None))

    async def log_out(self) -> bool:
        """Delete the tokens, and revoke them if the authorization server supports it.

        Returns:
            True if tokens existed.
        """
        await self._load()
        server = self._server
        async with server.lock:
            await self._user.revoke()
            server.granted = server.binding = server.source = None
            return await self._user.method._credentials.forget(server.url)


class UserGrant(Grant[OAuth]):
    """The grant in which a user logs in, for one server."""

    needs_user: ClassVar[bool] = True

    async def obtain(self, request: GrantRequest) -> Granted:
        """Send the user to the authorization server, and exchange the code for tokens."""
        oauth, prompted_at, now = self.method, self.server.prompted_at, self.method.clock()
        # A server that rejects every token must not cause an endless series of logins.
        if len(prompted_at) == MAX_STEP_UPS and now - prompted_at[0] < USER_TIMEOUT:
            raise AuthorizationError(
                f"{shown(self.server.url)} requires authorization again; "
                f"the user was asked {MAX_STEP_UPS} times within {USER_TIMEOUT:g} seconds"
            )
        source = request.source
        request = evolve(request, scopes=with_offline(request.scopes, source.server))
        known = await self.method._credentials.client(source.server.issuer)
        issuer = None if self._has_fixed_redirect(source.server) else source.server.issuer
        async with oauth.redirects.open(() if known is None else known.redirect_uris, issuer) as redirect:
            client, registered = await self._register_client(request, known, redirect)
            attempt = Attempt(
                server=source.server,
                client=client,
                resource=source.resource,
                redirect_uri=redirect.uri,
                scopes=request.scopes,
                prover=request.prover,
            )
            prompted_at.append(now)
            code = read_code(attempt, await redirect.authorize(attempt.url))
        return request.granted(await self._exchange_code(attempt, code), client=registered)

    async def renew(self, granted: Granted, is_usable: Callable[[Granted], bool]) -> Granted | None:
        """Return tokens that another process has stored, or refresh the current ones."""
        # Processes that share the store take turns: to the authorization server, a refresh token that is used twice is
        # stolen, so it ends the login.
        async with self.method._credentials.lock(self.server.url):
            await self.load()
            kept = self.server.granted
            if kept is None or is_usable(kept):
                return kept
            if (kept.issuer, kept.resource) != (granted.issuer, granted.resource):
                return None
            return await self._refresh(kept)

    async def _refresh(self, granted: Granted) -> Granted | None:
        server = self.server
        if granted.tokens.refresh_token is None or server.binding is None:
            return None
        source = server.source or await self.find(server.binding.metadata_url)
        client = self.client_of(granted, source.server)
        if client is None or (source.server.issuer, source.resource) != (granted.issuer, granted.resource):
            return None
        flow = refresh_tokens(
            source.server,
            client,
            granted.tokens,
            resource=granted.resource,
            prover=granted.prover,
            clock=self.method.clock,
        )
        # Once the refresh token is sent, only the response may contain a valid one, so a cancelled request still waits.
        async with delay_cancellation(_RENEWAL_SECONDS):
            try:
                tokens = await self.drive(flow)
            except TokenRefused as refused:
                if refused.code not in _FINAL_ERRORS:
                    # The server may recover, and then the refresh token still works.
                    raise
                await self._forget_unknown_client(refused.code, source.server, client)
                server.granted = None
                await self.method._credentials.forget_tokens(server.binding)
                return None
            fresh = evolve(granted, tokens=tokens, obtained_at=self.method.clock(), is_from_grant=False)
            await self.keep(server.binding, fresh)
        return fresh

    async def load(self) -> None:
        """Load the tokens that another process may have stored."""
        server = self.server
        binding = await self.method._credentials.binding(server.url)
        granted = None if binding is None else await self.method._credentials.granted(binding)
        same = (
            granted is not None
            and server.granted is not None
            and granted.tokens.access_token == server.granted.tokens.access_token
        )
        # Keep the object of unchanged tokens: callers compare it by identity, and its DPoP signer has the server's
        # nonce.
        if not same:
            server.granted = granted
        server.binding = binding

    async def has_moved(self, granted: Granted, metadata_url: str | None) -> bool:
        source = await self.find(metadata_url)
        return (source.server.issuer, source.resource) != (granted.issuer, granted.resource)

    async def find(self, metadata_url: str | None) -> TokenSource:
        source = await super().find(metadata_url)
        if self.method.client is not None:
            self.method._seen_issuers.setdefault(source.server.issuer)
        return source

    def pinned_issuer(self) -> str | None:
        """See ``Grant``. Only a pre-registered client belongs to one authorization server."""
        if self.method.client is None:
            return None
        before = None if self.server.binding is None else self.server.binding.issuer
        return self.method.client.issuer or next(iter(self.method._seen_issuers), before)

    def other_issuer_message(self, pinned: str, issuer: str) -> str:
        return (
            f"the client is registered at {shown(pinned)}, but {shown(self.server.url)} requires tokens of "
            f"{shown(issuer)}: register a client there, and configure it"
        )

    async def revoke(self) -> None:
        """Revoke the refresh token if the authorization server supports it."""
        granted = self.server.granted
        if granted is None or granted.tokens.refresh_token is None:
            return
        try:
            source = await self.find(None)
            client = self.client_of(granted, source.server)
            if client is not None and source.server.issuer == granted.issuer:
                await self.drive(revoke_token(source.server, client, granted.tokens.refresh_token))
        except (AuthorizationError, RequestFailed):
            # Not revoked; the token expires on its own.
            pass

    async def keep(self, binding: Binding, granted: Granted) -> None:
        self.server.binding, self.server.granted = binding, granted
        await self.method._credentials.keep(self.server.url, binding, granted)

    def client_of(self, granted: Granted, server: ServerMetadata) -> ClientIdentity | None:
        """Return the client to which tokens were granted, or ``None`` if it is unknown now."""
        # The program may have registered again since, under another id.
        if granted.client is not None:
            return granted.client.identity
        if self.method.client is not None:
            return self.method.client
        if self.method._metadata.document is not None and server.client_id_metadata_document_supported:
            return ClientIdentity(client_id=self.method._metadata.document, method="none")
        return None

    # Private

    async def _register_client(
        self, request: GrantRequest, known: Registered | None, redirect: Redirect
    ) -> tuple[ClientIdentity, Registered | None]:
        """Return the client to use, and its dynamic registration if it has one."""
        source, scopes = request.source, request.scopes
        server = source.server
        if self.method.client is not None:
            return self.method.client, None
        is_fixed = self._has_fixed_redirect(server)
        if known is not None and not is_fixed and known.covers(redirect.uri, scopes, self.method.clock()):
            return known.identity, known
        # Register with all scopes that a later step-up may need: a second registration would have another client id.
        offered = source.metadata.scopes_supported if source.metadata is not None else None
        bound, later_scopes = request.prover is not None, offered or ()
        registered = await self.drive(
            register(
                server,
                self.method._metadata,
                [redirect.uri],
                scopes=scopes,
                later_scopes=later_scopes,
                bound_tokens=bound,
            )
        )
        if not registered.redirect_uris:
            return registered.identity, None
        await self.method._credentials.keep_client(server.issuer, registered)
        return registered.identity, registered

    def _has_fixed_redirect(self, server: ServerMetadata) -> bool:
        # The operator registers the redirect URIs of a pre-registered client; a metadata document lists its own.
        has_document = self.method._metadata.document is not None and server.client_id_metadata_document_supported
        return self.method.client is not None or has_document

    async def _exchange_code(self, attempt: Attempt, code: Secret) -> Tokens:
        refused: TokenRefused
        try:
            return await self.drive(exchange(attempt, code, clock=self.method.clock))
        except TokenRefused as error:
            refused = error
        await self._forget_unknown_client(refused.code, attempt.server, attempt.client)
        raise refused

    async def _forget_unknown_client(self, code: str, server: ServerMetadata, client: ClientIdentity) -> None:
        """Delete the registration if the server no longer knows the client; the next login registers again."""
        if code == "invalid_client" and self.method.client is None:
            await self.method._credentials.forget_client(server.issuer, client.client_id)
