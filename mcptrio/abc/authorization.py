"""Who asks, who may, and what the two sides of authorization need of the rest.

Implemented in :mod:`mcptrio.auth`, :mod:`mcptrio.stores` and :mod:`mcptrio.transports`, which are strangers.

Source: MCP 2026-07-28, basic/authorization.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import AbstractAsyncContextManager
from typing import Any, Protocol

from attrs import field, frozen

from mcptrio.errors import AuthorizationError

__all__ = [
    "AuthMethod",
    "ClientAuth",
    "Fetch",
    "FetchRequest",
    "FetchResponse",
    "Guard",
    "OwnIssuer",
    "Principal",
    "RequestHead",
    "TokenStore",
    "TokenVerifier",
]


@frozen(kw_only=True)
class Principal:
    """Who was authenticated. Sessions never authenticate; a session is bound to its principal.

    Args:
        subject: who, as the issuer names them.
        issuer: of the token.
        client_id: the client they use.
        scopes: what the token is good for: what was granted, and what that includes.
        claims: what else the token says.
    """

    subject: str
    issuer: str | None = None
    client_id: str | None = None
    scopes: frozenset[str] = frozenset()
    claims: Mapping[str, Any] = field(factory=dict, eq=False, repr=False)

    @property
    def identity(self) -> tuple[str | None, str, str | None]:
        """Who it is and with which client, whatever the token is good for."""
        return self.issuer, self.subject, self.client_id


@frozen(kw_only=True)
class RequestHead:
    """What is known of an HTTP request before its body.

    Args:
        method: as it came: ``POST``.
        url: where it was sent to, without query and fragment: the public address, as the client wrote it.
        headers: of each name in lower case all values, in the order in which they came.
        query: as it came, only for refusing what has no place there: a token.
        address: of the client, as far as it is known; ``None`` on sockets that have none.
        is_beside: whether it is for a path beside the endpoint: a WebSocket, HTTP with SSE.
        certificate: the client's own, DER, where TLS asked for one and has found it good.
    """

    method: str
    url: str
    headers: Mapping[str, Sequence[str]] = field(repr=False)
    query: str = field(default="", repr=False)
    address: str | None = None
    is_beside: bool = False
    certificate: bytes | None = field(default=None, repr=False)


class Guard(Protocol):
    """Lets HTTP requests in. Implemented by :class:`mcptrio.auth.ResourceServer`."""

    @property
    def documents(self) -> Mapping[str, bytes]:
        """What anybody may read: JSON, by path (RFC 9728)."""
        ...

    async def admit(self, request: RequestHead) -> Principal | None:
        """Who sends it.

        Raises:
            AuthorizationError: nobody who may, with the status and the challenge to answer with.
            RateLimited: there was too much of it from there.
            Overloaded: that cannot be found out now.
        """
        ...

    def recheck_after(self, principal: Principal) -> float:
        """Seconds after which the credentials of an admitted request are looked at again, if its connection stays open:
        at the end of the token, or earlier, since it may be revoked."""
        ...

    async def recheck(self, request: RequestHead, principal: Principal) -> Principal:
        """Whether an admitted request would still be admitted, apart from what is good once (a proof of possession).

        Args:
            principal: what :meth:`admit`, or the last call, returned.

        Raises:
            AuthorizationError: it would not. The connection ends.
            Overloaded: that cannot be found out now. The connection ends if that lasts.
        """
        ...

    def demand(self, request: RequestHead, principal: Principal, scopes: frozenset[str]) -> AuthorizationError:
        """What is said to a principal that lacks scopes: 403, with all it should ask for next.

        Args:
            scopes: everything the operation needs.
        """
        ...


@frozen(kw_only=True)
class OwnIssuer:
    """An authorization server that a plugin is, so that ``[auth]`` can be compared with it.

    Args:
        issuer: as its tokens name it.
        scopes: that it offers.
        resources: that it gives tokens for; empty for all with the issuer's scheme, host and port.
    """

    issuer: str
    scopes: frozenset[str] = frozenset()
    resources: Sequence[str] = ()


class TokenVerifier(Protocol):
    """Says whose an access token is. What is right for all tokens (scheme, proof of possession) is not its business."""

    def is_own(self, token: str, issuer: str | None) -> bool | None:
        """Whether the token belongs to this verifier, as far as its text shows.

        ``True``: it does, and no other verifier gets to see it. ``False``: it does not. ``None``: the text does not
        show it; the token then goes to each verifier that answered ``None``, if none answered ``True``.

        Args:
            issuer: that the token names, unverified; ``None`` where it is no JWT, or names none.
        """
        ...

    async def verify(self, token: str) -> Principal | None:
        """Whose it is; ``None`` where it is not good here: unknown, expired, for another audience, from another issuer.

        The claims have ``exp`` (seconds since 1970) where it expires, and ``cnf`` where it is bound to a key.

        Raises:
            AuthorizationError: the token is not good, for a reason that its sender may read: that it has expired, say.
                Only after the token has shown that it is genuine.
            Overloaded: that cannot be found out now.
        """
        ...


@frozen(kw_only=True)
class FetchRequest:
    """A small HTTP request of a flow of authorization.

    Args:
        url: absolute, ``https``, or ``http`` where that is allowed.
        headers: names in lower case.
    """

    url: str
    method: str = "GET"
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


@frozen(kw_only=True)
class FetchResponse:
    """
    Args:
        headers: names in lower case; of several with the same name the values joined by commas.
        body: all of it.
    """

    status: int
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


class Fetch(Protocol):
    """Sends one such request, bounded in size and time; follows no redirect, keeps no cookie."""

    async def __call__(self, request: FetchRequest) -> FetchResponse:
        """
        Raises:
            RequestFailed: no answer, too large a one, or an address that may not be reached.
        """
        ...


class TokenStore(Protocol):
    """Keeps what a client was granted: a JSON object by key. All of it is secret."""

    async def load(self, key: str) -> Mapping[str, Any] | None: ...

    async def save(self, key: str, value: Mapping[str, Any]) -> None: ...

    async def delete(self, key: str) -> bool:
        """Whether it was there."""
        ...

    async def keys(self) -> Sequence[str]: ...

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Hold the right to renew what is kept under a key, against every process that uses the store.

        A refresh token is good for one use: processes that spend it at the same time end the login (RFC 9700 section
        4.14.2).
        """
        ...


class ClientAuth(Protocol):
    """Authorizes a client's HTTP requests."""

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """What to send with a request, e.g. ``Authorization``; empty where there is nothing yet."""
        ...

    async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        """The server refused with 401 or 403; ``headers`` are its answer's, in lower case.

        Returns:
            Whether there are other credentials now, with which the request is worth one more try.

        Raises:
            AuthorizationError: there will be none, and why.
        """
        ...


class AuthMethod(Protocol):
    """How a client comes by credentials, said once and for any server: :class:`mcptrio.auth.OAuth` and other grants.

    Whoever opens a connection makes the authorization of its requests from it, and lends it an HTTP client.
    """

    @property
    def named_servers(self) -> Sequence[str]:
        """URLs of authorization servers that the user has named himself: they are reached wherever they are, while
        those that others name have to be public."""
        ...

    def client_auth(self, url: str, fetch: Fetch) -> ClientAuth:
        """What authorizes the requests to one server.

        Args:
            url: of the server, ``http`` or ``https``; credentials for it are sent nowhere else.
            fetch: sends the requests of the flow.
        """
        ...
