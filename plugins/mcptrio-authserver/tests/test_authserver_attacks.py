"""Attacks that must fail."""

from __future__ import annotations

import logging
from pathlib import Path
from urllib.parse import urlencode

import pytest
import trio
from argon2 import PasswordHasher
from mcptrio_authserver.grants import LEEWAY
from mcptrio_authserver.users import User, read_users, write_users

from .conftest import PASSWORD, SECRET, Site, answer_of, challenge_of, error_of, form_of, opened

# Codes


async def test_reused_code_revokes_its_tokens(site: Site) -> None:
    code = (await site.code())["code"]
    tokens = (await site.redeem(code)).json()

    assert error_of(await site.redeem(code)) == "invalid_grant"

    assert not await site.is_active(tokens["access_token"])
    assert error_of(await site.refresh(tokens["refresh_token"])) == "invalid_grant"


@pytest.mark.parametrize(
    ("change", "error"),
    [
        ({"client_id": "other"}, "invalid_grant"),
        ({"redirect_uri": "http://127.0.0.1:10/callback"}, "invalid_grant"),
        ({"code_verifier": "v" * 43}, "invalid_grant"),
        ({"code_verifier": None}, "invalid_grant"),
        ({"resource": "https://elsewhere.example/mcp"}, "invalid_target"),
    ],
    ids=["client", "redirect", "verifier", "no verifier", "resource"],
)
async def test_code_is_refused_with_another_client_or_parameters(
    site: Site, change: dict[str, str | None], error: str
) -> None:
    """The code is used up by the attempt."""
    code = (await site.code())["code"]

    assert error_of(await site.redeem(code, **change)) == error

    assert error_of(await site.redeem(code)) == "invalid_grant"


async def test_code_of_a_victim_is_refused_with_the_attackers_verifier(site: Site) -> None:
    """Code injection: the attacker's verifier belongs to the attacker's challenge."""
    victims = (await site.code())["code"]
    site.verifier = "a" * 43

    assert error_of(await site.redeem(victims)) == "invalid_grant"


async def test_code_expires(site: Site) -> None:
    code = (await site.code())["code"]
    site.clock.now += 61

    assert error_of(await site.redeem(code)) == "invalid_grant"


async def test_code_is_valid_once_among_concurrent_requests(site: Site) -> None:
    code = (await site.code())["code"]
    statuses: list[int] = []

    async def redeem() -> None:
        statuses.append((await site.redeem(code)).status_code)

    async with trio.open_nursery() as nursery:
        for _ in range(8):
            nursery.start_soon(redeem)

    assert sorted(statuses) == [200] + [400] * 7


@pytest.mark.parametrize(
    "changes",
    [
        {"code_challenge": None},
        {"code_challenge_method": None},
        {"code_challenge_method": "plain"},
        {"code_challenge": "short"},
    ],
    ids=["none", "no method", "plain", "short"],
)
async def test_authorization_request_without_pkce_is_refused(site: Site, changes: dict[str, str | None]) -> None:
    answer = answer_of(await site.authorize(**changes))

    assert answer["error"] == "invalid_request"
    assert answer["iss"] == site.issuer


# Redirects


@pytest.mark.parametrize(
    "uri",
    [
        "https://evil.example/cb",
        "http://127.0.0.1:9/callback/../evil",
        "http://127.0.0.1:9/callback?next=https://evil.example",
        "http://127.0.0.1:9@evil.example/callback",
        "https://other.example/cb",
        "javascript:alert(1)",
    ],
)
async def test_unregistered_redirect_uri_is_refused(site: Site, uri: str) -> None:
    for changes in ({}, {"response_type": "token"}, {"scope": "nonsense"}):
        response = await site.authorize(redirect_uri=uri, **changes)

        assert response.status_code == 400
        assert "location" not in response.headers
        assert f'href="{uri}' not in response.text


@pytest.mark.parametrize("changes", [{"scope": "nonsense"}, {"response_type": "token"}, {"prompt": "none"}])
async def test_registration_does_not_allow_open_redirects(site: Site, changes: dict[str, str]) -> None:
    """Any client can register, so it must not redirect users before they have made a decision."""
    client = (await site.register(redirect_uris=["https://phish.example/"])).json()["client_id"]

    response = await site.authorize(client_id=client, redirect_uri="https://phish.example/", **changes)

    assert response.status_code == 400
    assert "location" not in response.headers
    assert "Go back to phish.example" in response.text


