"""The official Python SDK's client with the SDK's own OAuth, against mcptrio's server and authorization server.

Source: mcp 2.3.0, mcp/client/auth; MCP 2025-11-25 and 2026-07-28, basic/authorization.
"""

from __future__ import annotations

from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any
from urllib.parse import parse_qs, urlsplit

import httpx2
import pytest
import trio
from attrs import define, field
from mcp import Client
from mcp.client.auth import OAuthClientProvider
from mcp.client.auth.exceptions import OAuthFlowError
from mcp.client.auth.extensions.client_credentials import ClientCredentialsOAuthProvider
from mcp.client.streamable_http import streamable_http_client
from mcp.shared.auth import AuthorizationCodeResult, OAuthClientInformationFull, OAuthClientMetadata, OAuthToken
from mcp_types import TextContent
from mcptrio_authserver import ClientSettings
from pydantic import AnyUrl

from mcptrio import Secret
from tests.auth_peers.browser import Browser
from tests.auth_peers.guarded import WAIT_TIMEOUT, Guarded
from tests.auth_peers.own_authorization import BACK, browser_of, own_authorization

__all__: list[str] = []

REVISIONS = {"2026-07-28": "2026-07-28", "2025-11-25": "legacy"}
"""The modes of the SDK, by the revision that each negotiates."""
PLACES = ("", "/auth")
"""Paths of the authorization server. A path other than the root is appended to the URL of its metadata document."""


@define
class Storage:
    """The storage that an application provides to the SDK."""

    tokens: OAuthToken | None = None
    client: OAuthClientInformationFull | None = None
    save_count: int = 0
    """The number of times that the SDK has stored tokens."""

    async def get_tokens(self) -> OAuthToken | None:
        return self.tokens

    async def set_tokens(self, tokens: OAuthToken) -> None:
        self.tokens = tokens
        self.save_count += 1

    async def get_client_info(self) -> OAuthClientInformationFull | None:
        return self.client

    async def set_client_info(self, client_info: OAuthClientInformationFull) -> None:
        self.client = client_info


@define
class Application:
    """A program with the SDK, and its user."""

    browser: Browser
    storage: Storage = field(factory=Storage)
    authorization_requests: list[dict[str, list[str]]] = field(factory=list)
    """Parameters of the authorization requests."""
    _back: str = ""

    def auth(self, url: str) -> OAuthClientProvider:
        metadata = OAuthClientMetadata(client_name="sdk", redirect_uris=[AnyUrl(BACK)])
        return OAuthClientProvider(url, metadata, self.storage, self._send, self._wait)

    async def _send(self, url: str) -> None:
        self.authorization_requests.append(parse_qs(urlsplit(url).query))
        self._back = await self.browser.visit(url)

    async def _wait(self) -> AuthorizationCodeResult:
        query = parse_qs(urlsplit(self._back).query)
        report: dict[str, Any] = {name: values[0] for name, values in query.items() if name in ("code", "state", "iss")}
        if "code" not in report:
            raise OAuthFlowError(query["error"][0])
        return AuthorizationCodeResult(**report)


@asynccontextmanager
async def connected(here: Guarded, auth: httpx2.Auth, revision: str) -> AsyncIterator[Client]:
    with trio.fail_after(WAIT_TIMEOUT):
        async with httpx2.AsyncClient(auth=auth, timeout=WAIT_TIMEOUT, trust_env=False) as http:
            async with Client(streamable_http_client(here.url, http_client=http), mode=REVISIONS[revision]) as client:
                yield client


async def call(client: Client, tool: str) -> str:
    result = await client.call_tool(tool, {})
    [content] = result.content
    assert isinstance(content, TextContent)
    return f"error: {content.text}" if result.is_error else content.text


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("place", PLACES, ids=["root", "below"])
async def test_sdk_client_registers_logs_in_and_steps_up(tmp_path: Path, place: str, revision: str) -> None:
    ada = Application(browser_of("ada"))
    async with own_authorization(tmp_path, path=place, list_all=True) as (here, _):
        async with connected(here, ada.auth(here.url), revision) as client:
            assert client.protocol_version == revision
            subject, id, *scopes = (await call(client, "who")).split()
            assert (subject, scopes) == ("ada", ["read"])
            assert ada.storage.client is not None
            assert id == ada.storage.client.client_id
            assert len(ada.authorization_requests) == 1
            assert ada.authorization_requests[0]["resource"] == [here.url]
            assert ada.authorization_requests[0]["code_challenge_method"] == ["S256"]

            assert await call(client, "write") == "written"
            assert (await call(client, "who")).split()[2:] == ["read", "write"]
            assert len(ada.authorization_requests) == 2
            assert sorted(ada.authorization_requests[1]["scope"][0].split()) == ["read", "write"]
    # First a login and a consent; then only a consent.
    assert ["Log in" in page for page in ada.browser.pages] == [True, False, False]
    assert "Write your notes" not in ada.browser.pages[1]
    assert "Write your notes" in ada.browser.pages[2]


async def test_sdk_client_renews_its_token_without_the_user(tmp_path: Path) -> None:
    ada = Application(browser_of("ada"))
    async with own_authorization(tmp_path) as (here, _):
        provider = ada.auth(here.url)
        async with connected(here, provider, "2025-11-25") as client:
            await call(client, "who")
            first = ada.storage.tokens
            assert first is not None
            provider.context.token_expiry_time = 1.0  # as if it had expired long ago
            assert (await call(client, "who")).startswith("ada ")
            second = ada.storage.tokens
            assert second is not None
            assert second.access_token != first.access_token
            assert second.refresh_token not in (None, first.refresh_token)
    assert len(ada.authorization_requests) == 1


async def test_login_denied_by_the_user_is_an_error(tmp_path: Path) -> None:
    ada = Application(browser_of("ada", "Deny"))
    async with own_authorization(tmp_path) as (here, _):
        with pytest.RaisesGroup(OAuthFlowError, allow_unwrapped=True, flatten_subgroups=True):
            async with connected(here, ada.auth(here.url), "2026-07-28") as client:
                await call(client, "who")
    assert ada.storage.tokens is None


@pytest.mark.parametrize("method", ["client_secret_basic", "client_secret_post"])
async def test_sdk_client_without_a_user_authenticates(tmp_path: Path, method: Any) -> None:
    secret = "at least sixteen: +&%/ characters"
    clients: Mapping[str, ClientSettings] = {
        "robot": ClientSettings(secret=Secret(secret), grant_types=("client_credentials",), scopes=("read",))
    }
    async with own_authorization(tmp_path, settings={"clients": clients}) as (here, own):
        auth = ClientCredentialsOAuthProvider(here.url, Storage(), "robot", secret, method, issuer=own.config.issuer)
        async with connected(here, auth, "2026-07-28") as client:
            assert await call(client, "who") == "client:robot robot read"
