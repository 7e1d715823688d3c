"""Two processes with one database, as replicas behind a proxy that sends each request to the other process."""

from __future__ import annotations

import re
import sys
from collections.abc import AsyncIterator, Awaitable, Callable, Sequence
from contextlib import AsyncExitStack, ExitStack, suppress
from functools import partial
from pathlib import Path

import httpx2
import pytest
import trio
from attrs import define, field
from mcptrio_authserver import AuthorizationServer, Config, LedgerSettings
from mcptrio_authserver.store_opening import open_store

from tests.processes import held_port
from tests.replicas.processes import Replica

from .conftest import REDIRECT, TLS, Clock, Site, answer_of, error_of, opened

_CONFIG = """
[plugins.authserver]
issuer = "http://127.0.0.1:{port}/auth"
folder = "{folder}"
scopes = {{ "notes:read" = "Read your notes" }}

[plugins.authserver.ledger]
url = "{url}"
prefix = "{prefix}"

[plugins.authserver.clients.app]
name = "The App"
redirect_uris = ["{redirect}"]
"""


@define(eq=False)
class OtherProcess(httpx2.AsyncBaseTransport):
    """Sends each request to the port after that of the request before, like a proxy without affinity."""

    ports: Sequence[int]
    inner: httpx2.AsyncBaseTransport = field(factory=lambda: httpx2.AsyncHTTPTransport(verify=TLS))
    sent: list[int] = field(factory=list)

    async def handle_async_request(self, request: httpx2.Request) -> httpx2.Response:
        port = self.ports[len(self.sent) % len(self.ports)]
        self.sent.append(port)
        # The header Host stays that of the issuer, as with most proxies.
        request.url = request.url.copy_with(port=port)
        return await self.inner.handle_async_request(request)

    async def aclose(self) -> None:
        await self.inner.aclose()


@define(eq=False)
class Pair:
    """Two replicas, and a user with a browser in front of them.

    Attributes:
        ledger: The database.
        site: Sends each request to the other replica.
        alone: The site at each replica alone, with its own browser.
    """

    ledger: LedgerSettings
    replicas: Sequence[Replica]
    transport: OtherProcess
    site: Site
    alone: Sequence[Site]


@pytest.fixture
async def pair(tmp_path: Path, folder: Path, database: LedgerSettings) -> AsyncIterator[Pair]:
    with ExitStack() as stack:
        ports = [stack.enter_context(held_port()) for _ in range(2)]
        values = {"port": ports[0], "folder": folder, "redirect": REDIRECT}
        text = _CONFIG.format(url=database.url.reveal(), prefix=database.prefix, **values)
        (tmp_path / "mcptrio.toml").write_text(text)
        replicas = []
        for port in ports:
            command = ["serve", "--http", "--port", str(port), "--plugin", "authserver", "--strict"]
            log = tmp_path / f"replica{port}.log"
            replicas.append(Replica([sys.executable, "-m", "mcptrio", *command], tmp_path, log, port=port))
        for replica in replicas:
            replica.start()
            stack.callback(replica.end)
        for replica in replicas:
            assert await replica.until_ready(), replica.log.read_text()
        url = f"http://127.0.0.1:{ports[0]}"
        transports = [OtherProcess(ports), *(OtherProcess([port]) for port in ports)]
        async with AsyncExitStack() as clients:
            sites = []
            for transport in transports:
                http = await clients.enter_async_context(httpx2.AsyncClient(timeout=60, transport=transport))
                server = AuthorizationServer(Config(issuer=f"{url}/auth"))
                sites.append(Site(url=url, issuer=f"{url}/auth", server=server, http=http, clock=Clock()))
            yield Pair(ledger=database, replicas=replicas, transport=transports[0], site=sites[0], alone=sites[1:])


async def at_once(*requests: Callable[[], Awaitable[httpx2.Response]]) -> list[httpx2.Response]:
    responses: list[httpx2.Response] = []

    async def send(request: Callable[[], Awaitable[httpx2.Response]]) -> None:
        responses.append(await request())

    async with trio.open_nursery() as nursery:
        for request in requests:
            nursery.start_soon(send, request)
    return responses


async def grants_of(pair: Pair) -> int:
    async with open_store(Path(), pair.ledger) as store:
        return await store.transact(lambda ledger: ledger.count("grant"))


