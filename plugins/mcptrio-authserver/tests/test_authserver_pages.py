"""The pages in a browser: without scripts, with the keyboard only, and through the accessibility tree."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio

from mcptrio.http.engine.server import serve_asgi as serve
from tests.chromium import Browser, check_accessibility, open_browser, read_axe

from .conftest import PASSWORD, Site, opened


@asynccontextmanager
async def application() -> AsyncIterator[tuple[str, list[str]]]:
    """The application to which the user returns: its address, and the queries that it received."""
    got: list[str] = []

    async def app(scope: Any, receive: Any, send: Any) -> None:
        if scope["path"] == "/callback":
            got.append(scope["query_string"].decode())
        headers = [(b"content-type", b"text/html")]
        await send({"type": "http.response.start", "status": 200, "headers": headers})
        await send({"type": "http.response.body", "body": b"<!doctype html><title>Back</title><p>Welcome back"})

    async with trio.open_nursery() as nursery:
        [url] = await nursery.start(partial(serve, app, bind="127.0.0.1:0", shutdown_timeout=0.1))
        yield url, got
        nursery.cancel_scope.cancel()


@pytest.fixture(scope="module")
def axe() -> str:
    return read_axe()


async def begin(site: Site, browser: Browser, redirect: str, **document: Any) -> str:
    """Open the authorization request of a self-registered client; return its id."""
    client = (await site.register(redirect_uris=[redirect], **document)).json()["client_id"]
    query = site.query(client_id=client, redirect_uri=redirect, scope="notes:read notes:write")
    await browser.open(f"{site.issuer}/authorize?{query}")
    return str(client)


async def test_login_and_consent_work_with_keyboard_only_and_without_scripts(folder: Path, tmp_path: Path) -> None:
    async with opened(folder) as site, application() as (app, got), open_browser(tmp_path / "profile") as browser:
        await browser.call("Emulation.setScriptExecutionDisabled", value=True)
        client = await begin(site, browser, f"{app}/callback")

        # The Tab key follows the order of the page.
        order = []
        for _ in range(3):
            await browser.press("Tab")
            order.append(await browser.focused())
        assert order == [("textbox", "User name"), ("textbox", "Password"), ("button", "Log in")]

        # A wrong password is announced as an error; the name stays.
        await browser.open(await browser.url())
        await browser.press("Tab")
        await browser.type("ada")
        await browser.press("Tab")
        await browser.type("wrong")
        await browser.leads_on(partial(browser.press, "Enter"))
        tree = await browser.tree()
        assert any(node["role"] == "alert" for node in tree)
        described = [node["description"] for node in tree if (node["role"], node["name"]) == ("textbox", "Password")]
        assert described == ["Wrong user name or password. Check both, and try again."]
        assert any(node["name"] == "ada" for node in tree)

        # The correct one leads to the consent page.
        await browser.press("Tab")
        await browser.press("Tab")
        await browser.type(PASSWORD)
        await browser.press("Tab")
        await browser.leads_on(partial(browser.press, "Enter"))
        names = " ".join(node["name"] for node in await browser.tree() if node["role"] == "StaticText")
        assert "Allow Newcomer to use mcptrio?" in names
        assert "Read your notes" in names
        assert "Its name has not been verified" in names
        order = []
        for _ in range(3):
            await browser.press("Tab")
            order.append(await browser.focused())
        assert order == [("button", "Allow"), ("button", "Deny"), ("button", "Use another account")]
        await browser.open(await browser.url())
        await browser.press("Tab")
        await browser.leads_on(partial(browser.press, "Space"))

        assert (await browser.url()).startswith(f"{app}/callback?code=")
        [query] = got
        code = dict(pair.split("=") for pair in query.split("&"))["code"]
        tokens = await site.redeem(code, client_id=client, redirect_uri=f"{app}/callback")
        assert tokens.status_code == 200
        assert tokens.json()["scope"] == "notes:read notes:write"


async def test_pages_are_accessible_in_light_and_dark_and_cannot_be_framed(
    folder: Path, tmp_path: Path, axe: str
) -> None:
    async with opened(folder) as site, application() as (app, _), open_browser(tmp_path / "profile") as browser:
        seen = 0

        async def examine() -> None:
            nonlocal seen
            await check_accessibility(browser, axe)
            seen += 1

        await begin(site, browser, f"{app}/callback")
        styled = await browser.evaluate("getComputedStyle(document.querySelector('main')).maxWidth")
        assert styled == "480px", "the policy lets our own style in"
        await examine()
        await browser.press("Tab")
        await browser.type("ada")
        await browser.press("Tab")
        await browser.type("wrong")
        await browser.leads_on(partial(browser.press, "Enter"))
        await examine()
        await browser.press("Tab")
        await browser.press("Tab")
        await browser.type(PASSWORD)
        await browser.leads_on(partial(browser.press, "Enter"))
        await examine()
        await browser.open(f"{site.issuer}/authorize?client_id=nobody")
        await examine()
        await site.tokens()
        # The browser takes over the session of the test's HTTP client.
        [(name, value)] = dict(site.http.cookies).items()
        await browser.call("Network.setCookie", name=name, value=value, url=site.url)
        for path in ("grants", "logout"):
            await browser.open(f"{site.issuer}/{path}")
            await examine()
        assert seen == 6

        # In a frame on another site, there is nothing to click.
        consent = f"{site.issuer}/authorize?{site.query()}"
        await browser.open(app)
        begun = len(browser.events)
        await browser.evaluate(
            f"document.body.append(Object.assign(document.createElement('iframe'), {{src: {consent!r}}}))"
        )
        frame = await browser.until(
            lambda event: event["method"] == "Page.frameNavigated" and "parentId" in event["params"]["frame"], begun
        )
        assert frame["params"]["frame"]["url"] == "chrome-error://chromewebdata/"
        assert frame["params"]["frame"]["unreachableUrl"].startswith(f"{site.issuer}/authorize?")
