"""Enterprise-managed authorization: a company's identity provider authorizes a program for a user.

The user has signed in at the provider. The provider exchanges the proof of identity for a grant for one server
(ID-JAG), and the server's authorization server exchanges that for a token. The user is not asked.

Source: MCP extension Enterprise-Managed Authorization; draft-ietf-oauth-identity-assertion-authz-grant; RFC 8693
section 2; RFC 7523 section 2.1.
"""

from __future__ import annotations

import re
from collections.abc import Awaitable, Callable, Sequence
from typing import Final, Literal

from attrs import field, frozen, validators

from mcptrio.abc import Fetch
from mcptrio.auth.client.credentials import Granted
from mcptrio.auth.client.engine import GrantClient
from mcptrio.auth.client.grants import JWT_BEARER, Grant, GrantMethod, GrantRequest
from mcptrio.auth.client.registration import PreRegistered
from mcptrio.auth.discovery import discover_server
from mcptrio.auth.flows import Flow
from mcptrio.auth.metadata import ServerMetadata, read_object
from mcptrio.auth.token_requests import ask_token_endpoint, one_line
from mcptrio.auth.urls import check_url, shown
from mcptrio.errors import AuthorizationError
from mcptrio.ground.secret import Secret

__all__ = ["EnterpriseManaged", "IdentityProvider"]

_TOKEN_EXCHANGE: Final = "urn:ietf:params:oauth:grant-type:token-exchange"
_TOKEN_TYPE: Final = "urn:ietf:params:oauth:token-type:"
_ID_JAG: Final = _TOKEN_TYPE + "id-jag"
_PROFILE: Final = "urn:ietf:params:oauth:grant-profile:id-jag"
_ASSERTION: Final = re.compile(r"[A-Za-z0-9_-]+(\.[A-Za-z0-9_-]*){2,4}")
# Longest ID-JAG in characters.
_MAX_ASSERTION_CHARS: Final = 64 * 1024


@frozen(kw_only=True)
class IdentityProvider:
    """The identity provider of a company.

    Args:
        issuer: The issuer URL of the provider.
        client: The program's client at the provider.
        identity: Returns the proof of the user's identity that the provider issued at sign-in, a new one if it has
            expired. It is sent to the provider only.
        kind: The type of that proof: an OpenID Connect ID token or a SAML assertion.
        token_endpoint: The URL at which it exchanges tokens; by default taken from its metadata.
    """

    issuer: str
    client: PreRegistered
    identity: Callable[[], Awaitable[Secret]] = field(repr=False)
    kind: Literal["id_token", "saml2"] = field(default="id_token", validator=validators.in_(("id_token", "saml2")))
    token_endpoint: str | None = None


@frozen(kw_only=True)
class EnterpriseManaged(GrantMethod):
    """Tokens that a company's identity provider authorizes. One value serves one user and many servers.

    Args:
        provider: The identity provider of the company.
        client: The program's client at the servers' authorization server, and its issuer, which is required with a
            secret or a key. Without an issuer, the client is used with each authorization server that a server names
            and for which the provider has a policy.
        scopes: The scopes to request in addition to those in a challenge; by default those that the server supports.
        dpop: Whether tokens are bound to a key of the client: ``auto`` (if the server asks for it), ``always`` or
            ``never``.
        clock: Returns seconds since 1970.

    Raises:
        ConfigError: The client has a secret or a key and no issuer.
    """

    provider: IdentityProvider
    client: PreRegistered

    def __attrs_post_init__(self) -> None:
        self.client.check_issuer()

    @property
    def named_servers(self) -> Sequence[str]:
        """See :class:`mcptrio.abc.AuthMethod`."""
        named = (self.client.issuer, self.provider.issuer, self.provider.token_endpoint)
        return tuple(url for url in named if url is not None)

    def client_auth(self, url: str, fetch: Fetch) -> GrantClient:
        """See :class:`mcptrio.abc.AuthMethod`. Clients of one server share its token.

        Raises:
            AuthorizationError: The URL is not an http or https URL.
        """
        return GrantClient(_IdentityGrant(self, self._state_of(url), fetch, issuer=self.client.issuer))


class _IdentityGrant(Grant[EnterpriseManaged]):
    async def obtain(self, request: GrantRequest) -> Granted:
        server, identity = request.source.server, await self.method.provider.identity()
        profiles = server.authorization_grant_profiles_supported
        if profiles is not None and _PROFILE not in profiles:
            raise AuthorizationError(
                f"authorization_grant_profiles_supported: expected {_PROFILE} to be among them, "
                f"got others from {shown(server.issuer)}"
            )
        assertion = await self.drive(_exchange_identity(self.method.provider, identity, request))
        flow = request.tokens(self.method.client, JWT_BEARER, assertion=assertion.reveal())
        return request.granted(await self.drive(flow))


def _exchange_identity(provider: IdentityProvider, identity: Secret, request: GrantRequest) -> Flow[Secret]:
    """Exchange the proof of the user's identity for a grant for one server (ID-JAG).

    Raises:
        AuthorizationError: The provider refused, or sent another kind of token.
        RequestFailed: The provider is unreachable.
    """
    if provider.token_endpoint is not None:
        metadata = ServerMetadata(
            issuer=provider.issuer, token_endpoint=check_url(provider.token_endpoint, "provider.token_endpoint")
        )
    else:
        metadata = yield from discover_server(provider.issuer)
    parameters = {
        "grant_type": _TOKEN_EXCHANGE,
        "requested_token_type": _ID_JAG,
        # The grant is usable at this authorization server only.
        "audience": request.source.server.issuer,
        "subject_token": identity.reveal(),
        "subject_token_type": _TOKEN_TYPE + provider.kind,
        **request.parameters,
    }
    response, url, _ = yield from ask_token_endpoint(metadata, provider.client, parameters, clock=request.clock)
    members = read_object(response.body, url)
    if (kind := members.get("issued_token_type")) != _ID_JAG:
        raise AuthorizationError(f"issued_token_type: expected {_ID_JAG}, got {one_line(repr(kind))} at {shown(url)}")
    assertion = members.get("access_token")
    if not isinstance(assertion, str) or len(assertion) > _MAX_ASSERTION_CHARS or not _ASSERTION.fullmatch(assertion):
        raise AuthorizationError(
            f"access_token: expected a JWT of at most {_MAX_ASSERTION_CHARS} characters at {shown(url)}"
        )
    return Secret(assertion)
