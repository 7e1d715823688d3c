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

from .client_parts import MemoryTokenStore, World, form

__all__: list[str] = []


async def test_stored_tokens_are_used_by_the_next_run(world: World) -> None:
    store = MemoryTokenStore()
    await world.refuse(world.client(store=store))
    later = world.client(store=store)

    assert await world.sent(later) == "Bearer login.example.com-3"
    world.clock.now += 3600
    assert await world.sent(later) not in (None, "Bearer login.example.com-3")
    assert world.prompt_count == 1


async def test_login_of_another_process_is_used(world: World) -> None:
    store = MemoryTokenStore()
    one, other = world.client(store=store), world.client(store=store)
    assert await world.sent(one) is None
    await world.refuse(other)

    assert await one.challenged(world.url, 401, world.challenge())
    assert await world.sent(one) == await world.sent(other)
    assert world.prompt_count == 1


async def test_tokens_refreshed_by_another_process_are_used(world: World) -> None:
    """The authorization server treats a refresh token that is used twice as stolen."""
    store = MemoryTokenStore()
    await world.refuse(world.client(store=store))
    one, other = world.client(store=store), world.client(store=store)
    assert await world.sent(one) == await world.sent(other)
    world.clock.now += 3600

    assert await world.sent(one) == await world.sent(other)
    assert len(world.issuer.tokens) == 2


async def test_only_one_process_refreshes_at_a_time(world: World) -> None:
    """The authorization server treats a refresh token that is used twice as stolen, and ends the login."""
    store = MemoryTokenStore()
    await world.refuse(world.client(store=store))
    clients = [world.client(store=store) for _ in range(5)]
    for client in clients:
        await world.sent(client)
    world.clock.now += 3600
    sent: list[str | None] = []

    async def send(client: OAuthClient) -> None:
        sent.append(await world.sent(client))

    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(send, client)

    assert len(world.issuer.tokens) == 2
    assert len(set(sent)) == 1
    assert None not in sent


async def test_only_one_process_refreshes_after_a_refusal(world: World) -> None:
    store = MemoryTokenStore()
    await world.refuse(world.client(store=store))
    clients = [world.client(store=store) for _ in range(5)]
    for client in clients:
        await world.sent(client)
    world.clock.now += 60
    async with trio.open_nursery() as nursery:
        for client in clients:
            nursery.start_soon(world.refuse, client)

    assert len(world.issuer.tokens) == 2
    assert len({await world.sent(client) for client in clients}) == 1


async def test_new_registration_keeps_other_logins(world: World) -> None:
    """A refresh token belongs to the client that it was issued to, even after a new registration."""
    store = MemoryTokenStore()
    first = world.client(store=store)
    await world.refuse(first)
    other = World(url="https://other.example.com/mcp", issuers=world.issuers, clock=world.clock)
    back = OwnRedirects(uri="http://127.0.0.1:10/callback", send=other.send)
    second = other.client(store=store, redirects=back)
    await other.refuse(second)
    assert len(world.issuer.clients) == 2
    world.clock.now += 3600

    assert await world.sent(world.client(store=store))
    assert await other.sent(other.client(store=store))
    assert (world.prompt_count, other.prompt_count) == (1, 1)


@pytest.mark.parametrize("spoiled", [{}, {"access_token": 1}, {"asked": None, "key": {"kty": "x"}}])
async def test_invalid_store_content_leads_to_a_new_login(world: World, spoiled: dict[str, Any]) -> None:
    store = MemoryTokenStore()
    await world.refuse(world.client(store=store))
    for key in list(store.values):
        store.values[key] = spoiled

    client = world.client(store=store)
    assert await world.sent(client) is None
    assert await world.refuse(client)


async def test_log_out_revokes_and_deletes_the_login(world: World) -> None:
    revoked: list[dict[str, str]] = []
    world.issuer.metadata["revocation_endpoint"] = "https://login.example.com/revoke"

    async def fetch(request: FetchRequest) -> FetchResponse:
        if request.url.endswith("/revoke"):
            revoked.append(form(request))
            return FetchResponse(status=200)
        return await world.fetch(request)

    store = MemoryTokenStore()
    client = world.oauth(store=store).client_auth(world.url, fetch)
    await world.refuse(client)
    assert await Credentials(store).servers() == [world.url]

    assert await client.log_out()

    assert [fields["token"] for fields in revoked] == ["refresh-3"]
    assert await world.sent(client) is None
    assert [key.partition(" ")[0] for key in store.values] == ["client"]
    assert not await client.log_out()


async def test_log_out_of_an_unreachable_server_deletes_the_login(world: World) -> None:
    async def fetch(request: FetchRequest) -> FetchResponse:
        raise RequestFailed("gone")

    store = MemoryTokenStore()
    await world.refuse(world.client(store=store))
    client = world.oauth(store=store).client_auth(world.url, fetch)

    assert await client.log_out()
    assert await Credentials(store).servers() == []
