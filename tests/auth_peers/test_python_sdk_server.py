"""Our client against a server of the official Python SDK with the SDK's own authorization.

Source: mcp 2.3.0, mcp/server/auth; MCP 2025-03-26 to 2026-07-28, basic/authorization.
"""

from __future__ import annotations

import time
from collections.abc import AsyncIterator, Mapping
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio
from attrs import define

import mcptrio
from mcptrio.abc import AuthMethod
from mcptrio.auth import OAuth, OwnRedirects
from mcptrio.auth.client.oauth import OAuthClient
from mcptrio.errors import AuthorizationError
from mcptrio.stores.tokens_memory import MemoryTokenStore
from tests.auth_peers.browser import Browser
from tests.auth_peers.guarded import WAIT_TIMEOUT, loopback_fetch

__all__: list[str] = []

BACK = "http://127.0.0.1:9/callback"
MODES = ("resource", "alone")
REVISIONS = ("2026-07-28", "2025-11-25")


@define
class Clock:
    ahead: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def ada(answer: str = "Yes") -> Browser:
    return Browser({"person": "ada"}, (answer,), BACK)


def oauth(browser: Browser, **more: Any) -> OAuth:
    return OAuth(client_name="peers", redirects=OwnRedirects(uri=BACK, send=browser.visit), **more)


@asynccontextmanager
async def connected(url: str, auth: AuthMethod, revision: str | None = None) -> AsyncIterator[mcptrio.Client]:
    with trio.fail_after(WAIT_TIMEOUT):
        endpoint = mcptrio.Endpoint(url=f"{url}/mcp", auth=auth, transport="http")
        async with mcptrio.connect(endpoint, revision=revision) as client:
            yield client


async def who(client: mcptrio.Client) -> list[str]:
    text: str = (await client.call_tool("who")).content[0].text  # type: ignore[union-attr]
    return text.split()


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("mode", MODES)
async def test_user_consents_once(sdk_guarded: Mapping[str, str], mode: str, revision: str) -> None:
    """The server has resource metadata, or is its own authorization server, as in 2025-03-26."""
    url, browser = sdk_guarded[mode], ada()
    async with connected(url, oauth(browser), revision) as client:
        subject, resource, scope, token = await who(client)
        assert (subject, scope) == ("ada", "notes")
        assert resource == f"{url}/mcp"
        assert (await who(client))[3] == token
        assert client.revision == revision
    assert len(browser.pages) == 1
    assert "peers wants notes" in browser.pages[0]


async def test_stored_grant_is_used_by_later_connections_and_programs(sdk_guarded: Mapping[str, str]) -> None:
    url, browser, store = sdk_guarded["resource"], ada(), MemoryTokenStore()
    tokens = set()
    for _ in range(2):
        method = oauth(browser, store=store)
        for _ in range(2):
            async with connected(url, method) as client:
                tokens.add((await who(client))[3])
    assert len(tokens) == len(browser.pages) == 1


async def test_token_is_renewed_before_it_expires_without_the_user(sdk_guarded: Mapping[str, str]) -> None:
    clock, browser = Clock(), ada()
    async with connected(sdk_guarded["resource"], oauth(browser, clock=clock)) as client:
        before = await who(client)
        clock.ahead = 580
        after = await who(client)
        assert before[:3] == after[:3]
        assert before[3] != after[3]
    assert len(browser.pages) == 1


async def test_logged_out_user_logs_in_again(sdk_guarded: Mapping[str, str]) -> None:
    """The SDK's server revokes the grant: it accepts neither of its tokens."""
    url, browser = sdk_guarded["resource"], ada()
    method = oauth(browser)
    async with connected(url, method) as client:
        token = (await who(client))[3]
        assert await OAuthClient.log_out(method.client_auth(f"{url}/mcp", loopback_fetch()))
        assert (await who(client))[3] != token
    assert len(browser.pages) == 2


async def test_login_denied_by_the_user_is_an_error(sdk_guarded: Mapping[str, str]) -> None:
    browser = ada("No")
    with pytest.raises(AuthorizationError, match="access_denied"):
        async with connected(sdk_guarded["resource"], oauth(browser)):
            pass
    assert len(browser.pages) == 1


async def test_concurrent_clients_ask_the_user_once(sdk_guarded: Mapping[str, str]) -> None:
    """Twenty clients of one program, all without a token."""
    browser, results = ada(), []
    method = oauth(browser)

    async def connect_once() -> None:
        async with connected(sdk_guarded["resource"], method) as client:
            results.append((await who(client))[3])

    async with trio.open_nursery() as nursery:
        for _ in range(20):
            nursery.start_soon(connect_once)
    assert len(results) == 20
    assert len(set(results)) == len(browser.pages) == 1
