"""From an authorization request to refreshing, introspecting and revoking a token."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path

import httpx2
import pytest
from mcptrio_authserver import ClientSettings, LedgerSettings
from mcptrio_authserver.redirect_uris import is_registered
from mcptrio_authserver.store_opening import open_store, user_directory
from mcptrio_authserver.users import check_name

from mcptrio import Secret
from tests.engines.postgres_server import PostgresServer

from .conftest import REDIRECT, SECRET, Site, answer_of, content_of, error_of, opened, payload, rows_of


@pytest.fixture
async def site(folder: Path, ledger: LedgerSettings | None) -> AsyncIterator[Site]:
    async with opened(folder, ledger=ledger) as site:
        yield site


async def test_user_logs_in_and_consents_and_the_client_gets_tokens(site: Site) -> None:
    page = await site.authorize(scope="notes:read notes:write")
    assert page.status_code == 200
    assert "The App" in page.text

    consent = await site.log_in(page)

    assert "Read your notes" in consent.text
    assert "127.0.0.1:9" in consent.text
    assert f"{site.url}/mcp" in consent.text
    result = await site.submit(consent, decision="allow")
    assert result.headers["location"].startswith(f"{REDIRECT}?")
    answer = answer_of(result)
    assert (answer["state"], answer["iss"]) == ("xyz", site.issuer)
    response = await site.redeem(answer["code"])
    assert response.status_code == 200
    assert response.headers["cache-control"] == "no-store"
    tokens = response.json()
    assert tokens["token_type"] == "Bearer"
    assert tokens["scope"] == "notes:read notes:write"
    assert await site.claims(tokens["access_token"]) == {
        "iss": site.issuer,
        "sub": "ada",
        "aud": f"{site.url}/mcp",
        "client_id": "app",
        "iat": int(site.clock.now),
        "exp": int(site.clock.now) + 600,
        "jti": payload(tokens["access_token"])["jti"],
        "scope": "notes:read notes:write",
        "auth_time": int(site.clock.now),
    }


async def test_refresh_rotates_the_token_and_may_narrow_its_scopes(site: Site) -> None:
    tokens = await site.tokens(scope="notes:read notes:write")
    site.clock.now += 700
    assert not await site.is_active(tokens["access_token"])

    response = await site.refresh(tokens["refresh_token"], scope="notes:read")

    renewed = response.json()
    assert renewed["refresh_token"] != tokens["refresh_token"]
    assert renewed["scope"] == "notes:read"
    assert (await site.claims(renewed["access_token"]))["aud"] == f"{site.url}/mcp"
    # A narrower refresh does not narrow the grant.
    assert (await site.refresh(renewed["refresh_token"])).json()["scope"] == "notes:read notes:write"


async def test_grant_expires_after_its_lifetime_or_when_idle(folder: Path) -> None:
    async with opened(folder, refresh_idle=1000, refresh_lifetime=2500) as site:
        token = (await site.tokens())["refresh_token"]
        for _ in range(2):
            site.clock.now += 900
            token = (await site.refresh(token)).json()["refresh_token"]
        last = await site.refresh(token)
        site.clock.now += 700  # 2500 since the consent, 700 since the last use

        assert error_of(await site.refresh(last.json()["refresh_token"])) == "invalid_grant"
        idle = (await site.tokens())["refresh_token"]
        site.clock.now += 1001
        assert error_of(await site.refresh(idle)) == "invalid_grant"


async def test_access_token_does_not_outlive_its_grant(folder: Path) -> None:
    async with opened(folder, refresh_lifetime=100) as site:
        tokens = await site.tokens()

        assert tokens["expires_in"] == 100


async def test_grant_is_limited_to_the_scopes_of_the_user(site: Site) -> None:
    consent = await site.log_in(await site.authorize(scope="notes:read notes:write"), "bob")

    assert "Change your notes" not in consent.text
    code = answer_of(await site.submit(consent, decision="allow"))["code"]
    assert (await site.redeem(code)).json()["scope"] == "notes:read"
    response = await site.authorize(scope="notes:write")
    assert answer_of(response)["error"] == "access_denied"


async def test_removed_user_is_refused(site: Site, folder: Path, ledger: LedgerSettings | None) -> None:
    tokens = await site.tokens()

    async with open_store(folder, ledger) as store:
        await user_directory(folder, ledger, store).change(lambda users: users.pop("ada"))

    assert error_of(await site.refresh(tokens["refresh_token"])) == "invalid_grant"
    assert not await site.is_active(tokens["access_token"])
    assert 'name="password"' in (await site.authorize()).text


async def test_denial_is_sent_to_the_client(site: Site) -> None:
    consent = await site.log_in(await site.authorize())

    answer = answer_of(await site.submit(consent, decision="deny"))

    assert (answer["error"], answer["state"], answer["iss"]) == ("access_denied", "xyz", site.issuer)
    assert "code" not in answer


async def test_user_may_switch_accounts(site: Site) -> None:
    consent = await site.log_in(await site.authorize(), "bob")

    switched = await site.submit(consent, decision="switch")

    page = await site.get(switched.headers["location"])
    code = answer_of(await site.submit(await site.log_in(page, "ada"), decision="allow"))["code"]
    assert payload((await site.redeem(code)).json()["access_token"])["sub"] == "ada"


async def test_consent_is_required_each_time_and_login_once(site: Site) -> None:
    await site.tokens()

    page = await site.authorize()

    assert "Allow The App" in page.text
    site.clock.now += 8 * 3600 + 1
    assert 'name="password"' in (await site.authorize()).text


async def test_empty_request_error_names_the_missing_parameter(site: Site) -> None:
    assert answer_of(await site.authorize(prompt="none"))["error"] == "login_required"
    await site.tokens()
    assert answer_of(await site.authorize(prompt="none"))["error"] == "consent_required"


async def test_client_of_an_older_revision_needs_no_resource_parameter(site: Site) -> None:
    code = (await site.code(resource=None))["code"]

    token = (await site.redeem(code, resource=None)).json()["access_token"]

    assert payload(token)["aud"] == f"{site.url}/mcp"


async def test_metadata_is_served_at_every_well_known_url(site: Site) -> None:
    paths = (
        "/.well-known/oauth-authorization-server/auth",
        "/.well-known/openid-configuration/auth",
        "/auth/.well-known/openid-configuration",
    )
    for path in paths:
        response = await site.get(path)
        document = response.json()
        assert response.headers["content-type"] == "application/json"
        assert response.headers["access-control-allow-origin"] == "*"
        assert document["issuer"] == site.issuer
        assert document["code_challenge_methods_supported"] == ["S256"]
        assert document["authorization_response_iss_parameter_supported"] is True
        assert document["client_id_metadata_document_supported"] is True
        for name, url in document.items():
            if name.endswith("_endpoint"):
                assert (await site.get(url)).status_code != 404, name
    assert (await site.get("/.well-known/oauth-authorization-server")).status_code == 404


async def test_issuer_without_a_path_has_the_default_endpoints_of_2025_03_26(folder: Path) -> None:
    async with opened(folder, path="") as site:
        assert site.issuer == site.url
        assert (await site.get("/.well-known/oauth-authorization-server")).json()["issuer"] == site.url
        assert {"/authorize", "/token", "/register"} <= {*site.server.config.addresses.routes}

        assert (await site.tokens())["token_type"] == "Bearer"


async def test_browser_clients_of_other_origins_may_use_the_token_endpoint(site: Site) -> None:
    asked = await site.http.options(f"{site.issuer}/token", headers={"origin": "https://app.example"})

    assert asked.status_code == 204
    assert asked.headers["access-control-allow-origin"] == "*"
    assert "dpop" in asked.headers["access-control-allow-headers"].lower()
    assert "access-control-allow-origin" not in (await site.authorize()).headers


async def test_revoked_refresh_token_ends_the_grant(site: Site) -> None:
    tokens = await site.tokens()
    assert await site.is_active(tokens["access_token"])

    assert (await site.post("revoke", {"client_id": "app", "token": tokens["refresh_token"]})).status_code == 200

    assert not await site.is_active(tokens["access_token"])
    assert error_of(await site.refresh(tokens["refresh_token"])) == "invalid_grant"


async def test_revoked_access_token_keeps_the_grant(site: Site) -> None:
    tokens = await site.tokens()

    await site.post("revoke", {"client_id": "other", "token": tokens["access_token"]})
    assert await site.is_active(tokens["access_token"]), "it is not theirs"
    await site.post("revoke", {"client_id": "app", "token": tokens["access_token"]})

    assert not await site.is_active(tokens["access_token"])
    assert (await site.refresh(tokens["refresh_token"])).status_code == 200


async def test_introspection_shows_each_client_only_its_tokens(site: Site) -> None:
    tokens = await site.tokens()

    response = (await site.post("introspect", {"token": tokens["access_token"]}, auth=("server", SECRET))).json()
    assert (response["active"], response["sub"], response["client_id"]) == (True, "ada", "app")
    robot = await site.post("introspect", {"token": tokens["access_token"]}, auth=("robot", SECRET))
    assert robot.json() == {"active": False}
    public = await site.post("introspect", {"token": tokens["access_token"], "client_id": "app"})
    assert public.status_code == 401
    assert not await site.is_active(tokens["refresh_token"]), "no business of a resource server's"
    assert not await site.is_active("nonsense")


@pytest.mark.parametrize("method", ["basic", "post"])
async def test_client_credentials_grant_needs_no_user(site: Site, method: str) -> None:
    form = {"grant_type": "client_credentials", "scope": "notes:read", "resource": f"{site.url}/mcp"}

    if method == "basic":
        response = await site.post("token", form, auth=("robot", SECRET))
    else:
        response = await site.post("token", {**form, "client_id": "robot", "client_secret": SECRET})

    claims = await site.claims(response.json()["access_token"])
    assert (claims["sub"], claims["client_id"], claims["scope"]) == ("client:robot", "robot", "notes:read")
    assert "refresh_token" not in response.json()


async def test_client_with_the_name_of_a_user_is_another_principal(folder: Path) -> None:
    clients = {"ada": ClientSettings(secret=Secret(SECRET), grant_types=("client_credentials",))}
    async with opened(folder, clients=clients) as site:
        response = await site.post("token", {"grant_type": "client_credentials"}, auth=("ada", SECRET))

        assert (await site.claims(response.json()["access_token"]))["sub"] == "client:ada"
        with pytest.raises(ValueError, match="expected a name"):
            check_name("client:ada")


async def test_keys_are_published_before_and_after_they_sign(folder: Path, ledger: LedgerSettings | None) -> None:
    async with opened(folder, ledger=ledger, key_lifetime=7200, refresh_lifetime=86_400) as site:

        async def published() -> set[str]:
            return {key["kid"] for key in (await site.get("/auth/jwks")).json()["keys"]}

        tokens = await site.tokens()
        [first] = await published()
        site.clock.now += 7200 - 1799  # a quarter of its time is left at most
        both = await published()
        assert len(both) == 2
        assert first in both
        before = (await site.refresh(tokens["refresh_token"])).json()
        site.clock.now += 1800

        after = (await site.refresh(before["refresh_token"])).json()

        # The old key's token is valid until it expires, and the new key is published.
        assert (await site.claims(before["access_token"]))["sub"] == "ada"
        assert (await site.claims(after["access_token"]))["sub"] == "ada"
        site.clock.now += 4 * 7200
        assert first not in await published()


async def test_stored_state_survives_a_restart_and_contains_no_usable_secret(
    folder: Path, ledger: LedgerSettings | None, postgres: PostgresServer
) -> None:
    async with opened(folder, ledger=ledger) as site:
        tokens = await site.tokens()
        waiting = (await site.code())["code"]
        cookie = next(iter(site.http.cookies.values()))
        clock = site.clock

    content = content_of(folder) if ledger is None else rows_of(postgres, ledger)
    for secret in (tokens["refresh_token"], tokens["access_token"], waiting, cookie, SECRET):
        assert secret.encode() not in content
    async with opened(folder, ledger=ledger, clock=clock) as again:
        response: httpx2.Response = await again.refresh(tokens["refresh_token"])
        assert response.status_code == 200
        assert payload(response.json()["access_token"])["sub"] == "ada"


@pytest.mark.parametrize(
    ("asked", "registered", "good"),
    [
        ("https://app.example/cb", "https://app.example/cb", True),
        ("https://app.example/cb/", "https://app.example/cb", False),
        ("https://app.example/cb?x=1", "https://app.example/cb", False),
        ("https://app.example/CB", "https://app.example/cb", False),
        ("https://app.example:444/cb", "https://app.example/cb", False),
        ("https://app.example.evil.example/cb", "https://app.example/cb", False),
        ("https://app.example@evil.example/cb", "https://app.example/cb", False),
        ("http://127.0.0.1:5000/cb", "http://127.0.0.1/cb", True),
        ("http://127.0.0.1:5000/cb", "http://127.0.0.1:4000/cb", True),
        ("http://127.0.0.1:5000/other", "http://127.0.0.1/cb", False),
        ("http://127.0.0.1:0/cb", "http://127.0.0.1/cb", False),
        ("http://127.0.0.1:99999/cb", "http://127.0.0.1/cb", False),
        ("http://[::1]:5000/cb", "http://[::1]/cb", True),
        ("http://[::1]:5000/cb", "http://127.0.0.1/cb", False),
        ("http://localhost:5000/cb", "http://localhost/cb", True),
        ("http://localhost:5000/cb", "http://127.0.0.1/cb", False),
        ("http://127.0.0.1:5000/cb#x", "http://127.0.0.1/cb", False),
        ("http://127.0.0.1:5000@evil.example/cb", "http://127.0.0.1/cb", False),
        ("http://evil.example:5000/cb", "http://127.0.0.1/cb", False),
        ("https://127.0.0.1:5000/cb", "https://127.0.0.1/cb", False),
        ("com.example.app:/cb", "com.example.app:/cb", True),
        ("com.example.app:/cb2", "com.example.app:/cb", False),
    ],
)
def test_redirect_uri_must_match_exactly(asked: str, registered: str, good: bool) -> None:
    """Except for the port of a loopback URI."""
    assert is_registered(asked, (registered,)) is good
