"""A client is authorized once for all requests, with its own credentials, until its tokens expire."""

from __future__ import annotations

from typing import Any
from urllib.parse import parse_qs, urlencode, urlsplit

import pytest
import trio

from mcptrio.abc import FetchRequest, FetchResponse
from mcptrio.auth.client.client_credentials import ClientCredentials
from mcptrio.auth.client.enterprise_managed import EnterpriseManaged, IdentityProvider
from mcptrio.auth.client.grants import MAX_STEP_UPS, USER_TIMEOUT
from mcptrio.auth.client.oauth import OAuth
from mcptrio.auth.client.redirects import OwnRedirects
from mcptrio.auth.client.registration import PreRegistered
from mcptrio.auth.jose import Key
from mcptrio.errors import AuthorizationError, ConfigError, ConsentNeeded, RequestFailed

from .client_parts import BACK, Issuer, MemoryTokenStore, OAuthPeers, answer, form, refused

__all__: list[str] = []


async def test_client_discovers_registers_logs_in_and_sends_the_token(peers: OAuthPeers) -> None:
    client = peers.client()
    assert await peers.sent(client) is None

    assert await peers.refuse(client, scope="files:read")

    assert await peers.sent(client) == "Bearer login.example.com-3"
    assert [f"{request.method} {request.url}" for request in peers.requests] == [
        "GET https://mcp.example.com/.well-known/oauth-protected-resource/mcp",
        "GET https://login.example.com/.well-known/oauth-authorization-server",
        "POST https://login.example.com/register",
        "POST https://login.example.com/token",
    ]
    [asked], [granted] = peers.issuer.asked, peers.issuer.tokens
    assert (asked["resource"], granted["resource"]) == (peers.url, peers.url)
    assert asked["scope"] == "files:read"
    assert peers.prompt_count == 1


async def test_user_is_asked_after_the_request_has_failed(peers: OAuthPeers) -> None:
    client = peers.client()
    with pytest.raises(ConsentNeeded, match=r"'https://mcp.example.com/mcp' requires authorization") as caught:
        await client.challenged(peers.url, 401, peers.challenge())
    assert peers.prompt_count == 0

    await caught.value.ask()

    assert peers.prompt_count == 1
    assert await peers.sent(client) is not None


@pytest.mark.parametrize(
    ("resource", "scopes", "expected"),
    [
        ({"scopes_supported": ["a", "b"]}, (), "a b"),
        ({"scopes_supported": ["a", "b"]}, ("b",), "b"),
        ({}, (), None),
        ({}, ("x",), "x"),
    ],
)
async def test_requested_scopes_without_a_challenge_are_configured_or_supported_ones(
    peers: OAuthPeers, resource: dict[str, Any], scopes: tuple[str, ...], expected: str | None
) -> None:
    peers.resource = resource
    await peers.refuse(peers.client(scopes=scopes))

    assert peers.issuer.asked[0].get("scope") == expected


@pytest.mark.parametrize(
    "named", ["https://mcp.example.com", "https://mcp.example.com/mcp/", "https://MCP.example.com/mcp"]
)
async def test_published_resource_name_is_sent_unchanged(peers: OAuthPeers, named: str) -> None:
    peers.resource = {"resource": named}
    client = peers.client()
    await peers.refuse(client)

    assert peers.issuer.asked[0]["resource"] == peers.issuer.tokens[0]["resource"] == named
    assert await peers.sent(client)


async def test_log_in_without_a_request_stores_a_token(peers: OAuthPeers) -> None:
    client = peers.client()
    await client.log_in()

    assert await peers.sent(client)


# --- once for all


async def test_concurrent_requests_ask_the_user_once(peers: OAuthPeers) -> None:
    client = peers.client()
    results: list[bool] = []

    async def request() -> None:
        results.append(await peers.refuse(client))

    async with trio.open_nursery() as nursery:
        for _ in range(10):
            nursery.start_soon(request)

    assert results == [True] * 10
    assert (peers.prompt_count, len(peers.issuer.tokens), len(peers.issuer.clients)) == (1, 1, 1)