@pytest.mark.parametrize(
    ("uris", "kind"),
    [
        (["javascript:alert(1)"], None),
        (["data:text/html,x"], None),
        (["http://app.example/cb"], None),
        (["https://app.example/cb#x"], None),
        (["https://a@app.example/cb"], None),
        (["https://app.example/c b"], None),
        (["http://127.0.0.1/cb"], "web"),
        (["com.example:/cb"], "web"),
        ([], None),
        ([1], None),
        (["feed://x/cb"], None),
        (["ms-officecmd:cb"], "native"),
        ("https://app.example/cb", None),
        (["https://app.example/cb"] * 21, None),
    ],
)
async def test_unsafe_redirect_uri_is_not_registered(site: Site, uris: object, kind: str | None) -> None:
    response = await site.register(redirect_uris=uris, **({"application_type": kind} if kind else {}))

    assert response.status_code == 400
    assert error_of(response) == "invalid_redirect_uri"


@pytest.mark.parametrize("uri", ["com.example.app:/cb", "cursor://anysphere.cursor-mcp/oauth/callback"])
async def test_redirect_uri_with_the_scheme_of_an_app_is_registered(site: Site, uri: str) -> None:
    assert (await site.register(redirect_uris=[uri])).status_code == 201


async def test_login_page_warns_of_an_unverified_client_name(site: Site) -> None:
    client = (await site.register(client_name="Your Bank", redirect_uris=["https://phish.example/"])).json()[
        "client_id"
    ]
    page = await site.authorize(client_id=client, redirect_uri="https://phish.example/")

    assert page.status_code == 200
    assert "Its name has not been verified" in page.text
    assert "<strong>phish.example</strong>" in page.text
    assert "<strong>Your Bank" not in page.text


async def test_name_of_the_cookie_contains_the_port(site: Site) -> None:
    """Browsers send cookies to all ports of a host."""
    page = await site.authorize()
    port = site.url.rpartition(":")[2]

    assert page.headers["set-cookie"].startswith(f"mcptrio-authserver-{port}=")


# Refresh tokens


async def test_refresh_token_is_valid_again_after_a_lost_response(site: Site) -> None:
    """This holds also if two processes of the client have sent it at the same time."""
    token = (await site.tokens())["refresh_token"]
    first = (await site.refresh(token)).json()
    site.clock.now += LEEWAY
    second = (await site.refresh(token)).json()

    assert first["refresh_token"] != second["refresh_token"]
    assert await site.is_active(first["access_token"])
    site.clock.now += 1
    assert (await site.refresh(first["refresh_token"])).status_code == 200
    assert (await site.refresh(second["refresh_token"])).status_code == 200
    # A second use does not extend the leeway.
    assert error_of(await site.refresh(token)) == "invalid_grant"
    assert error_of(await site.refresh(second["refresh_token"])) == "invalid_grant"


async def test_reused_refresh_token_revokes_its_family(site: Site) -> None:
    stolen = (await site.tokens())["refresh_token"]
    newest = (await site.refresh(stolen)).json()
    site.clock.now += LEEWAY + 1

    assert error_of(await site.refresh(stolen)) == "invalid_grant"

    assert error_of(await site.refresh(newest["refresh_token"])) == "invalid_grant"
    assert not await site.is_active(newest["access_token"])


async def test_refresh_token_is_bound_to_its_client(site: Site) -> None:
    token = (await site.tokens())["refresh_token"]

    assert error_of(await site.refresh(token, client_id="other")) == "invalid_grant"
    assert error_of(await site.refresh(token, scope="notes:read notes:write")) == "invalid_scope"
    assert error_of(await site.refresh(token, resource=f"{site.url}/other")) == "invalid_target"
    assert (await site.refresh(token)).status_code == 200


# Clients


@pytest.mark.parametrize(
    "form",
    [
        {"client_id": "robot"},
        {"client_id": "robot", "client_secret": "wrong"},
        {"client_id": "robot", "client_secret": ""},
        {"client_id": "nobody", "client_secret": SECRET},
        {"client_id": "app", "client_secret": SECRET},
        {"client_secret": SECRET},
        {},
    ],
    ids=["no secret", "wrong", "empty", "unknown", "public", "no id", "nothing"],
)
async def test_unauthenticated_client_is_refused(site: Site, form: dict[str, str]) -> None:
    response = await site.post("token", {"grant_type": "client_credentials", **form})

    assert error_of(response) in ("invalid_client", "invalid_request")
    assert response.status_code in (400, 401)


