"""The oidc-provider that runs for the tests, over HTTP: its addresses and registered programs."""

from __future__ import annotations

import secrets
from typing import Any

from attrs import define, field

from mcptrio import Secret
from mcptrio.auth import PreRegistered
from mcptrio.auth.jose import Key
from tests.auth_peers.guarded import plain_http

__all__ = ["OIDCPeer"]


@define
class OIDCPeer:
    url: str = ""
    secret: str = field(factory=secrets.token_urlsafe, repr=False)
    key: Key = field(factory=lambda: Key.generate("ES256"))

    @property
    def given(self) -> dict[str, Any]:
        """The command-line argument of the server."""
        usual = {
            "grant_types": ["client_credentials"],
            "redirect_uris": [],
            "response_types": [],
            "scope": "read write",
        }
        with_secret = {**usual, "client_secret": self.secret}
        by_key = {
            "token_endpoint_auth_method": "private_key_jwt",
            "token_endpoint_auth_signing_alg": "ES256",
            "jwks": {"keys": [self.key.public]},
        }
        return {
            "clients": [
                {**with_secret, "client_id": "basic", "token_endpoint_auth_method": "client_secret_basic"},
                {**with_secret, "client_id": "post", "token_endpoint_auth_method": "client_secret_post"},
                {**with_secret, "client_id": "opaque", "token_endpoint_auth_method": "client_secret_basic"},
                {**with_secret, "client_id": "guard", "token_endpoint_auth_method": "client_secret_basic"},
                {**usual, "client_id": "key", **by_key},
            ],
            "opaque": ["opaque"],
        }

    def registered(self, id: str) -> PreRegistered:
        """Return a registered client; its id names its authentication method."""
        if id == "key":
            return PreRegistered(client_id=id, issuer=self.url, key=self.key)
        method: Any = "client_secret_post" if id == "post" else "client_secret_basic"
        return PreRegistered(client_id=id, issuer=self.url, client_secret=Secret(self.secret), method=method)

    async def revoke(self, token: str, id: str) -> None:
        async with plain_http() as http:
            answer = await http.post(f"{self.url}/token/revocation", data={"token": token}, auth=(id, self.secret))
            assert answer.status_code == 200, answer.text