async def test_two_clients_of_one_server_ask_the_user_once(peers: OAuthPeers) -> None:
    oauth = peers.oauth()
    one, other = peers.client(oauth), oauth.client_auth("HTTPS://MCP.example.com:443/mcp", peers.fetch)
    async with trio.open_nursery() as nursery:
        nursery.start_soon(peers.refuse, one)
        nursery.start_soon(peers.refuse, other)

    assert peers.prompt_count == 1
    assert await peers.sent(one) == await peers.sent(other) != None  # noqa: E711


async def test_refusal_applies_to_all_waiting_requests(peers: OAuthPeers) -> None:
    asked = 0

    async def deny(url: str) -> str:
        nonlocal asked
        asked += 1
        await trio.lowlevel.checkpoint()
        state = url.partition("state=")[2].partition("&")[0]
        return f"{BACK}?{urlencode({'error': 'access_denied', 'state': state, 'iss': peers.issuer.url})}"

    client = peers.client(OAuth(redirects=OwnRedirects(uri=BACK, send=deny), clock=peers.clock))
    failures: list[str] = []

    async def request() -> None:
        with pytest.raises(AuthorizationError, match="access_denied") as caught:
            await peers.refuse(client)
        failures.append(str(caught.value))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(request)

    assert (asked, len(failures)) == (1, 5)
    # A later request may ask again.
    await request()
    assert asked == 2


async def test_cancelled_request_does_not_affect_others(peers: OAuthPeers) -> None:
    hung = trio.Event()

    async def hang(url: str) -> str:
        if not hung.is_set():
            hung.set()
            await trio.sleep_forever()
        return await peers.send(url)

    client = peers.client(OAuth(redirects=OwnRedirects(uri=BACK, send=hang), clock=peers.clock))
    async with trio.open_nursery() as nursery:
        leaving = trio.CancelScope()

        async def leave() -> None:
            with leaving:
                await peers.refuse(client)

        nursery.start_soon(leave)
        await hung.wait()
        nursery.start_soon(peers.refuse, client)
        await trio.testing.wait_all_tasks_blocked()
        leaving.cancel()

    assert await peers.sent(client)
    assert peers.prompt_count == 1


# --- refreshing


async def test_token_is_renewed_before_it_expires(peers: OAuthPeers) -> None:
    client = peers.client()
    await peers.refuse(client)
    first = await peers.sent(client)
    peers.clock.now += 3600 - 31
    assert await peers.sent(client) == first
    peers.clock.now += 2

    sent: list[str | None] = []

    async def request() -> None:
        sent.append(await peers.sent(client))

    async with trio.open_nursery() as nursery:
        for _ in range(5):
            nursery.start_soon(request)

    assert len(set(sent)) == 1
    assert sent[0] != first
    assert [fields["grant_type"] for fields in peers.issuer.tokens] == ["authorization_code", "refresh_token"]
    assert peers.issuer.tokens[1]["resource"] == peers.url
    assert peers.prompt_count == 1


@pytest.mark.parametrize("is_answered", [True, False])
async def test_renewal_outlasts_a_cancelled_request(
    peers: OAuthPeers, is_answered: bool, autojump_clock: trio.testing.MockClock
) -> None:
    """The response that no task awaits contains the only valid refresh token."""
    is_slow = False

    async def fetch(request: FetchRequest) -> FetchResponse:
        response = await peers.fetch(request)
        if is_slow and request.url.endswith("/token"):
            await trio.sleep(1 if is_answered else 1000)
        return response

    oauth = peers.oauth()
    client = oauth.client_auth(peers.url, fetch)
    await peers.refuse(client)
    peers.clock.now += 3600 - 1
    is_slow = True
    began = trio.current_time()
    with trio.move_on_after(0.5) as scope:
        await peers.sent(client)
    assert scope.cancelled_caught
    assert trio.current_time() - began == pytest.approx(1 if is_answered else 0.5 + 5)
    if is_answered:
        peers.clock.now += 600
        assert await peers.sent(client)
        assert [fields["grant_type"] for fields in peers.issuer.tokens] == ["authorization_code", "refresh_token"]


