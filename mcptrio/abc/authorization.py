"""Interfaces and values of authorization, for servers and clients.

``mcptrio.auth`` and ``mcptrio.stores`` implement the interfaces; the HTTP transport calls them.

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
    """The authenticated sender of a request. A session never authenticates; it is bound to one principal.

    Args:
        subject: The name that the issuer gives to the user or client.
        issuer: The issuer of the token.
        client_id: The OAuth client that sent the request.
        scopes: The granted scopes, and the scopes that these include.
        claims: The other claims of the token.
    """

    subject: str
    issuer: str | None = None
    client_id: str | None = None
    scopes: frozenset[str] = frozenset()
    # Not compared: two tokens of one user differ in their claims, and must give the same principal.
    claims: Mapping[str, Any] = field(factory=dict, eq=False, repr=False)

    @property
    def identity(self) -> tuple[str | None, str, str | None]:
        """The issuer, subject and client, without the scopes of the token."""
        return self.issuer, self.subject, self.client_id


@frozen(kw_only=True)
class RequestHead:
    """The parts of an HTTP request that are known before its body.

    Args:
        method: The method as received, for example ``POST``.
        url: The public URL as the client wrote it, without query and fragment.
        headers: All values of each header in the order received; names are in lower case.
        query: The query as received. It serves only to refuse requests that carry a token in it.
        address: The address of the client; ``None`` on sockets without addresses.
        is_outside_endpoint: True if the path is not the MCP endpoint, for example a WebSocket, HTTP with SSE or
            ``/metrics``.
        certificate: The client certificate in DER, if TLS requested one and verified it.
    """

    method: str
    url: str
    # Hidden from repr, because it contains credentials.
    headers: Mapping[str, Sequence[str]] = field(repr=False)
    # A query may contain a token by mistake.
    query: str = field(default="", repr=False)
    address: str | None = None
    is_outside_endpoint: bool = False
    certificate: bytes | None = field(default=None, repr=False)


class Guard(Protocol):
    """Authenticates HTTP requests. Implemented by :class:`mcptrio.auth.ResourceServer`."""

    @property
    def documents(self) -> Mapping[str, bytes]:
        """Public JSON documents by path (RFC 9728)."""
        ...

    async def admit(self, request: RequestHead) -> Principal | None:
        """Return the principal that sends the request.

        Raises:
            AuthorizationError: The request is rejected; the error has the status and the challenge of the response.
            RateLimited: The client sent too many requests.
            Overloaded: The credentials cannot be checked now.
        """
        ...

    def recheck_after(self, principal: Principal) -> float:
        """Return the seconds after which the credentials of an open connection are checked again.

        This is the expiry of the token, or earlier, since a token may be revoked.
        """
        ...

    async def recheck(self, request: RequestHead, principal: Principal) -> Principal:
        """Check the credentials of an admitted request again, except a proof of possession, which is valid once.

        Args:
            principal: The principal that :meth:`admit`, or the last call of this method, returned.

        Raises:
            AuthorizationError: The credentials are no longer valid. The connection is closed.
            Overloaded: The credentials cannot be checked now. The connection is closed if this persists.
        """
        ...

    def insufficient_scope(
        self, request: RequestHead, principal: Principal, scopes: frozenset[str]
    ) -> AuthorizationError:
        """Return the error for a principal that lacks scopes, with status 403 and the scopes to request next.

        Args:
            scopes: All scopes that the operation requires.
        """
        ...


@frozen(kw_only=True)
class OwnIssuer:
    """An authorization server that a plugin provides; the ``[auth]`` settings are compared with it.

    Args:
        issuer: The issuer in its tokens.
        scopes: The scopes that it offers.
        resources: The resources that it issues tokens for; empty for all with the scheme, host and port of the issuer.
    """

    issuer: str
    scopes: frozenset[str] = frozenset()
    resources: Sequence[str] = ()


class TokenVerifier(Protocol):
    """Verifies access tokens. The caller checks the scheme and the proof of possession."""

    def recognizes(self, token: str, issuer: str | None) -> bool | None:
        """Return whether the token belongs to this verifier, judged by its text alone.

        ``True``: the token belongs to this verifier, and no other verifier receives it. ``False``: it belongs to
        another. ``None``: the text does not tell. If no verifier returns ``True``, those that returned ``None`` verify
        the token in turn.

        Args:
            issuer: The issuer that the token names, unverified; ``None`` if it is not a JWT or names no issuer.
        """
        ...

    async def verify(self, token: str) -> Principal | None:
        """Return the principal of a token.

        The claims contain ``exp`` (seconds since 1970) if the token expires, and ``cnf`` if it is bound to a key.

        Returns:
            ``None`` if the token is invalid: unknown, expired, or for another audience or from another issuer.

        Raises:
            AuthorizationError: The token is genuine but invalid, for example expired. The sender may read the reason.
            Overloaded: The token cannot be verified now.
        """
        ...


@frozen(kw_only=True)
class FetchRequest:
    """A small HTTP request of an authorization flow.

    Args:
        url: An absolute ``https`` URL, or ``http`` if that is allowed.
        headers: Headers with names in lower case.
    """

    url: str
    method: str = "GET"
    # May contain client credentials.
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


@frozen(kw_only=True)
class FetchResponse:
    """The response to a ``FetchRequest``.

    Args:
        headers: Headers with names in lower case; values of the same name are joined by commas.
        body: The complete body.
    """

    status: int
    headers: Mapping[str, str] = field(factory=dict, repr=False)
    body: bytes = field(default=b"", repr=False)


class Fetch(Protocol):
    """Sends one request of an authorization flow, limited in size and time, without redirects or cookies."""

    async def __call__(self, request: FetchRequest) -> FetchResponse:
        """Send the request and return the response.

        Raises:
            RequestFailed: No response came, it was too large, or the address is not allowed.
        """
        ...


class TokenStore(Protocol):
    """Stores the credentials of a client: one JSON object per key. Every value is secret."""

    async def load(self, key: str) -> Mapping[str, Any] | None:
        """Return the value of a key, or ``None`` if it has none."""
        ...

    async def save(self, key: str, value: Mapping[str, Any]) -> None:
        """Store the value of a key, and replace an earlier one."""
        ...

    async def delete(self, key: str) -> bool:
        """Delete the value of a key and return whether it existed."""
        ...

    async def keys(self) -> Sequence[str]:
        """Return the keys that have a value."""
        ...

    def lock(self, key: str) -> AbstractAsyncContextManager[None]:
        """Hold the exclusive right, among all processes that use the store, to renew the value of a key.

        A refresh token is valid once. Two processes that use it at the same time end the login (RFC 9700 section
        4.14.2).
        """
        ...


class ClientAuth(Protocol):
    """Authorizes a client's HTTP requests."""

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        """Return the headers that authorize a request, e.g. ``Authorization``; empty before there are credentials."""
        ...

    async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        """Handle a response with status 401 or 403.

        Args:
            headers: The headers of the response, with names in lower case.

        Returns:
            True if new credentials are available and the request should be sent once more.

        Raises:
            AuthorizationError: No credentials can be obtained; the message has the reason.
        """
        ...


class AuthMethod(Protocol):
    """How a client obtains credentials, for any server: :class:`mcptrio.auth.OAuth` and other grants.

    The code that opens a connection calls :meth:`client_auth` and provides the HTTP client.
    """

    @property
    def named_servers(self) -> Sequence[str]:
        """URLs of authorization servers that the user has configured.

        These may have any address. Authorization servers that a remote server names must have public addresses.
        """
        ...

    def client_auth(self, url: str, fetch: Fetch) -> ClientAuth:
        """Return the authorization of the requests to one server.

        Args:
            url: The ``http`` or ``https`` URL of the server; its credentials are sent to no other server.
            fetch: Sends the requests of the authorization flow.
        """
        ...
