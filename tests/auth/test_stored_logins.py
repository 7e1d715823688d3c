"""Logins that a client stores for its next run and for other processes."""

from __future__ import annotations

from typing import Any

import pytest
import trio

from mcptrio.abc import FetchRequest, FetchResponse
from mcptrio.auth.client.credentials import Credentials
from mcptrio.auth.client.oauth import OAuthClient
from mcptrio.auth.client.redirects import OwnRedirects
from mcptrio.errors import RequestFailed

from .client_parts import MemoryTokenStore, OAuthPeers, form

__all__: list[str] = []


async def test_stored_tokens_are_used_by_the_next_run(peers: OAuthPeers) -> None:
    store = MemoryTokenStore()
    await peers.refuse(peers.client(store=store))
    later = peers.client(store=store)

    assert await peers.sent(later) == "Bearer login.example.com-3"
    peers.clock.now += 3600
    assert await peers.sent(later) not in (None, "Bearer login.example.com-3")
    assert peers.prompt_count == 1


async def test_login_of_another_process_is_used(peers: OAuthPeers) -> None:
    store = MemoryTokenStore()
    one, other = peers.client(store=store), peers.client(store=store)
    assert await peers.sent(one) is None
    await peers.refuse(other)

    assert await one.challenged(peers.url, 401, peers.challenge())
    assert await peers.sent(one) == await peers.sent(other)
    assert peers.prompt_count == 1


async def test_tokens_refreshed_by_another_process_are_used(peers: OAuthPeers) -> None:
    """The authorization server treats a refresh token that is used twice as stolen."""
    store = MemoryTokenStore()
    await peers.refuse(peers.client(store=store))
    one, other = peers.client(store=store), peers.client(store=store)
    assert await peers.sent(one) == await peers.sent(other)
    peers.clock.now += 3600

    assert await peers.sent(one) == await peers.sent(other)
    assert len(peers.issuer.tokens) == 2


async def test_only_one_process_refreshes_at_a_time(peers: OAuthPeers) -> None:
    """The authorization server treats a refresh token that is used twice as stolen, and ends the login."""
    store = MemoryTokenStore()
    await peers.refuse(peers.client(store=store))
    clients = [peers.client(store=store) for _ in range(5)]
    for client in clients:
        await peers.sent(client)
    peers.clock.now += 3600
    sent: list[str | None] = []

    async def send(client: OAuthClient) -> None:
        sent.append(await peers.sent(client))

    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(send, client)

    assert len(peers.issuer.tokens) == 2
    assert len(set(sent)) == 1
    assert None not in sent


async def test_only_one_process_refreshes_after_a_refusal(peers: OAuthPeers) -> None:
    store = MemoryTokenStore()
    await peers.refuse(peers.client(store=store))
    clients = [peers.client(store=store) for _ in range(5)]
    for client in clients:
        await peers.sent(client)
    peers.clock.now += 60
    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(peers.refuse, client)

    assert len(peers.issuer.tokens) == 2
    assert len({await peers.sent(client) for client in clients}) == 1


async def test_new_registration_keeps_other_logins(peers: OAuthPeers) -> None:
    """A refresh token belongs to the client that it was issued to, even after a new registration."""
    store = MemoryTokenStore()
    first = peers.client(store=store)
    await peers.refuse(first)
    other = OAuthPeers(url="https://other.example.com/mcp", issuers=peers.issuers, clock=peers.clock)
    back = OwnRedirects(uri="http://127.0.0.1:10/callback", send=other.send)
    second = other.client(store=store, redirects=back)
    await other.refuse(second)
    assert len(peers.issuer.clients) == 2
    peers.clock.now += 3600

    assert await peers.sent(peers.client(store=store))
    assert await other.sent(other.client(store=store))
    assert (peers.prompt_count, other.prompt_count) == (1, 1)


@pytest.mark.parametrize("spoiled", [{}, {"access_token": 1}, {"asked": None, "key": {"kty": "x"}}])
async def test_invalid_store_content_leads_to_a_new_login(peers: OAuthPeers, spoiled: dict[str, Any]) -> None:
    store = MemoryTokenStore()
    await peers.refuse(peers.client(store=store))
    for key in list(store.values):
        store.values[key] = spoiled

    client = peers.client(store=store)
    assert await peers.sent(client) is None
    assert await peers.refuse(client)


async def test_log_out_revokes_and_deletes_the_login(peers: OAuthPeers) -> None:
    revoked: list[dict[str, str]] = []
    peers.issuer.metadata["revocation_endpoint"] = "https://login.example.com/revoke"

    async def fetch(request: FetchRequest) -> FetchResponse:
        if request.url.endswith("/revoke"):
            revoked.append(form(request))
            return FetchResponse(status=200)
        return await peers.fetch(request)

    store = MemoryTokenStore()
    client = peers.oauth(store=store).client_auth(peers.url, fetch)
    await peers.refuse(client)
    assert await Credentials(store).servers() == [peers.url]

    assert await client.log_out()

    assert [fields["token"] for fields in revoked] == ["refresh-3"]
    assert await peers.sent(client) is None
    assert [key.partition(" ")[0] for key in store.values] == ["client"]
    assert not await client.log_out()


async def test_log_out_of_an_unreachable_server_deletes_the_login(peers: OAuthPeers) -> None:
    async def fetch(request: FetchRequest) -> FetchResponse:
        raise RequestFailed("gone")

    store = MemoryTokenStore()
    await peers.refuse(peers.client(store=store))
    client = peers.oauth(store=store).client_auth(peers.url, fetch)

    assert await client.log_out()
    assert await Credentials(store).servers() == []
