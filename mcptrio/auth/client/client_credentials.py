"""The client credentials grant: a program authenticates as itself, without a user.

Source: MCP extension OAuth Client Credentials; RFC 6749 section 4.4; RFC 7523 sections 2.2 and 3.
"""

from __future__ import annotations

from collections.abc import Sequence

from attrs import frozen

from mcptrio.abc import Fetch
from mcptrio.auth.client.credentials import Granted
from mcptrio.auth.client.engine import GrantClient
from mcptrio.auth.client.grants import Grant, GrantMethod, GrantRequest
from mcptrio.auth.client.registration import PreRegistered
from mcptrio.auth.urls import shown
from mcptrio.errors import AuthorizationError

__all__ = ["ClientCredentials"]


@frozen(kw_only=True)
class ClientCredentials(GrantMethod):
    """Tokens for a program that is registered at the authorization server. One instance can serve several servers.

    Args:
        client: The id, the secret or private key, and the issuer. Prefer a key: it is never sent. Credentials are sent
            to this issuer only.
        scopes: The scopes to request in addition to those in a challenge; by default those that the server supports.
        dpop: Whether tokens are bound to a key of the client: ``auto`` (if the server asks for it), ``always`` or
            ``never``.
        clock: Returns seconds since 1970.

    Raises:
        ConfigError: The client has no issuer.
    """

    client: PreRegistered

    def __attrs_post_init__(self) -> None:
        self.client.check_issuer()

    @property
    def named_servers(self) -> Sequence[str]:
        """See :class:`mcptrio.abc.AuthMethod`."""
        return () if self.client.issuer is None else (self.client.issuer,)

    def client_auth(self, url: str, fetch: Fetch) -> GrantClient:
        """See :class:`mcptrio.abc.AuthMethod`. Clients of one server share its token.

        Raises:
            AuthorizationError: The URL is not an http or https URL.
        """
        return GrantClient(_ClientGrant(self, self._state_of(url), fetch, issuer=self.client.issuer))


class _ClientGrant(Grant[ClientCredentials]):
    async def obtain(self, request: GrantRequest) -> Granted:
        client, server = self.method.client, request.source.server
        algorithms = server.token_endpoint_auth_signing_alg_values_supported
        if client.client_secret is None and client.key is None:
            raise AuthorizationError("client: expected a secret or a private key, got neither")
        # A client that also has a secret can authenticate with the secret, so the algorithms of keys do not matter.
        only_key = client.key if client.client_secret is None else None
        if only_key is not None and algorithms is not None and only_key.algorithm not in algorithms:
            raise AuthorizationError(
                f"token_endpoint_auth_signing_alg_values_supported: expected {only_key.algorithm} to be among them, "
                f"got others from {shown(server.issuer)}"
            )
        return request.granted(await self.drive(request.tokens(client, "client_credentials")))
