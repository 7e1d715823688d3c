"""Login at an OpenID Connect provider: the redirects, and the end of a login there."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl, urlsplit

import httpx2
import pytest
import trio
from attrs import define, field
from mcptrio_authserver import LedgerSettings, UpstreamSettings

from mcptrio import Secret
from mcptrio.abc import FetchRequest, FetchResponse
from mcptrio.auth.jose import Key, KeySet, sign
from mcptrio.errors import RequestFailed

from .conftest import SECRET, Clock, Site, Web, answer_of, challenge_of, content_of, error_of, opened, payload

PROVIDER = "https://provider.example"


@define(eq=False)
class Provider:
    """A small OpenID Connect provider, as the ``Fetch`` of the authorization server sees it."""

    clock: Clock
    web: Web = field(factory=Web)
    key: Key = field(factory=Key.generate)
    sent: dict[str, str] = field(factory=dict)
    """The query with which the browser arrived."""
    claims: dict[str, Any] = field(factory=dict)
    """Claims of the id_token that differ from the defaults."""
    refreshes: bool = True
    identifies: bool = False
    """True to send an id_token with a refresh too."""
    ended: bool = False
    number: int = 0

    def __attrs_post_init__(self) -> None:
        document = {
            "issuer": PROVIDER,
            "authorization_endpoint": f"{PROVIDER}/authorize",
            "token_endpoint": f"{PROVIDER}/token",
            "userinfo_endpoint": f"{PROVIDER}/userinfo",
            "jwks_uri": f"{PROVIDER}/keys",
            "authorization_response_iss_parameter_supported": True,
        }
        self.web.put(f"{PROVIDER}/.well-known/openid-configuration", document)
        self.web.put(f"{PROVIDER}/keys", KeySet((Key.from_jwk(self.key.public),)).document)
        self.web.pages[f"{PROVIDER}/token"] = self._token
        self.web.pages[f"{PROVIDER}/userinfo"] = self._userinfo

    def log_in(self, location: str, **changes: str) -> str:
        """Log the user in; return the query with which the browser returns."""
        self.sent = dict(parse_qsl(urlsplit(location).query))
        answer = {"code": "provider's code", "state": self.sent["state"], "iss": PROVIDER, **changes}
        return str(httpx2.QueryParams(answer))

    def _token(self, request: FetchRequest) -> FetchResponse:
        form = dict(parse_qsl(request.body.decode()))
        assert request.headers["authorization"].startswith("Basic ")
        if form["grant_type"] == "authorization_code":
            good = challenge_of(form["code_verifier"]) == self.sent["code_challenge"]
        else:
            good = form["refresh_token"] == f"provider's refresh {self.number}" and not self.ended
        if not good:
            return FetchResponse(status=400, body=b'{"error":"invalid_grant"}')
        self.number += 1
        claims = {
            "iss": PROVIDER,
            "aud": "us",
            "sub": "u-17",
            "nonce": self.sent["nonce"],
            "exp": self.clock.now + 60,
            **self.claims,
        }
        answer = {"access_token": f"provider's access {self.number}", "expires_in": 300}
        if form["grant_type"] == "authorization_code" or self.identifies:
            answer["id_token"] = sign(claims, self.key)
        if self.refreshes:
            answer["refresh_token"] = f"provider's refresh {self.number}"
        return FetchResponse(status=200, body=json.dumps(answer).encode())

    def _userinfo(self, request: FetchRequest) -> FetchResponse:
        assert request.headers["authorization"] == f"Bearer provider's access {self.number}"
        return FetchResponse(status=401 if self.ended else 200, body=b"{}")


@pytest.fixture
def clock() -> Clock:
    return Clock()


@pytest.fixture
def provider(clock: Clock) -> Provider:
    return Provider(clock)


@pytest.fixture
async def delegating(folder: Path, provider: Provider, clock: Clock) -> AsyncIterator[Site]:
    upstream = UpstreamSettings(issuer=PROVIDER, client_id="us", client_secret=Secret("what they gave us"))
    async with opened(folder, fetch=provider.web, clock=clock, upstream=upstream) as site:
        yield site


async def consent(site: Site, **changes: str | None) -> str:
    """Consent to a client; return the URL to which the browser is sent."""
    page = await site.authorize(**changes)
    assert "log in at provider.example" in page.text
    assert 'name="password"' not in page.text
    result = await site.submit(page, decision="allow")
    assert result.status_code == 303, result.text
    return result.headers["location"]


async def come_back(site: Site, query: str) -> httpx2.Response:
    return await site.get(f"{site.issuer}/upstream?{query}")


async def granted(site: Site, provider: Provider) -> dict[str, Any]:
    back = await come_back(site, provider.log_in(await consent(site)))
    tokens: dict[str, Any] = (await site.redeem(answer_of(back)["code"])).json()
    return tokens


async def test_user_logs_in_at_the_provider_after_consent(delegating: Site, provider: Provider) -> None:
    location = await consent(delegating)
    assert location.startswith(f"{PROVIDER}/authorize?")

    back = await come_back(delegating, provider.log_in(location))

    assert provider.sent["redirect_uri"] == f"{delegating.issuer}/upstream"
    assert provider.sent["code_challenge_method"] == "S256"
    assert "xyz" not in location, "the client's state is nobody's business there"
    answer = answer_of(back)
    assert (answer["state"], answer["iss"]) == ("xyz", delegating.issuer)
    tokens = (await delegating.redeem(answer["code"])).json()
    claims = await delegating.claims(tokens["access_token"])
    assert claims["sub"] == "upstream:u-17"
    assert claims["exp"] == delegating.clock.now + 300, "no longer than the provider's"
    assert "provider's" not in json.dumps(tokens)


async def test_refresh_is_checked_at_the_provider_each_time(delegating: Site, provider: Provider) -> None:
    tokens = await granted(delegating, provider)

    for count in (2, 3):
        delegating.clock.now += 400
        tokens = (await delegating.refresh(tokens["refresh_token"])).json()
        assert provider.number == count
        assert payload(tokens["access_token"])["exp"] == delegating.clock.now + 300


async def test_two_replicas_use_the_refresh_token_of_the_provider_once(
    folder: Path, database: LedgerSettings, provider: Provider, clock: Clock
) -> None:
    """The provider would take a second use for a theft."""
    question_asked, may_answer = trio.Event(), trio.Event()

    async def slow(request: FetchRequest) -> FetchResponse:
        response = await provider.web(request)
        if b"grant_type=refresh_token" in request.body:
            question_asked.set()
            await may_answer.wait()
        return response

    upstream = UpstreamSettings(issuer=PROVIDER, client_id="us", client_secret=Secret("what they gave us"))
    settings = {"ledger": database, "upstream": upstream, "clock": clock}
    async with (
        opened(folder, fetch=slow, **settings) as one,
        opened(folder, fetch=provider.web, issuer=one.issuer, **settings) as other,
        trio.open_nursery() as nursery,
    ):
        token = (await granted(one, provider))["refresh_token"]

        async def refresh() -> None:
            response = await one.refresh(token)
            assert response.status_code == 200, response.text
            assert (await other.refresh(response.json()["refresh_token"])).status_code == 200

        nursery.start_soon(refresh)
        await question_asked.wait()
        second = await other.refresh(token)

        assert (second.status_code, error_of(second)) == (503, "temporarily_unavailable")
        assert second.headers["retry-after"] == "2"
        assert provider.number == 2
        may_answer.set()


async def test_refused_refresh_keeps_the_rotated_token_of_the_provider(delegating: Site, provider: Provider) -> None:
    """The provider has issued another refresh token by then, and no longer accepts the old one."""
    tokens = await granted(delegating, provider)

    assert error_of(await delegating.refresh(tokens["refresh_token"], scope="nonsense")) == "invalid_scope"

    assert provider.number == 2
    assert (await delegating.refresh(tokens["refresh_token"])).status_code == 200


async def test_failed_key_fetch_keeps_the_rotated_token_of_the_provider(delegating: Site, provider: Provider) -> None:
    provider.identifies = True
    tokens = await granted(delegating, provider)
    keys = provider.web.pages.pop(f"{PROVIDER}/keys")

    assert error_of(await delegating.refresh(tokens["refresh_token"])) == "temporarily_unavailable"

    assert provider.number == 1, "its refresh token is not spent"
    provider.web.pages[f"{PROVIDER}/keys"] = keys
    assert (await delegating.refresh(tokens["refresh_token"])).status_code == 200


@pytest.mark.parametrize("refreshes", [True, False])
async def test_grant_ended_by_the_provider_is_revoked(delegating: Site, provider: Provider, refreshes: bool) -> None:
    provider.refreshes = refreshes
    tokens = await granted(delegating, provider)
    provider.ended = True

    refused = await delegating.refresh(tokens["refresh_token"])

    assert error_of(refused) == "invalid_grant"
    assert "identity provider has ended" in refused.json()["error_description"]
    assert not await delegating.is_active(tokens["access_token"])
    provider.ended = False
    assert error_of(await delegating.refresh(tokens["refresh_token"])) == "invalid_grant"


async def test_grant_expires_with_the_providers_token_if_it_cannot_be_refreshed(
    delegating: Site, provider: Provider
) -> None:
    provider.refreshes = False
    tokens = await granted(delegating, provider)
    delegating.clock.now += 200
    tokens = (await delegating.refresh(tokens["refresh_token"])).json()
    assert tokens["expires_in"] == 100
    delegating.clock.now += 101

    assert error_of(await delegating.refresh(tokens["refresh_token"])) == "invalid_grant"
    assert not await delegating.is_active(tokens["access_token"])


async def test_unreachable_provider_ends_no_grant(delegating: Site, provider: Provider) -> None:
    tokens = await granted(delegating, provider)
    there = provider.web.pages[f"{PROVIDER}/token"]
    for away in (
        RequestFailed("no answer"),
        FetchResponse(status=500),
        FetchResponse(status=200, body=b"<html>"),
        FetchResponse(status=403, body=b"<html>a proxy's"),
        FetchResponse(status=401),
        FetchResponse(status=400, body=b'{"error":"invalid_request"}'),
        FetchResponse(status=400, body=b'{"error":"temporarily_unavailable"}'),
        FetchResponse(status=400, body=b'{"error":["invalid_grant"]}'),
        FetchResponse(status=401, body=b'{"error":"invalid_client"}'),
    ):
        provider.web.pages[f"{PROVIDER}/token"] = away
        response = await delegating.refresh(tokens["refresh_token"])
        assert response.status_code == 503
        assert error_of(response) == "temporarily_unavailable"
    provider.web.pages[f"{PROVIDER}/token"] = there

    assert (await delegating.refresh(tokens["refresh_token"])).status_code == 200


async def test_client_receives_that_the_provider_is_unreachable(delegating: Site, provider: Provider) -> None:
    location = await consent(delegating)
    provider.web.pages[f"{PROVIDER}/token"] = RequestFailed("no answer")

    answer = answer_of(await come_back(delegating, provider.log_in(location)))

    assert (answer["error"], answer["state"]) == ("temporarily_unavailable", "xyz")
    assert "identity provider" in answer["error_description"]


async def test_missing_metadata_of_the_provider_is_an_error(folder: Path, clock: Clock) -> None:
    upstream = UpstreamSettings(issuer=PROVIDER, client_id="us")
    async with opened(folder, fetch=Web(), clock=clock, upstream=upstream) as site:
        page = await site.authorize()
        assert page.status_code == 503
        assert "Try again in a while" in page.text


@pytest.mark.parametrize(
    "changes",
    [{"iss": "https://evil.example"}, {"iss": None}, {"error": "access_denied", "code": None}],
    ids=["mix-up", "no iss", "denied"],
)
async def test_forged_response_of_the_provider_is_refused(
    delegating: Site, provider: Provider, changes: dict[str, str | None]
) -> None:
    query = dict(parse_qsl(provider.log_in(await consent(delegating))))
    changed = {name: value for name, value in {**query, **changes}.items() if value is not None}

    answer = answer_of(await come_back(delegating, str(httpx2.QueryParams(changed))))

    assert answer["error"] == "access_denied"
    assert "code" not in answer
    assert not provider.web.count(f"{PROVIDER}/token")


@pytest.mark.parametrize(
    "claims",
    [{"nonce": "other"}, {"aud": "them"}, {"iss": "https://evil.example"}, {"exp": 0}, {"sub": ""}, {"azp": "them"}],
)
async def test_invalid_id_token_is_refused(delegating: Site, provider: Provider, claims: dict[str, Any]) -> None:
    provider.claims = claims

    answer = answer_of(await come_back(delegating, provider.log_in(await consent(delegating))))

    assert answer["error"] == "access_denied"


async def test_id_token_of_another_key_is_refused(delegating: Site, provider: Provider) -> None:
    provider.key = Key.generate("ES256")

    answer = answer_of(await come_back(delegating, provider.log_in(await consent(delegating))))

    assert answer["error"] == "access_denied"


async def test_only_the_redirected_browser_may_return_and_once(delegating: Site, provider: Provider) -> None:
    """Confused deputy: an attacker's link with a response of the provider has no effect in a victim's browser."""
    query = provider.log_in(await consent(delegating))
    cookies = dict(delegating.http.cookies)
    delegating.http.cookies.clear()

    assert (await come_back(delegating, query)).status_code == 400
    delegating.http.cookies.clear()
    await delegating.authorize()
    assert (await come_back(delegating, query)).status_code == 400
    delegating.http.cookies.clear()
    delegating.http.cookies.update(cookies)
    assert (await come_back(delegating, query)).status_code == 400, "it is spent"

    again = provider.log_in(await consent(delegating))
    assert "code" in answer_of(await come_back(delegating, again))
    assert (await come_back(delegating, again)).status_code == 400


async def test_redirect_requires_consent_to_this_client(delegating: Site, provider: Provider) -> None:
    page = await delegating.authorize()
    denied = await delegating.submit(page, decision="deny")
    assert answer_of(denied)["error"] == "access_denied"
    form = {"decision": "allow", "form_token": "0" * 64}
    forged = await delegating.http.post(f"{delegating.issuer}/consent?{delegating.query()}", data=form)
    assert forged.status_code == 403


async def test_provider_tokens_are_not_stored_in_plain_text(delegating: Site, provider: Provider, folder: Path) -> None:
    tokens = await granted(delegating, provider)
    await delegating.refresh(tokens["refresh_token"])

    content = content_of(folder)

    assert b"upstream" in content
    assert b"provider's" not in content
    assert SECRET.encode() not in content


async def test_users_of_the_file_cannot_log_in_with_a_provider(folder: Path, provider: Provider, clock: Clock) -> None:
    async with opened(folder, clock=clock) as site:
        tokens = await site.tokens()
    upstream = UpstreamSettings(issuer=PROVIDER, client_id="us")
    async with opened(folder, fetch=provider.web, clock=clock, upstream=upstream) as site:
        assert error_of(await site.refresh(tokens["refresh_token"])) == "invalid_grant"
