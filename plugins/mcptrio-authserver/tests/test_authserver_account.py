"""The pages on which users log out, see the applications that they have allowed, and end their access."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
from mcptrio_authserver import UpstreamSettings

from .conftest import PASSWORD, Site, error_of, form_of, opened


async def grants_page(site: Site) -> str:
    return (await site.get(f"{site.issuer}/grants")).text


def grant_ids(page: str) -> list[str]:
    return re.findall(r'name="grant" value="([^"]+)"', page)


async def test_user_lists_and_revokes_grants(site: Site) -> None:
    tokens = await site.tokens()

    page = await site.get(f"{site.issuer}/grants")

    for text in ("The App", "127.0.0.1:9", f"{site.url}/mcp", "Read your notes", "2030-03-17 17:46 UTC", "ada"):
        assert text in page.text
    assert "Write your notes" not in page.text
    [id] = grant_ids(page.text)
    result = await site.submit(page, grant=id)
    assert (result.status_code, result.headers["location"]) == (303, f"{site.issuer}/grants")
    assert grant_ids(await grants_page(site)) == []
    assert error_of(await site.refresh(tokens["refresh_token"])) == "invalid_grant"
    assert not await site.is_active(tokens["access_token"])
    assert (await site.submit(page, grant=id)).status_code == 303, "a grant that has already ended"


async def test_pages_are_served_below_an_issuer_without_a_path(folder: Path) -> None:
    async with opened(folder, path="") as site:
        await site.tokens()

        assert "The App" in (await site.get("/grants")).text
        assert "ada" in (await site.get("/logout")).text
        assert {"/grants", "/logout"} <= {*site.server.config.addresses.routes}


async def test_consent_page_links_to_the_page_of_grants(site: Site) -> None:
    consent = await site.log_in(await site.authorize())

    assert '<a href="/auth/grants">' in consent.text
    assert '<a href="/auth/logout">' in await grants_page(site)


async def test_page_of_grants_requires_a_login(site: Site) -> None:
    await site.tokens()
    site.http.cookies.clear()

    page = await site.get(f"{site.issuer}/grants")

    assert grant_ids(page.text) == []
    wrong = await site.submit(page, username="ada", password="wrong")
    assert (wrong.status_code, "Wrong user name or password" in wrong.text) == (403, True)
    result = await site.submit(wrong, username="ada", password=PASSWORD)
    assert (result.status_code, result.headers["location"]) == (303, f"{site.issuer}/grants")
    assert len(grant_ids(await grants_page(site))) == 1


async def test_user_cannot_end_a_grant_of_another_user(site: Site) -> None:
    tokens = await site.tokens()
    page = await site.get(f"{site.issuer}/grants")
    [adas] = grant_ids(page.text)
    await site.submit(await site.get(f"{site.issuer}/logout"))
    await site.log_in(await site.authorize(), name="bob")

    assert grant_ids(await grants_page(site)) == []

    assert (await site.submit(page, grant=adas)).status_code == 403, "the form was shown before the login"
    assert (await site.refresh(tokens["refresh_token"])).status_code == 200


async def test_form_ends_only_the_grant_that_it_showed(site: Site) -> None:
    await site.tokens()
    await site.tokens()
    page = await site.get(f"{site.issuer}/grants")
    first, second = grant_ids(page.text)

    assert (await site.submit(page, grant=second)).status_code == 403, "the token is the one of the first form"
    assert (await site.submit(page, grant=first)).status_code == 303
    assert grant_ids(await grants_page(site)) == [second]


async def test_user_logs_out_of_one_browser(site: Site) -> None:
    tokens = await site.tokens()
    before = dict(site.http.cookies)
    page = await site.get(f"{site.issuer}/logout")
    assert "ada" in page.text
    assert 'name="password"' not in (await site.authorize()).text, "opening the page is not enough"

    result = await site.submit(page)

    assert (result.status_code, result.headers["location"]) == (303, f"{site.issuer}/logout")
    assert "logged out" in (await site.get(f"{site.issuer}/logout")).text
    assert 'name="password"' in (await site.authorize()).text
    site.http.cookies.clear()
    site.http.cookies.update(before)
    assert 'name="password"' in (await site.authorize()).text, "a copy of the cookie is of no use either"
    assert (await site.refresh(tokens["refresh_token"])).status_code == 200, "grants stay"


@pytest.mark.parametrize("path", ["logout", "grants"])
async def test_forged_form_neither_logs_out_nor_ends_a_grant(site: Site, path: str) -> None:
    await site.tokens()
    page = await site.get(f"{site.issuer}/{path}")
    action, token = form_of(page)
    grant = {"grant": "".join(grant_ids(page.text))}

    for form, headers in (
        ({"form_token": ""}, {}),
        ({"form_token": "0" * 64}, {}),
        ({"form_token": token}, {"origin": "https://evil.example"}),
    ):
        response = await site.http.post(f"{site.url}{action}", data={**grant, **form}, headers=headers)
        assert response.status_code == 403
    assert len(grant_ids(await grants_page(site))) == 1


async def test_pages_forbid_frames_caches_and_scripts(site: Site) -> None:
    await site.tokens()

    for path in ("logout", "grants"):
        page = await site.get(f"{site.issuer}/{path}")
        policy = page.headers["content-security-policy"]
        assert "default-src 'none'" in policy
        assert "form-action 'self'" in policy
        assert "frame-ancestors 'none'" in policy
        assert page.headers["cache-control"] == "no-store"
        assert "<script" not in page.text


async def test_name_of_a_client_is_escaped(site: Site) -> None:
    client = (await site.register(client_name="<b>Bold</b>")).json()["client_id"]
    await site.redeem((await site.code(client_id=client))["code"], client_id=client)

    assert "&lt;b&gt;Bold&lt;/b&gt;" in await grants_page(site)


@pytest.mark.parametrize("path", ["logout", "grants"])
async def test_account_pages_are_missing_with_an_upstream_provider(folder: Path, path: str) -> None:
    upstream = UpstreamSettings(issuer="https://accounts.example", client_id="us")
    async with opened(folder, upstream=upstream) as site:
        assert (await site.get(f"{site.issuer}/{path}")).status_code == 404