async def test_each_request_of_a_login_may_reach_the_other_process(pair: Pair) -> None:
    site = pair.site
    kinds = ["authorization_code", "refresh_token"]
    client = (await site.register(grant_types=kinds)).json()["client_id"]

    answer = await site.code(client_id=client)
    response = await site.redeem(answer["code"], client_id=client)

    assert response.status_code == 200, response.text
    token = response.json()["refresh_token"]
    for _ in range(3):
        response = await site.refresh(token, client_id=client)
        assert response.status_code == 200, response.text
        token = response.json()["refresh_token"]
        assert (await site.claims(response.json()["access_token"]))["sub"] == "ada"
    page = await site.get("/auth/grants")
    assert "Newcomer" in page.text
    [id] = re.findall(r'name="grant" value="([^"]+)"', page.text)
    await site.submit(page, grant=id)
    assert error_of(await site.refresh(token, client_id=client)) == "invalid_grant"
    assert len(set(pair.transport.sent)) == 2
    keys = [(await each.get("/auth/jwks")).json() for each in pair.alone]
    assert keys[0] == keys[1]


async def test_code_redeemed_at_two_replicas_at_once_gives_one_token(pair: Pair) -> None:
    for each in pair.alone:
        each.verifier = pair.site.verifier
    for _ in range(5):
        code = (await pair.site.code())["code"]

        responses = await at_once(*(partial(each.redeem, code) for each in pair.alone))

        good, bad = sorted(responses, key=lambda response: response.status_code)
        assert (good.status_code, bad.status_code, error_of(bad)) == (200, 400, "invalid_grant")
        # One of the two senders is a thief.
        assert error_of(await pair.site.refresh(good.json()["refresh_token"])) == "invalid_grant"
    assert await grants_of(pair) == 0


async def test_refresh_token_spent_at_both_at_once_stays_in_one_family(pair: Pair) -> None:
    token = (await pair.site.tokens())["refresh_token"]
    for _ in range(5):
        responses = await at_once(*(partial(each.refresh, token) for each in pair.alone))

        assert [response.status_code for response in responses] == [200, 200], "the same second"
        token = responses[0].json()["refresh_token"]
    assert await grants_of(pair) == 1


async def test_replica_is_killed_between_all_steps(pair: Pair) -> None:
    site, transport = pair.site, pair.transport
    page = await site.authorize()
    for step in range(4):
        # The replica that answered last is killed; the next one has never seen this user.
        await pair.replicas[step % 2].kill()
        transport.ports = [pair.replicas[1 - step % 2].port]
        if step == 0:
            page = await site.log_in(page)
        elif step == 1:
            result = await site.submit(page, decision="allow")
        elif step == 2:
            response = await site.redeem(answer_of(result)["code"])
            assert response.status_code == 200, response.text
        else:
            response = await site.refresh(response.json()["refresh_token"])
            assert response.status_code == 200, response.text
        pair.replicas[step % 2].start()
        assert await pair.replicas[step % 2].until_ready()


async def test_client_continues_after_a_replica_was_killed_in_a_request(pair: Pair) -> None:
    token = (await pair.site.tokens())["refresh_token"]
    victim, other = pair.alone

    async def refresh_until_killed() -> None:
        nonlocal token
        with suppress(httpx2.TransportError):
            while True:
                response = await victim.refresh(token)
                token = response.json()["refresh_token"]

    for pause in (0.1, 0.5):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(refresh_until_killed)
            await trio.sleep(pause)
            await pair.replicas[0].kill()

        # Whether the token was rotated is unknown; it is valid for some seconds after its first use.
        response = await other.refresh(token)
        assert response.status_code == 200, response.text
        token = response.json()["refresh_token"]
        pair.replicas[0].start()
        assert await pair.replicas[0].until_ready()
    assert await grants_of(pair) == 1


# In one process, where the clock can be set


async def test_used_refresh_token_ends_its_family_at_all_replicas(folder: Path, database: LedgerSettings) -> None:
    async with opened(folder, ledger=database) as one:
        async with opened(folder, ledger=database, clock=one.clock, issuer=one.issuer) as other:
            first = (await one.tokens())["refresh_token"]
            responses = await at_once(partial(one.refresh, first), partial(other.refresh, first))
            assert [response.status_code for response in responses] == [200, 200]
            one.clock.now += 11

            assert error_of(await other.refresh(first)) == "invalid_grant"

            for response in responses:
                assert error_of(await one.refresh(response.json()["refresh_token"])) == "invalid_grant"
