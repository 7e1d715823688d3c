"""Workload identity: a program authenticates with a token of the platform on which it runs.

Kubernetes, clouds and CI systems issue such signed tokens (JWT) for the authorization server, which trusts the
platform. No secret is stored and no client is registered.

Source: MCP extension Workload Identity Federation (SEP-1933); RFC 7523 sections 2.1 and 3; RFC 7521 section 4.1.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256

from attrs import define, field, frozen

from mcptrio.abc import Fetch
from mcptrio.auth.client.credentials import Granted
from mcptrio.auth.client.engine import GrantClient
from mcptrio.auth.client.grants import JWT_BEARER, Grant, GrantMethod, GrantRequest
from mcptrio.auth.jose import BadToken, peek
from mcptrio.auth.metadata import ServerMetadata
from mcptrio.auth.token_requests import TokenRefused
from mcptrio.auth.urls import shown
from mcptrio.errors import AuthorizationError
from mcptrio.ground.secret import Secret

__all__ = ["WorkloadIdentity"]


@define
class _Rejected:
    """The last assertion that a server's authorization server rejected, and its error."""

    digest: bytes = b""
    failure: TokenRefused | None = None


@frozen(kw_only=True)
class WorkloadIdentity(GrantMethod):
    """Tokens for a program that its platform identifies. One value serves any number of servers.

    Args:
        assertion: Returns the platform's token, a new one if it has expired; for example, it reads the token's file.
        issuer: The authorization server that trusts the platform; a server that names another one is rejected. ``None``
            accepts each that the assertion names as its audience (``aud``), by its issuer or token endpoint URL,
            character by character.
        scopes: The scopes to request in addition to those in a challenge; by default those that the server supports.
        dpop: Whether tokens are bound to a key of the client: ``auto`` (if the server asks for it), ``always`` or
            ``never``.
        clock: Returns seconds since 1970.
    """

    assertion: Callable[[], Awaitable[Secret]] = field(repr=False)
    issuer: str | None = None
    _rejected: dict[str, _Rejected] = field(factory=dict, init=False, repr=False, eq=False)

    @property
    def named_servers(self) -> Sequence[str]:
        """See :class:`mcptrio.abc.AuthMethod`."""
        return () if self.issuer is None else (self.issuer,)

    def client_auth(self, url: str, fetch: Fetch) -> GrantClient:
        """See :class:`mcptrio.abc.AuthMethod`. Clients of one server share its token.

        Raises:
            AuthorizationError: The URL is not an http or https URL.
        """
        return GrantClient(_WorkloadGrant(self, self._state_of(url), fetch, issuer=self.issuer))


class _WorkloadGrant(Grant[WorkloadIdentity]):
    async def obtain(self, request: GrantRequest) -> Granted:
        assertion, rejected = (
            await self.method.assertion(),
            self.method._rejected.setdefault(self.server.url, _Rejected()),
        )
        # A rejected assertion is not sent again: the platform has to issue another one first.
        digest = sha256(assertion.reveal().encode()).digest()
        if rejected.failure is not None and rejected.digest == digest:
            raise TokenRefused(str(rejected.failure), code=rejected.failure.code)
        if self.method.issuer is None:
            _check_audience(assertion, request.source.server)
        try:
            # RFC 7521 section 4.1: the assertion identifies the client, so no client credentials are sent.
            tokens = await self.drive(request.tokens(None, JWT_BEARER, assertion=assertion.reveal()))
        except TokenRefused as failure:
            rejected.digest, rejected.failure = digest, failure
            raise
        return request.granted(tokens)


def _check_audience(assertion: Secret, server: ServerMetadata) -> None:
    """Check that an assertion is meant for an authorization server.

    Raises:
        AuthorizationError: It is meant for another one.
    """
    try:
        audience = peek(assertion.reveal()).claims.get("aud")
    except BadToken as error:
        raise AuthorizationError(f"assertion: {error}") from error
    # The server under attack chooses the authorization server: an assertion for another one could be used there.
    named = audience if isinstance(audience, list) else [audience]
    if not {server.issuer, server.token_endpoint} & {each for each in named if isinstance(each, str)}:
        raise AuthorizationError(
            f"assertion: expected {shown(server.issuer)} in aud, got another audience; "
            "set issuer if the authorization server uses another name there"
        )
