"""The Django OAuth Toolkit that runs for the tests, over HTTP: its addresses and requests to it."""

from __future__ import annotations

import secrets
from typing import Any

import httpx2
from attrs import define, field, frozen

from mcptrio.auth.token_requests import ClientIdentity
from mcptrio.ground.secret import Secret
from tests.auth_peers.guarded import plain_http

__all__ = ["BACK", "DjangoPeer", "Robot"]

BACK = "http://127.0.0.1:9/callback"
"""The redirect URI; the tests' browser does not request it."""


@frozen
class Robot:
    """A client without a user."""

    id: str
    secret: str = field(factory=secrets.token_urlsafe, repr=False)

    @property
    def identity(self) -> ClientIdentity:
        return ClientIdentity(client_id=self.id, client_secret=Secret(self.secret))


@define
class DjangoPeer:
    passwords: dict[str, str]
    robot: Robot
    guard: Robot
    """The client with which a resource server introspects tokens."""
    reader: Robot
    """A client for users, registered in advance."""
    url: str = ""

    @classmethod
    def planned(cls) -> DjangoPeer:
        users = {name: secrets.token_urlsafe() for name in ("ada", "bob")}
        return cls(users, Robot("robot"), Robot("guard"), Robot("reader"))

    @property
    def given(self) -> dict[str, Any]:
        """The command-line argument of the server."""
        robots = [
            {"id": each.id, "secret": each.secret, "grant": "client-credentials"} for each in (self.robot, self.guard)
        ]
        reader = {
            "id": self.reader.id,
            "secret": self.reader.secret,
            "grant": "authorization-code",
            "redirect_uris": [BACK],
        }
        return {"users": self.passwords, "clients": [*robots, reader]}

    async def token(self, resource: str | None, scope: str = "read") -> str:
        """Return an access token of the robot."""
        form = {"grant_type": "client_credentials", "scope": scope, **({"resource": resource} if resource else {})}
        response = await self._post("/token/", form, self.robot)
        assert response.status_code == 200, response.text
        text: str = response.json()["access_token"]
        return text

    async def revoke(self, token: str) -> None:
        response = await self._post("/revoke_token/", {"token": token, "token_type_hint": "access_token"}, self.robot)
        assert response.status_code == 200, response.text

    async def rotate(self, *, keep: bool) -> None:
        """Switch to a new signing key. If ``keep``, continue to publish the old one."""
        async with plain_http() as http:
            await http.get(f"{self.url}/control/rotate", params={"keep": "yes"} if keep else {})

    async def _post(self, path: str, form: dict[str, str], who: Robot) -> httpx2.Response:
        async with plain_http() as http:
            return await http.post(self.url + path, data=form, auth=(who.id, who.secret))
