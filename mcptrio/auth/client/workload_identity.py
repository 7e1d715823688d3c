"""Authorizing a program by what the platform it runs on says of it: Kubernetes, a cloud, a CI system.

The platform gives the program a signed token (JWT) of its own, made out to the authorization server, which trusts the
platform. There is no secret to keep, and nothing is registered.
The one rule: an assertion that was rejected is not shown again, and nothing else is tried in its place.

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
    """The last assertion that a server's authorization server did not take, and what it said."""

    digest: bytes = b""
    failure: TokenRefused | None = None


@frozen(kw_only=True)
class WorkloadIdentity(GrantMethod):
    """Tokens for what a platform says of a program. One value serves for any number of servers.

    Args:
        assertion: gives the platform's token, a fresh one where it has expired: reads the file it is in, say.
        issuer: of the authorization server that trusts the platform. A server that names another one is refused.
            ``None``: any for which the assertion is made out (``aud``), by its issuer's URL or that of its token
            endpoint, letter by letter.
        scopes: to ask for, beside those that a challenge names; by default those that the server supports.
        dpop: whether tokens are bound to a key of ours: where the server asks for it, always, or never.
        clock: seconds since 1970.
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
            AuthorizationError: it is no http or https URL.
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
    """
    Raises:
        AuthorizationError: the authorization server refuses, or answers something else.
        RequestFailed: it does not answer.
    """
    parameters = {"grant_type": _BEARER, "assertion": assertion.reveal(), **request.parameters}
    # The assertion says who asks.
    return (
        yield from request_tokens(request.place.server, None, parameters, prover=request.prover, clock=request.clock)
    )


def _check_audience(assertion: Secret, server: ServerMetadata) -> None:
    """
    Raises:
        AuthorizationError: it is made out to somebody else, who would take it from whoever is shown it now.
    """
    try:
        audience = peek(assertion.reveal()).claims.get("aud")
    except BadToken as error:
        raise AuthorizationError(f"assertion: {error}") from error
    named = audience if isinstance(audience, list) else [audience]
    if not {server.issuer, server.token_endpoint} & {each for each in named if isinstance(each, str)}:
        raise AuthorizationError(
            f"assertion: expected one made out (aud) to {shown(server.issuer)}, got one for somebody else; "
            "say which issuer it is for if it is known there by another name"
        )
