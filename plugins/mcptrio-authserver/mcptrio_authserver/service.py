"""The authorization server without HTTP: the protocol logic with its store, clock, threads and network.

:mod:`.authorization_server` creates it, the handlers call it. Network requests are made before the transaction that
needs their results, so no transaction waits for another server.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from functools import partial
from typing import Any, Final, TypeVar

import trio
from attrs import evolve, frozen

from mcptrio.auth.jose import KeySet

from .authorization_requests import AuthorizationRequest, read_authorization_request
from .browser_sessions import BrowserSession, begin_session, end_session, find_session
from .client_authentication import authenticate_client
from .codes import issue_code
from .config import Config
from .forms import read_query
from .grants import TokenGrant, end_grant, find_grant, list_grants
from .ledger import Ledger, Store
from .logins import count_login, forgive_login
from .opaque import new_opaque
from .outgoing_requests import OutgoingRequests
from .refusals import Refusal, too_often
from .registration import register_client
from .signing_keys import signing_keys
from .token_requests import BEARER, TokenRequest, authenticate_sender, end_renewal, issue_tokens, upstream_of
from .token_status import introspect, revoke
from .upstream import begin_upstream_login, end_upstream_login
from .upstream_tokens import UpstreamTokens, seal_tokens
from .user_directory import UserDirectory
from .users import User, check_password

__all__ = ["AuthServerRequest", "LoginResult", "Service"]

T = TypeVar("T")

# Logins that wait for one of the two threads that hash passwords, with 64 MiB each.
_MAX_WAITING_LOGINS: Final = 50


@frozen(kw_only=True)
class AuthServerRequest:
    """A client's request, and the user who is logged in in the browser.

    Args:
        request: The authorization request.
        session: The session of the browser; ``None`` if no user is logged in.
        scopes: The requested scopes that this user may grant.
    """

    request: AuthorizationRequest
    session: BrowserSession | None
    scopes: tuple[str, ...]


@frozen(kw_only=True)
class LoginResult:
    """The result of a login attempt.

    Args:
        cookie: The new cookie of the browser; ``None`` if the login failed.
        wait: Seconds until the next attempt; 0 if it may be made now.
    """

    cookie: str | None = None
    wait: float = 0


class Service:
    """The operations of the authorization server.

    Args:
        directory: The users, if they log in here.
        outgoing: Fetches documents, keys and upstream tokens.
        clock: Returns seconds since 1970.
    """

    def __init__(
        self,
        config: Config,
        store: Store,
        directory: UserDirectory,
        outgoing: OutgoingRequests,
        clock: Callable[[], float],
    ) -> None:
        self.config = config
        self._store = store
        self._directory = directory
        self._outgoing = outgoing
        self._clock = clock
        self._hash_limiter = trio.CapacityLimiter(2)

    # The authorization endpoint

    async def read_request(self, query: bytes, cookie: str | None, address: str | None) -> AuthServerRequest:
        """Read a client's authorization request and the session of the browser.

        Raises:
            ReturnedRefusal: The request is refused; the client receives the error.
            Refusal: The request is refused; the user sees the error.
        """
        parameters = read_query(query)
        client = await self._outgoing.client(parameters.get("client_id", ""), address)
        request = read_authorization_request(self.config, client, parameters, query.decode("ascii", "replace"))
        login = await self._session(cookie)
        if login is None:
            return AuthServerRequest(request=request, session=None, scopes=request.scopes)
        session, user = login
        scopes = _allowed_scopes(request.scopes, user)
        if request.scopes and not scopes:
            raise request.refusal("access_denied", "the user may grant none of these scopes")
        return AuthServerRequest(request=request, session=session, scopes=scopes)

    async def log_in(self, name: str, password: str, address: str | None) -> LoginResult:
        """Check a user name and a password."""
        name = name.strip().lower()
        now = self._clock()
        # Counted before the password is checked, so parallel attempts cannot exceed the limit.
        wait = await self._store.transact(
            lambda ledger: count_login(ledger, self.config, name, address, now),
        )
        if wait > 0:
            return LoginResult(wait=wait)
        # Hashing is slow on purpose: without a limit, many logins at once would delay all others for minutes.
        if self._hash_limiter.statistics().tasks_waiting >= _MAX_WAITING_LOGINS:
            raise too_often(5)
        users = await self._directory.users()
        user = users.get(name)
        is_valid = await trio.to_thread.run_sync(check_password, user, password, limiter=self._hash_limiter)
        if user is None or not is_valid:
            return LoginResult()

        def begin(ledger: Ledger) -> str:
            forgive_login(ledger, self.config, name, address)
            return begin_session(ledger, self.config, user, now)

        return LoginResult(cookie=await self._store.transact(begin))

    async def log_out(self, cookie: str) -> None:
        await self._store.transact(partial(end_session, cookie=cookie))

    async def session(self, cookie: str | None) -> BrowserSession | None:
        """Return the session of a browser; ``None`` if no user is logged in there."""
        login = await self._session(cookie)
        return login[0] if login is not None else None

    async def grants(self, session: BrowserSession) -> Sequence[TokenGrant]:
        """Return the grants of the user of a session, the oldest first."""
        return await self._store.transact(partial(list_grants, subject=session.user))

    async def end_grant(self, session: BrowserSession, id: str) -> None:
        """End a grant of the user of a session. Grants of other users, and grants that have ended, stay unchanged."""

        def end(ledger: Ledger) -> None:
            grant = find_grant(ledger, id)
            if grant is not None and grant.subject == session.user:
                end_grant(ledger, id)

        await self._store.transact(end)

    async def allow(self, authorization: AuthServerRequest, scopes: tuple[str, ...]) -> str:
        """Record the user's consent.

        Args:
            authorization: The request and the session.
            scopes: The scopes to which the user consents.

        Returns:
            The URL to which the browser is redirected.
        """
        session, request = authorization.session, authorization.request
        assert session is not None
        code = await self._store.transact(
            lambda ledger: issue_code(
                ledger,
                self.config,
                request,
                subject=session.user,
                scopes=scopes,
                auth_time=session.auth_time,
                now=self._clock(),
            )
        )
        return request.answer(code)

    # The upstream provider

    async def send_upstream(
        self, authorization: AuthServerRequest, scopes: tuple[str, ...], browser: str, address: str | None
    ) -> str:
        """Record the consent of a user who will log in at the provider; return the provider's URL.

        Raises:
            Refusal: The provider is unreachable, or the address has started too many logins.
        """
        provider = await self._outgoing.provider()
        return await self._store.transact(
            lambda ledger: begin_upstream_login(
                ledger,
                self.config,
                provider,
                browser=browser,
                address=address,
                query=authorization.request.query,
                scopes=scopes,
                now=self._clock(),
            )
        )

    async def return_from_upstream(self, query: bytes, browser: str, address: str | None) -> str:
        """Process the redirect from the provider; return the URL to which the browser goes next.

        Raises:
            Refusal: This server did not send the browser to the provider.
            ReturnedRefusal: The provider refused; the client receives the error.
        """
        answer = read_query(query)
        login = await self._store.transact(partial(end_upstream_login, state=answer.get("state", ""), browser=browser))
        # Read again: settings or the client may have changed while the user was at the provider.
        authorization = await self.read_request(login.query.encode(), None, address)
        try:
            tokens = await self._outgoing.exchange(login, answer)
        except Refusal as refusal:
            error = "temporarily_unavailable" if refusal.status == 503 else "access_denied"
            raise authorization.request.refusal(error, refusal.description) from None
        code = new_opaque("mcpac_")
        now = self._clock()
        await self._store.transact(
            lambda ledger: issue_code(
                ledger,
                self.config,
                authorization.request,
                subject=f"upstream:{tokens.subject}",
                scopes=tuple(scope for scope in login.scopes if scope in authorization.scopes),
                auth_time=now,
                now=now,
                code=code,
                upstream=seal_tokens(tokens, code),
            )
        )
        return authorization.request.answer(code)

    async def provider_endpoint(self) -> str | None:
        """Return the URL at which users log in upstream; ``None`` if they log in here.

        Raises:
            Refusal: The provider is unreachable.
        """
        if self.config.upstream is None:
            return None
        return (await self._outgoing.provider()).authorization_endpoint

    # The endpoints of clients

    async def token(
        self, form: Mapping[str, str], authorization: str | None, proofs: Sequence[str], address: str | None
    ) -> tuple[dict[str, Any], dict[str, str]]:
        """Return body and headers of a token response.

        Raises:
            Refusal: The request is refused.
        """
        credentials = await self._outgoing.credentials(form, authorization, address)
        request = TokenRequest(form=form, credentials=credentials, proofs=proofs, address=address)
        keys = await self._outgoing.issuer_keys(form["assertion"]) if _is_assertion(form) else KeySet(())
        refreshes = form.get("grant_type") == "refresh_token"
        users = await self._directory.users() if refreshes and self.config.upstream is None else None

        def begin(ledger: Ledger) -> tuple[Any, UpstreamTokens | None]:
            now = self._clock()
            requester = authenticate_sender(ledger, self.config, request, now)
            return requester, upstream_of(ledger, requester, request, now)

        # Two transactions, because the request to the upstream provider is sent between them.
        requester, upstream = await self._store.transact(begin)
        if refreshes:
            request = evolve(request, users=users)
            if upstream is not None:
                renewed: UpstreamTokens | Refusal
                try:
                    renewed = await self._outgoing.renew(upstream, form["refresh_token"], requester.client.id)
                except Refusal as refusal:
                    renewed = refusal
                if isinstance(renewed, Refusal):
                    await self._store.transact(partial(end_renewal, request=request))
                    raise renewed
                request = evolve(request, upstream=renewed)
        return await self._store.transact(
            lambda ledger: issue_tokens(ledger, self.config, requester, request, keys, self._clock()),
        )

    async def register(self, document: Mapping[str, Any], address: str | None) -> dict[str, Any]:
        """Register a client; return the body of the response.

        Raises:
            Refusal: The registration is refused.
        """
        return await self._store.transact(
            lambda ledger: register_client(ledger, self.config, document, address=address, now=self._clock()),
        )

    async def introspect(
        self, form: Mapping[str, str], authorization: str | None, address: str | None
    ) -> dict[str, Any]:
        """Return the introspection response for a token.

        Raises:
            Refusal: The client may not introspect tokens.
        """
        credentials = await self._outgoing.credentials(form, authorization, address)

        def work(ledger: Ledger) -> dict[str, Any]:
            now = self._clock()
            client = authenticate_client(ledger, self.config, credentials, address=address, now=now)
            return introspect(ledger, self.config, client, form, now)

        return await self._store.transact(work)

    async def revoke(self, form: Mapping[str, str], authorization: str | None, address: str | None) -> None:
        """Revoke a token.

        Raises:
            Refusal: The client is not authenticated, or the request names no token.
        """
        credentials = await self._outgoing.credentials(form, authorization, address)

        def work(ledger: Ledger) -> None:
            now = self._clock()
            client = authenticate_client(ledger, self.config, credentials, address=address, now=now)
            revoke(ledger, self.config, client, form, now)

        await self._store.transact(work)

    async def keys(self) -> dict[str, Any]:
        """Return the published JWK set."""
        keys = await self._store.transact(lambda ledger: signing_keys(ledger, self.config, self._clock()))
        return keys.published.document

    # Private

    async def _session(self, cookie: str | None) -> tuple[BrowserSession, User] | None:
        if cookie is None or self.config.upstream is not None:
            return None
        users = await self._directory.users()
        session = await self._store.transact(partial(find_session, cookie=cookie, users=users))
        return (session, users[session.user]) if session is not None else None


def _allowed_scopes(scopes: tuple[str, ...], user: User) -> tuple[str, ...]:
    return scopes if user.scopes is None else tuple(scope for scope in scopes if scope in {*user.scopes})


def _is_assertion(form: Mapping[str, str]) -> bool:
    return form.get("grant_type") == BEARER and "assertion" in form
