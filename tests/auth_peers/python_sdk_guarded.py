"""A server with the official Python SDK and the SDK's own authorization.

The tests run it as a process. It serves on two ports: on one it is a protected resource that names itself as its
authorization server; on the other it is a server of 2025-03-26 without a protected resource. The SDK makes the
decisions; a provider stores tokens and shows the consent page.

Source: mcp 2.3.0, mcp/server/auth; the SDK's examples/servers/simple-auth.
"""

from __future__ import annotations

import secrets
import socket
import sys
import time
from html import escape

import anyio
import uvicorn
from mcp.server.auth.middleware.auth_context import get_access_token
from mcp.server.auth.provider import (
    AccessToken,
    AuthorizationCode,
    AuthorizationParams,
    OAuthAuthorizationServerProvider,
    RefreshToken,
    construct_redirect_uri,
)
from mcp.server.auth.settings import AuthSettings, ClientRegistrationOptions, RevocationOptions
from mcp.server.mcpserver import MCPServer
from mcp.shared.auth import OAuthClientInformationFull, OAuthToken
from pydantic import AnyHttpUrl
from starlette.requests import Request
from starlette.responses import HTMLResponse, RedirectResponse, Response

__all__: list[str] = []

PAGE = (
    "<form method=post><p>{client} wants {scopes}</p><input type=hidden name=asked value={asked}>"
    "<input name=person><button name=answer value=no>No</button><button name=answer value=yes>Yes</button></form>"
)
LIFE = 600


def asked_for(client: OAuthClientInformationFull, params: AuthorizationParams) -> list[str]:
    """Use the registered scopes if the client requests none, as the SDK does."""
    return params.scopes if params.scopes is not None else (client.scope or "").split()


class Provider(OAuthAuthorizationServerProvider[AuthorizationCode, RefreshToken, AccessToken]):
    def __init__(self, origin: str) -> None:
        self.origin = origin
        self.clients: dict[str, OAuthClientInformationFull] = {}
        self.asked: dict[str, tuple[OAuthClientInformationFull, AuthorizationParams]] = {}
        self.codes: dict[str, AuthorizationCode] = {}
        self.tokens: dict[str, AccessToken] = {}
        self.refresh: dict[str, RefreshToken] = {}

    async def get_client(self, client_id: str) -> OAuthClientInformationFull | None:
        return self.clients.get(client_id)

    async def register_client(self, client_info: OAuthClientInformationFull) -> None:
        assert client_info.client_id is not None
        self.clients[client_info.client_id] = client_info

    async def authorize(self, client: OAuthClientInformationFull, params: AuthorizationParams) -> str:
        asked = secrets.token_urlsafe()
        self.asked[asked] = (client, params)
        return f"{self.origin}/consent?asked={asked}"

    async def consent(self, request: Request) -> Response:
        """Serve the consent page and handle its buttons."""
        if request.method == "GET":
            asked = request.query_params["asked"]
            client, params = self.asked[asked]
            scopes = " ".join(asked_for(client, params))
            name = escape(client.client_name or "?")
            return HTMLResponse(PAGE.format(client=name, scopes=escape(scopes), asked=escape(asked)))
        form = await request.form()
        client, params = self.asked.pop(str(form["asked"]))
        back = str(params.redirect_uri)
        if form["answer"] != "yes":
            return RedirectResponse(construct_redirect_uri(back, error="access_denied", state=params.state), 303)
        assert client.client_id is not None
        code = AuthorizationCode(
            code=secrets.token_urlsafe(32),
            scopes=asked_for(client, params),
            expires_at=time.time() + 60,
            client_id=client.client_id,
            code_challenge=params.code_challenge,
            redirect_uri=params.redirect_uri,
            redirect_uri_provided_explicitly=params.redirect_uri_provided_explicitly,
            resource=params.resource,
            subject=str(form["person"]),
        )
        self.codes[code.code] = code
        return RedirectResponse(construct_redirect_uri(back, code=code.code, state=params.state), 303)

    async def load_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: str
    ) -> AuthorizationCode | None:
        return self.codes.get(authorization_code)

    async def exchange_authorization_code(
        self, client: OAuthClientInformationFull, authorization_code: AuthorizationCode
    ) -> OAuthToken:
        del self.codes[authorization_code.code]
        return self._grant(
            authorization_code.client_id,
            authorization_code.scopes,
            authorization_code.resource,
            authorization_code.subject,
        )

    async def load_refresh_token(self, client: OAuthClientInformationFull, refresh_token: str) -> RefreshToken | None:
        return self.refresh.get(refresh_token)

    async def exchange_refresh_token(
        self, client: OAuthClientInformationFull, refresh_token: RefreshToken, scopes: list[str]
    ) -> OAuthToken:
        del self.refresh[refresh_token.token]
        return self._grant(refresh_token.client_id, scopes, refresh_token.resource, refresh_token.subject)

    async def load_access_token(self, token: str) -> AccessToken | None:
        return self.tokens.get(token)

    async def revoke_token(self, token: AccessToken | RefreshToken) -> None:
        kept = [each for each in self.tokens.values() if each.client_id != token.client_id]
        self.tokens = {each.token: each for each in kept}
        self.refresh.pop(token.token, None)

    def _grant(self, client: str, scopes: list[str], resource: str | None, subject: str | None) -> OAuthToken:
        access, refresh = secrets.token_urlsafe(32), secrets.token_urlsafe(32)
        self.tokens[access] = AccessToken(
            token=access,
            client_id=client,
            scopes=scopes,
            expires_at=int(time.time()) + LIFE,
            resource=resource,
            subject=subject,
        )
        self.refresh[refresh] = RefreshToken(
            token=refresh, client_id=client, scopes=scopes, resource=resource, subject=subject
        )
        return OAuthToken(
            access_token=access, expires_in=LIFE, scope=" ".join(scopes), refresh_token=refresh, token_type="Bearer"
        )


def make(origin: str, *, is_resource: bool) -> MCPServer:
    provider = Provider(origin)
    mcp = MCPServer(
        "guarded",
        auth_server_provider=provider,
        auth=AuthSettings(
            issuer_url=AnyHttpUrl(origin),
            resource_server_url=AnyHttpUrl(f"{origin}/mcp") if is_resource else None,
            required_scopes=["notes"],
            validate_token_resource=is_resource,
            client_registration_options=ClientRegistrationOptions(
                enabled=True, valid_scopes=["notes", "more"], default_scopes=["notes"]
            ),
            revocation_options=RevocationOptions(enabled=True),
        ),
    )

    @mcp.tool()
    def who() -> str:
        token = get_access_token()
        assert token is not None
        return f"{token.subject} {token.resource} {' '.join(token.scopes)} {token.token[:6]}"

    mcp.custom_route("/consent", methods=["GET", "POST"])(provider.consent)
    return mcp


async def main() -> None:
    async with anyio.create_task_group() as group:
        origins = []
        for is_resource in (True, False):
            listener = socket.create_server(("127.0.0.1", 0))
            origins.append(f"http://127.0.0.1:{listener.getsockname()[1]}")
            app = make(origins[-1], is_resource=is_resource).streamable_http_app()
            config = uvicorn.Config(app, log_level="warning", timeout_graceful_shutdown=1)
            group.start_soon(uvicorn.Server(config).serve, [listener])
        print(f"serving {origins[0]}/ {origins[1]}/", file=sys.stderr, flush=True)


if __name__ == "__main__":
    anyio.run(main)