async def test_short_lived_token_is_used_until_shortly_before_its_expiry(peers: OAuthPeers) -> None:
    peers.issuer.lifetime = 20
    client = peers.client()
    await peers.refuse(client)
    first = await peers.sent(client)
    peers.clock.now += 17
    assert await peers.sent(client) == first
    peers.clock.now += 2
    assert await peers.sent(client) != first


async def test_revoked_token_is_refreshed_once(peers: OAuthPeers) -> None:
    client = peers.client()
    await peers.refuse(client)
    peers.clock.now += 60
    first = await peers.sent(client)

    assert await peers.refuse(client, error="invalid_token")

    second = await peers.sent(client)
    assert second not in (None, first)
    assert peers.prompt_count == 1
    # The server refuses the new token as well: refreshing does not help.
    assert await peers.refuse(client, error="invalid_token")
    assert peers.prompt_count == 2


async def test_expired_refresh_token_leads_to_a_new_login(peers: OAuthPeers) -> None:
    client = peers.client()
    await peers.refuse(client)
    peers.issuer.refresh.clear()
    peers.clock.now += 3601

    assert await peers.sent(client) is None
    assert await peers.refuse(client)

    assert peers.prompt_count == 2
    assert await peers.sent(client)


@pytest.mark.parametrize("response", [answer(b"<html>", 503), answer({"error": "temporarily_unavailable"}, 400)])
async def test_refresh_token_is_kept_when_the_token_endpoint_fails(peers: OAuthPeers, response: FetchResponse) -> None:
    broken = False

    async def fetch(request: FetchRequest) -> FetchResponse:
        return response if broken and request.url.endswith("/token") else await peers.fetch(request)

    client = peers.oauth().client_auth(peers.url, fetch)
    await peers.refuse(client)
    peers.clock.now += 3600
    broken = True
    for _ in range(2):
        with pytest.raises(AuthorizationError, match="refused the token request"):
            await peers.sent(client)
    broken = False

    assert await peers.sent(client)
    assert peers.prompt_count == 1


async def test_expired_token_without_a_refresh_token_leads_to_a_new_login(peers: OAuthPeers) -> None:
    peers.issuer.gives_refresh = False
    client = peers.client()
    await peers.refuse(client)
    peers.clock.now += 3601

    assert await peers.sent(client) is None
    assert await peers.refuse(client)
    assert peers.prompt_count == 2


async def test_token_without_expiry_is_sent_until_it_is_refused(peers: OAuthPeers) -> None:
    peers.issuer.lifetime = None
    client = peers.client()
    await peers.refuse(client)
    peers.clock.now += 10_000_000

    assert await peers.sent(client) == "Bearer login.example.com-3"


async def test_valid_token_is_used_while_the_authorization_server_is_down(peers: OAuthPeers) -> None:
    down = False

    async def fetch(request: FetchRequest) -> FetchResponse:
        if down:
            raise RequestFailed("down")
        return await peers.fetch(request)

    client = peers.oauth().client_auth(peers.url, fetch)
    await peers.refuse(client)
    first = await peers.sent(client)
    down = True
    peers.clock.now += 3590
    assert await peers.sent(client) == first
    peers.clock.now += 10
    with pytest.raises(RequestFailed, match="down"):
        await peers.sent(client)
    down = False
    assert await peers.sent(client) not in (None, first)


async def test_new_token_that_the_server_refuses_is_an_error(peers: OAuthPeers) -> None:
    client = peers.client()
    await peers.refuse(client)
    with pytest.raises(AuthorizationError, match="rejects a token that was issued for it: wrong audience"):
        await peers.refuse(client, error="invalid_token", error_description="wrong  audience")
    assert peers.prompt_count == 1


async def test_repeated_questions_to_the_user_are_limited(peers: OAuthPeers) -> None:
    peers.issuer.gives_refresh = False
    client = peers.client()
    for _ in range(MAX_STEP_UPS):
        await peers.refuse(client)
        peers.clock.now += 31
    with pytest.raises(AuthorizationError, match="asked 3 times within 300 seconds"):
        await peers.refuse(client)
    assert peers.prompt_count == MAX_STEP_UPS

    peers.clock.now += USER_TIMEOUT
    await peers.refuse(client)
    assert peers.prompt_count == MAX_STEP_UPS + 1


# --- step up