async def test_guesses_of_client_secrets_are_rate_limited(site: Site) -> None:
    form = {"grant_type": "client_credentials", "client_id": "robot"}
    seen = [(await site.post("token", {**form, "client_secret": str(n)})).status_code for n in range(60)]

    assert seen == [401] * 50 + [429] * 10
    assert (await site.post("token", {**form, "client_secret": SECRET})).status_code == 429
    site.clock.now += 901
    assert (await site.post("token", {**form, "client_secret": SECRET})).status_code == 200


async def test_two_authentication_methods_in_one_request_are_refused(site: Site) -> None:
    form = {"grant_type": "client_credentials", "client_id": "robot", "client_secret": SECRET}

    assert error_of(await site.post("token", form, auth=("robot", SECRET))) == "invalid_request"
    del form["client_secret"]
    assert error_of(await site.post("token", form, auth=("server", SECRET))) == "invalid_request"


async def test_unregistered_grant_type_is_refused(site: Site) -> None:
    robot = await site.post("token", {"grant_type": "refresh_token", "refresh_token": "x"}, auth=("robot", SECRET))
    assert error_of(robot) == "unauthorized_client"
    form = {"grant_type": "password", "client_id": "app", "username": "ada", "password": PASSWORD}
    assert error_of(await site.post("token", form)) == "unsupported_grant_type"


async def test_flood_of_registrations_is_limited_per_address(folder: Path) -> None:
    async with opened(folder, registrations_per_hour=5) as site:
        seen = [(await site.register()).status_code for _ in range(8)]

        assert seen == [201] * 5 + [429] * 3
        site.clock.now += 3601
        assert (await site.register()).status_code == 201


async def test_flood_of_registrations_evicts_no_client_in_use(folder: Path) -> None:
    async with opened(folder, registrations_per_hour=1000, max_clients=10) as site:
        client = (await site.register(grant_types=["authorization_code", "refresh_token"])).json()["client_id"]
        answer = await site.redeem((await site.code(client_id=client))["code"], client_id=client)
        token = answer.json()["refresh_token"]

        for _ in range(30):
            assert (await site.register()).status_code == 201

        assert (await site.refresh(token, client_id=client)).status_code == 200
        kept = await site.server._store.transact(lambda ledger: ledger.count("client"))  # type: ignore[union-attr]
        assert kept == 10


async def test_unused_clients_expire(site: Site) -> None:
    client = (await site.register()).json()["client_id"]
    assert (await site.authorize(client_id=client)).status_code == 200
    site.clock.now += 3601

    response = await site.authorize(client_id=client)

    assert response.status_code == 400
    assert "is not known" in response.text


@pytest.mark.parametrize(
    "document",
    [
        {"grant_types": ["client_credentials"]},
        {"token_endpoint_auth_method": "tls_client_auth"},
        {"token_endpoint_auth_method": "private_key_jwt"},
        {"response_types": ["token"]},
        {"client_name": "x" * 101},
        {"client_name": 7},
        {"application_type": "desktop"},
        {"jwks_uri": "http://keys.example/jwks"},
    ],
    ids=["credentials", "method", "no keys", "implicit", "long", "number", "type", "plain keys"],
)
async def test_invalid_client_metadata_is_not_registered(site: Site, document: dict[str, object]) -> None:
    response = await site.register(**document)

    assert response.status_code == 400
    assert error_of(response) == "invalid_client_metadata"


async def test_name_of_a_client_is_escaped(site: Site) -> None:
    name = '<script>alert(1)</script>\u202e"\n\u200bx'
    client = (await site.register(client_name=name)).json()["client_id"]

    page = await site.authorize(client_id=client)

    assert "<script" not in page.text
    assert "&lt;script&gt;" in page.text
    assert not {"\u202e", "\u200b"} & {*page.text}


# Resources and parameters


@pytest.mark.parametrize(
    "resource",
    ["https://elsewhere.example/mcp", "http://127.0.0.1:1/mcp", "nonsense", "javascript:x", "http://a@127.0.0.1/mcp"],
)
async def test_token_for_a_foreign_server_is_refused(site: Site, resource: str) -> None:
    assert answer_of(await site.authorize(resource=resource))["error"] == "invalid_target"
    form = {"grant_type": "client_credentials", "resource": resource}
    assert error_of(await site.post("token", form, auth=("robot", SECRET))) == "invalid_target"


async def test_only_configured_resources_are_accepted(folder: Path) -> None:
    async with opened(folder, resources=("https://notes.example/mcp",)) as site:
        assert answer_of(await site.authorize())["error"] == "invalid_target"
        answer = await site.redeem((await site.code(resource="https://NOTES.example:443/mcp"))["code"], resource=None)
        assert (await site.claims(answer.json()["access_token"]))["aud"] == "https://notes.example/mcp"


