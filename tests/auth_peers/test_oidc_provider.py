"""Our server and client with panva's oidc-provider, which supports everything that MCP requires.

The tests use its defaults: JWT access tokens, resource indicators, ``iss``, DPoP with nonces, and registration.

Source: oidc-provider 9; RFC 9068, RFC 8707, RFC 9207, RFC 9449, RFC 7523, RFC 7591, RFC 7662.
"""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any, Literal

import pytest
from attrs import define, evolve

from mcptrio import Client, Secret
from mcptrio.auth import (
    DPoPRule,
    IntrospectedTokens,
    IssuerKeys,
    JWTTokens,
    OAuth,
    OwnRedirects,
    ResourceServer,
    ResourceServerOptions,
)
from mcptrio.auth.client.client_credentials import ClientCredentials
from mcptrio.errors import AuthorizationError
from mcptrio.stores.tokens_memory import MemoryTokenStore
from tests.auth_peers.browser import Browser
from tests.auth_peers.guarded import Guarded, guarded, loopback_fetch, modern
from tests.auth_peers.oidc_peer import OIDCPeer

__all__: list[str] = []

BACK = "http://127.0.0.1:9/callback"
REVISIONS = ("2026-07-28", "2025-11-25")


@define
class Clock:
    ahead: float = 0.0

    def __call__(self) -> float:
        return time.time() + self.ahead


def trusting(
    peer: OIDCPeer,
    *,
    dpop: Literal["off", "accepted", "required"] = "accepted",
    introspect: bool = False,
    clock: Clock | None = None,
) -> Callable[[str], ResourceServer]:
    clock = clock or Clock()

    def make(url: str) -> ResourceServer:
        tokens: JWTTokens | IntrospectedTokens = JWTTokens(
            IssuerKeys(peer.url, loopback_fetch()), audience=[url], clock=clock
        )
        if introspect:
            us = peer.registered("guard")
            tokens = IntrospectedTokens(peer.url, us, loopback_fetch(), audience=[url], clock=clock, ticks=clock)
        return ResourceServer(
            url,
            tokens=[tokens],
            authorization_servers=[peer.url],
            scopes=["read"],
            options=ResourceServerOptions(dpop=DPoPRule(use=dpop)),
            clock=clock,
        )

    return make


def person(name: str, *, pressed: tuple[str, ...] = ("Sign-in", "Continue"), **more: Any) -> tuple[Browser, OAuth]:
    browser = Browser({"login": name, "password": "any"}, pressed, BACK)
    return browser, OAuth(client_name="peers", redirects=OwnRedirects(uri=BACK, send=browser.visit), **more)


async def who(client: Client) -> list[str]:
    text: str = (await client.call_tool("who")).content[0].text
    return text.split()


# Users


@pytest.mark.parametrize("revision", REVISIONS)
@pytest.mark.parametrize("dpop", ["never", "always"])
async def test_user_logs_in_consents_and_steps_up(oidc: OIDCPeer, dpop: Any, revision: str) -> None:
    """The token is a bearer token, or bound to a key with nonces of both servers."""
    browser, oauth = person("ada", dpop=dpop)
    async with guarded(trusting(oidc, dpop="required" if dpop == "always" else "off"), list_all=True) as here:
        async with here.client(revision, auth=oauth) as client:
            subject, id, *scopes = await who(client)
            assert (subject, scopes) == ("ada", ["read"])
            assert id
            before = len(browser.pages)
            assert (await client.call_tool("write")).content[0].text == "written"  # type: ignore[union-attr]
            # The client may register again for additional scopes.
            subject, _, *scopes = await who(client)
            assert (subject, scopes) == ("ada", ["read", "write"])
            assert len(browser.pages) > before
            assert here.url in browser.pages[-1]


async def test_client_binds_its_token_if_the_server_requires_it(oidc: OIDCPeer) -> None:
    """The client is not configured to use DPoP. It follows the metadata and the challenges."""
    _, oauth = person("ada")
    async with guarded(trusting(oidc, dpop="required")) as here, here.client(auth=oauth) as client:
        assert (await who(client))[0] == "ada"
        granted = await oauth.client_auth(here.url, loopback_fetch()).headers("POST", here.url)
        assert granted["Authorization"].startswith("DPoP ")
        stolen = {"authorization": granted["Authorization"].replace("DPoP", "Bearer")}
        request = modern("tools/call", name="who", arguments={})
        assert (await here.send(request["message"], headers={**request["headers"], **stolen})).status_code == 401