async def test_step_up_requests_held_and_missing_scopes(peers: OAuthPeers) -> None:
    client = peers.client()
    await peers.refuse(client, scope="read")
    assert await peers.refuse(client, 403, error="insufficient_scope", scope="write")

    assert [asked["scope"] for asked in peers.issuer.asked] == ["read", "read write"]
    assert len(peers.issuer.clients) == 2, "the first registration was for fewer scopes"


async def test_step_up_fails_after_the_scopes_were_not_granted(peers: OAuthPeers) -> None:
    peers.issuer.grants = {"read": "read", "read write": "read"}
    client = peers.client()
    await peers.refuse(client, scope="read")
    await peers.refuse(client, 403, error="insufficient_scope", scope="write")
    with pytest.raises(AuthorizationError, match="requires the scopes write, which were requested and not granted"):
        await peers.refuse(client, 403, error="insufficient_scope", scope="write")
    assert peers.prompt_count == 2

    peers.clock.now += USER_TIMEOUT
    await peers.refuse(client, 403, error="insufficient_scope", scope="write")
    assert peers.prompt_count == 3


@pytest.mark.parametrize("scope", ["read", ""])
async def test_step_up_to_already_granted_scopes_is_refused(peers: OAuthPeers, scope: str) -> None:
    client = peers.client()
    await peers.refuse(client, scope="read")
    with pytest.raises(AuthorizationError, match="the token has all that it names"):
        await peers.refuse(client, 403, error="insufficient_scope", scope=scope)
    assert peers.prompt_count == 1


async def test_refusal_without_a_scope_or_token_error_is_ignored(peers: OAuthPeers) -> None:
    client = peers.client()
    assert not await client.challenged(peers.url, 403, {})
    assert not await client.challenged(peers.url, 403, refused('Bearer error="invalid_token"'))
    assert peers.requests == []


async def test_offline_access_is_requested_if_the_server_supports_it(peers: OAuthPeers) -> None:
    peers.issuer.metadata["scopes_supported"] = ["read", "offline_access"]
    await peers.refuse(peers.client(), scope="read")

    assert peers.issuer.asked[0]["scope"] == "read offline_access"


# --- the client's identity


async def test_registration_is_stored_by_issuer(peers: OAuthPeers) -> None:
    store = MemoryTokenStore()
    await peers.refuse(peers.client(store=store))
    other = OAuthPeers(url="https://other.example.com/mcp", issuers=peers.issuers)
    await other.refuse(other.client(store=store))

    assert len(peers.issuer.clients) == 1
    assert sorted(key.partition(" ")[0] for key in store.values) == ["client", "server", "server", "tokens", "tokens"]
    assert f"tokens {peers.issuer.url} {other.url}" in store.values


async def test_client_registers_again_after_the_server_changes_its_issuer(peers: OAuthPeers) -> None:
    store = MemoryTokenStore()
    client = peers.client(store=store)
    await peers.refuse(client)
    first = peers.issuer
    peers.issuers.insert(0, Issuer("https://new.example.com"))

    assert await peers.refuse(client)

    new = peers.issuer
    assert (await peers.sent(client) or "").startswith("Bearer new.example.com-")
    assert len(new.clients) == 1
    assert set(new.clients) & set(first.clients) == set() or new.tokens[0]["client_id"] in new.clients
    # The new issuer has received nothing of the first one.
    [fields] = new.tokens
    assert fields["grant_type"] == "authorization_code"
    assert len(first.tokens) == 1


async def test_client_metadata_url_needs_no_registration(peers: OAuthPeers) -> None:
    peers.issuer.metadata["client_id_metadata_document_supported"] = True
    client = peers.client(client_metadata_url="https://app.example.com/client.json")
    await peers.refuse(client)
    peers.clock.now += 3600

    assert await peers.sent(client)
    assert peers.issuer.clients == {}
    assert {fields["client_id"] for fields in peers.issuer.tokens} == {"https://app.example.com/client.json"}


def test_invalid_client_metadata_url_is_refused() -> None:
    with pytest.raises(ConfigError, match="client_metadata_url"):
        OAuth(client_metadata_url="https://app.example.com")