async def test_repeated_parameter_is_refused(site: Site) -> None:
    twice = f"{site.query()}&redirect_uri=https%3A%2F%2Fevil.example"
    assert (await site.get(f"/auth/authorize?{twice}")).status_code == 400
    body = urlencode([("grant_type", "client_credentials"), ("scope", "notes:read"), ("scope", "notes:write")])
    headers = {"content-type": "application/x-www-form-urlencoded"}
    response = await site.http.post(f"{site.issuer}/token", content=body, headers=headers, auth=("robot", SECRET))
    assert error_of(response) == "invalid_request"


@pytest.mark.parametrize("endpoint", ["token", "register", "introspect", "revoke", "login", "consent"])
async def test_oversized_body_is_refused(site: Site, endpoint: str) -> None:
    for type in ("application/x-www-form-urlencoded", "application/json"):
        response = await site.http.post(
            f"{site.issuer}/{endpoint}", content=b"a" * 70_000, headers={"content-type": type}
        )

        assert response.status_code == 413


async def test_reuse_is_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    token = (await site.tokens())["refresh_token"]
    await site.refresh(token)
    site.clock.now += LEEWAY + 1
    caplog.clear()

    await site.refresh(token)

    [record] = [record for record in caplog.records if record.name == "mcptrio.authserver"]
    assert "used before" in record.getMessage()
    assert "127.0.0.1" in record.getMessage()
    assert token not in record.getMessage()


async def test_oversized_query_or_wrong_content_type_is_refused(site: Site) -> None:
    assert (await site.get(f"/auth/authorize?{site.query(state='x' * 20_000)}")).status_code == 400
    assert (await site.http.post(f"{site.issuer}/token", json={"grant_type": "x"})).status_code == 415
    assert (await site.http.post(f"{site.issuer}/register", data={"a": "b"})).status_code == 415
    bad = await site.http.post(f"{site.issuer}/register", content=b"[", headers={"content-type": "application/json"})
    assert error_of(bad) == "invalid_client_metadata"
    assert (await site.get("/auth/token?grant_type=client_credentials")).status_code == 405


# Users


async def test_guesses_of_passwords_are_rate_limited(site: Site) -> None:
    page = await site.authorize()
    for _ in range(5):
        wrong = await site.submit(page, username="ada", password="wrong")
        assert wrong.status_code == 403
        assert "Wrong user name or password" in wrong.text

    blocked = await site.submit(page, username="ada", password=PASSWORD)

    assert blocked.status_code == 429
    assert int(blocked.headers["retry-after"]) == 900
    assert (await site.submit(page, username="bob", password=PASSWORD)).status_code == 303, "somebody else may"
    site.clock.now += 901
    site.http.cookies.clear()
    assert (await site.submit(await site.authorize(), username="ada", password=PASSWORD)).status_code == 303


async def test_unknown_name_looks_like_a_wrong_password(site: Site) -> None:
    page = await site.authorize()

    there = await site.submit(page, username="ada", password="wrong")
    not_there = await site.submit(page, username="eve", password="wrong")

    assert there.status_code == not_there.status_code == 403
    assert there.text.replace("ada", "eve") == not_there.text


async def test_concurrent_guesses_are_counted_each(folder: Path) -> None:
    async with opened(folder, login_attempts=2) as site:
        page = await site.authorize()
        seen: list[int] = []

        async def guess(password: str) -> None:
            seen.append((await site.submit(page, username="ada", password=password)).status_code)

        async with trio.open_nursery() as nursery:
            for number in range(6):
                nursery.start_soon(guess, f"guess {number}")

        assert sorted(seen) == [403] * 2 + [429] * 4


async def test_forged_form_has_no_effect(site: Site) -> None:
    consent = await site.log_in(await site.authorize())
    action, token = form_of(consent)
    url = f"{site.url}{action}"

    for form, headers in (
        ({"decision": "allow"}, {}),
        ({"decision": "allow", "form_token": "0" * 64}, {}),
        ({"decision": "allow", "form_token": token}, {"origin": "https://evil.example"}),
        ({"decision": "allow", "form_token": token}, {"origin": "null"}),
    ):
        response = await site.http.post(url, data=form, headers=headers)
        assert response.status_code == 403
        assert "location" not in response.headers

    same = await site.http.post(url, data={"decision": "allow", "form_token": token}, headers={"origin": site.url})
    assert "code" in answer_of(same)