@pytest.mark.parametrize("dpop", ["never", "always"])
async def test_token_is_renewed_by_another_run_of_the_program(oidc: OIDCPeer, dpop: Any) -> None:
    """It is renewed three times, each with a rotated refresh token. The key of a bound token is stored too."""
    browser, _ = person("ada")
    store, results = MemoryTokenStore(), set()
    async with guarded(trusting(oidc)) as here:
        for _ in range(3):
            oauth = OAuth(redirects=OwnRedirects(uri=BACK, send=browser.visit), store=store, dpop=dpop)
            async with here.client("2026-07-28", auth=oauth) as client:
                assert (await who(client))[0] == "ada"
            granted = await oauth.client_auth(here.url, loopback_fetch()).headers("POST", here.url)
            results.add(granted["Authorization"])
            assert granted["Authorization"].startswith("DPoP " if dpop == "always" else "Bearer ")
            assert await age(store) == 1
    assert len(results) == 3
    assert len(browser.pages) == 2


async def age(store: MemoryTokenStore) -> int:
    """Let the stored tokens expire. Return their number."""
    count = 0
    for key in await store.keys():
        value = dict(await store.load(key) or {})
        if (tokens := value.get("tokens", value)).get("expires_at"):
            aged = {**tokens, "expires_at": time.time() - 1}
            await store.save(key, {**value, "tokens": aged} if "tokens" in value else aged)
            count += 1
    return count


async def test_concurrent_users_have_their_own_identity(oidc: OIDCPeer) -> None:
    async with guarded(trusting(oidc)) as here:
        _, adas = person("ada")
        _, bobs = person("bob")
        async with here.client("2025-11-25", auth=adas) as ada, here.client("2025-11-25", auth=bobs) as bob:
            assert [(await who(client))[0] for client in (ada, bob, ada)] == ["ada", "bob", "ada"]


# Clients without a user


@pytest.mark.parametrize("id", ["basic", "post", "key"])
async def test_client_without_a_user_authenticates(oidc: OIDCPeer, id: str) -> None:
    """The test uses each authentication method, one of which sends no secret."""
    async with guarded(trusting(oidc)) as here:
        for revision in REVISIONS:
            async with here.client(revision, auth=ClientCredentials(client=oidc.registered(id))) as client:
                assert await who(client) == [id, id, "read"]


async def test_client_without_a_user_binds_its_tokens(oidc: OIDCPeer) -> None:
    method = ClientCredentials(client=oidc.registered("key"), dpop="always")
    async with guarded(trusting(oidc, dpop="required")) as here, here.client("2026-07-28", auth=method) as client:
        assert await who(client) == ["key", "key", "read"]


async def test_opaque_token_is_introspected_until_it_is_revoked(oidc: OIDCPeer) -> None:
    clock = Clock()
    async with guarded(trusting(oidc, introspect=True, clock=clock)) as here:
        token = await token_of(oidc, here, "opaque")
        assert token.count(".") < 2
        request = modern("tools/call", name="who", arguments={})
        assert (await here.send(**request, token=token)).status_code == 200
        await oidc.revoke(token, "opaque")
        clock.ahead = 31
        assert (await here.send(**request, token=token)).status_code == 401


@pytest.mark.parametrize("introspect", [False, True], ids=["jwks", "introspection"])
async def test_token_for_another_server_is_refused(oidc: OIDCPeer, introspect: bool) -> None:
    """The same authorization server has issued it for the other server."""
    id = "opaque" if introspect else "basic"
    async with (
        guarded(trusting(oidc, introspect=introspect)) as one,
        guarded(trusting(oidc, introspect=introspect)) as other,
    ):
        request = modern("tools/call", name="who", arguments={})
        token = await token_of(oidc, one, id)
        assert (await one.send(**request, token=token)).status_code == 200
        assert (await other.send(**request, token=token)).status_code == 401


async def test_token_expires(oidc: OIDCPeer) -> None:
    clock = Clock()
    async with guarded(trusting(oidc, clock=clock)) as here:
        request = modern("tools/call", name="who", arguments={})
        token = await token_of(oidc, here, "basic")
        assert (await here.send(**request, token=token)).status_code == 200
        clock.ahead = 661
        assert (await here.send(**request, token=token)).status_code == 401


async def test_wrong_client_secret_error_is_reported(oidc: OIDCPeer) -> None:
    wrong = evolve(oidc.registered("basic"), client_secret=Secret("wrong"))
    async with guarded(trusting(oidc)) as here:
        with pytest.raises(AuthorizationError, match="invalid_client"):
            async with here.client(auth=ClientCredentials(client=wrong)):
                pass


async def token_of(oidc: OIDCPeer, here: Guarded, id: str) -> str:
    """Return a token for this server."""
    auth = ClientCredentials(client=oidc.registered(id), dpop="never").client_auth(here.url, loopback_fetch())
    refused = await here.send(modern("tools/list")["message"], headers=modern("tools/list")["headers"])
    assert refused.status_code == 401
    assert await auth.challenged(here.url, 401, {name.lower(): value for name, value in refused.headers.items()})
    return (await auth.headers("POST", here.url))["Authorization"].partition(" ")[2]