async def test_pre_registered_client_is_not_registered(peers: OAuthPeers) -> None:
    own = PreRegistered(client_id="abc", client_secret="s3cret", issuer=peers.issuer.url)
    client = peers.client(client=own)
    await peers.refuse(client)
    peers.clock.now += 3600

    assert await peers.sent(client)
    assert peers.issuer.clients == {}
    assert [header and header[:6] for header in peers.issuer.authorizations] == ["Basic ", "Basic "]


@pytest.mark.parametrize("secret", [{"client_secret": "s3cret"}, {"key": Key.generate("ES256")}])
def test_pre_registered_secret_requires_an_issuer(secret: dict[str, Any]) -> None:
    """Without an issuer, every server could name the authorization server that receives the secret."""
    own = PreRegistered(client_id="abc", **secret)

    for make in (
        lambda: OAuth(client=own),
        lambda: ClientCredentials(client=own),
        lambda: EnterpriseManaged(
            provider=IdentityProvider(issuer="https://idp.example.com", client=own, identity=trio.sleep_forever),
            client=own,
        ),
    ):
        with pytest.raises(ConfigError, match="expected an issuer with the secret or key"):
            make()


@pytest.mark.parametrize("known", [{"client_secret": "s3cret", "issuer": "https://login.example.com"}, {}])
async def test_client_credentials_are_not_sent_to_another_authorization_server(
    peers: OAuthPeers, known: dict[str, Any]
) -> None:
    own = PreRegistered(client_id="abc", **known)
    oauth = peers.oauth(client=own)
    client = peers.client(oauth)
    await peers.refuse(client)
    peers.clock.now += 60
    evil = Issuer("https://evil.example")
    peers.issuers.insert(0, evil)
    with pytest.raises(AuthorizationError, match=r"registered at 'https://login.example.com'"):
        await peers.refuse(client)
    # Nor for another server.
    other = OAuthPeers(url="https://mcp.evil.example/mcp", issuers=[evil])
    with pytest.raises(AuthorizationError, match=r"registered at 'https://login.example.com'"):
        await other.refuse(other.client(oauth))

    assert (evil.asked, evil.tokens) == ([], [])


async def test_deleted_registration_is_repeated(peers: OAuthPeers) -> None:
    peers.issuer.gives_refresh = False
    forgotten: dict[str, Any] = {}

    async def fetch(request: FetchRequest) -> FetchResponse:
        if request.url.endswith("/token") and form(request)["client_id"] in forgotten:
            return answer({"error": "invalid_client"}, 401)
        return await peers.fetch(request)

    client = peers.oauth().client_auth(peers.url, fetch)
    await peers.refuse(client)
    peers.clock.now += 3600
    forgotten.update(peers.issuer.clients)
    with pytest.raises(AuthorizationError, match="invalid_client"):
        await peers.refuse(client)
    await peers.refuse(client)

    assert await peers.sent(client)
    assert len(peers.issuer.clients) == 2


async def test_code_of_another_authorization_server_is_refused(peers: OAuthPeers) -> None:
    """A mix-up: the login leads to an honest server, which sends no ``iss`` and has registered another redirect URI."""
    uris: list[str] = []

    async def send(url: str) -> str:
        uris.append(peers.issuer.authorize(url).partition("?")[0])
        state = parse_qs(urlsplit(url).query)["state"][0]
        # The honest server redirects browsers only to the registered URI.
        return f"{uris[0]}?{urlencode({'code': 'honest', 'state': state})}"

    redirects = OwnRedirects(uri="http://127.0.0.1:9/callback/{issuer}", send=send)
    peers.issuer.metadata["authorization_response_iss_parameter_supported"] = None
    with pytest.raises(AuthorizationError):
        await peers.refuse(peers.client(redirects=redirects))
    evil = OAuthPeers(url="https://mcp.evil.example/mcp", issuers=[Issuer("https://evil.example")])
    evil.issuer.metadata["authorization_response_iss_parameter_supported"] = None
    with pytest.raises(AuthorizationError, match="expected a redirect to"):
        await evil.refuse(world_client := evil.client(redirects=redirects))

    assert await evil.sent(world_client) is None
    assert evil.issuer.tokens == []