async def test_forged_login_form_has_no_effect(site: Site) -> None:
    """Otherwise a victim could be logged in as the attacker, and store data in the attacker's account."""
    page = await site.authorize()
    action, token = form_of(page)
    site.http.cookies.clear()

    form = {"form_token": token, "username": "ada", "password": PASSWORD}
    assert (await site.http.post(f"{site.url}{action}", data=form)).status_code == 403


async def test_consent_form_of_one_client_is_refused_for_another(site: Site) -> None:
    consent = await site.log_in(await site.authorize())
    _, token = form_of(consent)
    form = {"decision": "allow", "form_token": token}

    for query in (
        site.query(client_id="other", redirect_uri="https://other.example/cb"),
        site.query(scope="notes:read notes:write"),
        site.query(code_challenge=challenge_of("x" * 43)),
        site.query(redirect_uri="http://127.0.0.1:10/callback"),
    ):
        response = await site.http.post(f"{site.issuer}/consent?{query}", data=form)
        assert response.status_code == 403
        assert "location" not in response.headers


async def test_consent_is_refused_when_the_scopes_have_changed(site: Site, folder: Path) -> None:
    """The user received more scopes while the page was open."""
    consent = await site.log_in(await site.authorize(scope="notes:read notes:write"), "bob")
    users = folder / "users"
    users.write_text(users.read_text().replace(":notes:read", ""))

    assert (await site.submit(consent, decision="allow")).status_code == 403


async def test_changed_password_ends_all_sessions_of_the_user(site: Site, folder: Path) -> None:
    """An intruder with the old password is logged out, and so is an earlier user of the same name."""
    consent = await site.log_in(await site.authorize())
    assert 'name="password"' not in (await site.authorize()).text
    users, hasher = dict(read_users(folder / "users")), PasswordHasher(time_cost=1, memory_cost=64, parallelism=1)
    users["ada"] = User(name="ada", hash=hasher.hash("another password"))

    write_users(folder / "users", users)

    assert (await site.submit(consent, decision="allow")).status_code == 403
    page = await site.authorize()
    assert 'name="password"' in page.text
    await site.log_in(page, password="another password")
    assert 'name="password"' not in (await site.authorize()).text


async def test_login_replaces_the_session_cookie(site: Site) -> None:
    """Session fixation."""
    page = await site.authorize()
    before = dict(site.http.cookies)

    await site.log_in(page)

    assert before
    assert {**before}.keys() == dict(site.http.cookies).keys()
    assert before != dict(site.http.cookies)
    site.http.cookies.clear()
    site.http.cookies.update(before)
    assert 'name="password"' in (await site.authorize()).text


async def test_pages_forbid_frames_caches_and_scripts(site: Site) -> None:
    login = await site.authorize()
    consent = await site.log_in(login)
    problem = await site.authorize(client_id="nobody")

    for page in (login, consent, problem):
        policy = page.headers["content-security-policy"]
        assert "frame-ancestors 'none'" in policy
        assert "default-src 'none'" in policy
        assert "script-src" not in policy
        assert page.headers["x-frame-options"] == "DENY"
        assert page.headers["cache-control"] == "no-store"
        assert page.headers["x-content-type-options"] == "nosniff"
        assert "<script" not in page.text
    cookie = login.headers["set-cookie"].lower()
    assert "httponly" in cookie
    assert "samesite=lax" in cookie


async def test_cookie_has_the_host_prefix_over_tls(folder: Path) -> None:
    async with opened(folder, issuer="https://login.example/auth") as site:
        page = await site.get(f"/auth/authorize?{site.query(resource='https://login.example/mcp')}")

        cookie = page.headers["set-cookie"]
        assert cookie.startswith("__Host-mcptrio-authserver=")
        assert "; secure" in cookie.lower()
        assert "; path=/" in cookie.lower()
        assert "domain" not in cookie.lower()


async def test_secrets_are_not_logged(site: Site, caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)
    answer = await site.code()
    tokens = (await site.redeem(answer["code"])).json()
    await site.refresh(tokens["refresh_token"])
    await site.post("token", {"grant_type": "client_credentials"}, auth=("robot", SECRET))
    site.server._store.close()  # type: ignore[union-attr]
    assert (await site.refresh(tokens["refresh_token"])).status_code == 503
    assert (await site.authorize()).status_code == 503

    ours = [record for record in caplog.records if not record.name.startswith(("httpx", "httpcore"))]

    text = "\n".join(f"{record.getMessage()} {record.exc_text}" for record in ours)
    assert "state.db" in text, "the failure is"
    for secret in (answer["code"], *tokens.values(), PASSWORD, SECRET, *site.http.cookies.values(), site.verifier):
        assert str(secret) not in text or len(str(secret)) < 12
