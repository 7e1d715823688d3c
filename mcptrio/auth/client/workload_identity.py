"""Workload identity: a program authenticates with a token of the platform on which it runs.

Kubernetes, clouds and CI systems issue such signed tokens (JWT) for the authorization server, which trusts the
platform. No secret is stored and no client is registered.

Source: MCP extension Workload Identity Federation (SEP-1933); RFC 7523 sections 2.1 and 3; RFC 7521 section 4.1.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Sequence
from hashlib import sha256
from typing import Final

from attrs import define, field, frozen

from mcptrio.abc import Fetch
from mcptrio.auth.client.credentials import Granted
from mcptrio.auth.client.engine import GrantClient
from mcptrio.auth.client.grants import Grant, GrantMethod, GrantRequest, ServerState
from mcptrio.auth.flows import Flow
from mcptrio.auth.jose import BadToken, peek
from mcptrio.auth.metadata import ServerMetadata
from mcptrio.auth.token_requests import TokenRefused, Tokens, request_tokens
from mcptrio.auth.urls import shown
from mcptrio.errors import AuthorizationError
from mcptrio.ground.secret import Secret

__all__ = ["WorkloadIdentity"]

_BEARER: Final = "urn:ietf:params:oauth:grant-type:jwt-bearer"


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
        dpop: When tokens are bound to a key of the client: ``asked`` if the server asks for it, ``always``, or
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
        server = self._state_of(url)
        rejected = self._rejected.setdefault(server.url, _Rejected())
        return GrantClient(_WorkloadGrant(self, server, fetch, rejected))


class _WorkloadGrant(Grant):
    def __init__(self, method: WorkloadIdentity, server: ServerState, fetch: Fetch, rejected: _Rejected) -> None:
        super().__init__(method, server, fetch, issuer=method.issuer)
        self._assertion = method.assertion
        self._is_for_any = method.issuer is None
        self._rejected = rejected

    async def obtain(self, request: GrantRequest) -> Granted:
        return request.granted(await self.drive(self._once(await self._assertion(), request)))

    def _once(self, assertion: Secret, request: GrantRequest) -> Flow[Tokens]:
        # A rejected assertion is not sent again: the platform has to issue another one first.
        rejected, digest = self._rejected, sha256(assertion.reveal().encode()).digest()
        if rejected.failure is not None and rejected.digest == digest:
            raise TokenRefused(str(rejected.failure), code=rejected.failure.code)
        if self._is_for_any:
            _check_audience(assertion, request.place.server)
        try:
            return (yield from _grant_to_workload(assertion, request))
        except TokenRefused as failure:
            rejected.digest, rejected.failure = digest, failure
            raise


def _grant_to_workload(assertion: Secret, request: GrantRequest) -> Flow[Tokens]:
    """Exchange an assertion for tokens.

    Raises:
        AuthorizationError: The authorization server refused, or sent a malformed response.
        RequestFailed: The authorization server is unreachable.
    """
    parameters = {"grant_type": _BEARER, "assertion": assertion.reveal(), **request.parameters}
    # RFC 7521 section 4.1: the assertion identifies the client, so no client credentials are sent.
    return (
        yield from request_tokens(request.place.server, None, parameters, prover=request.prover, clock=request.clock)
    )


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
