"""The console in a browser: live pages, every action by keyboard, hostile texts, accessibility and screenshots.

With ``MCPTRIO_SCREENSHOTS`` set to a folder, the pictures of ``docs/console.md`` are written there.
"""

from __future__ import annotations

import logging
import os
import types
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from mcptrio_console.diagnosis import is_slow

from mcptrio import MCPTrioError, connect, tool
from mcptrio.serving import ShownSetting
from mcptrio.types import Implementation
from tests.chromium import Browser, check_accessibility, open_browser, read_axe

from .conftest import Garden, Site, Tokens, failing_plugin, opened

PAGES = (
    *("", "tree", "sessions", "plugins", "tools", "tool?name=draw", "tasks", "log", "replicas"),
    *("wire", "message?number=1"),
)
HOSTILE = (
    "<script>window.pwned = 1</script>",
    "<img src=x onerror='window.pwned = 1'>",
    '"><svg onload=window.pwned=1>',
    "' autofocus onfocus='window.pwned=1",
    "</textarea></title></style><script>window.pwned=1</script>",
    "javascript:window.pwned=1",
    "{{ 7 * 7 }}{% raw %}",
    "&lt;script&gt;window.pwned=1&lt;/script&gt;",
    "\u202ereversed\u0000\u001b[2J\r\n\r\ndata: x",
    "</svg><math><mtext></form><form><mglyph><style></math><img src onerror=window.pwned=1>",
)


@pytest.fixture(scope="module")
def axe() -> str:
    return read_axe()


async def keep_calling(site: Site, name: str, tool: str, arguments: dict[str, Any], pause: float) -> None:
    """A client that calls a tool again and again."""
    while True:
        try:
            async with connect(site.server, info=Implementation(name=name, version="1")) as client:
                while True:
                    await client.call_tool(tool, arguments)
                    await trio.sleep(pause)
        except MCPTrioError:
            await trio.sleep(pause)


@asynccontextmanager
async def under_load(tmp_path: Path, **options: Any) -> AsyncIterator[tuple[Site, Browser]]:
    """A site with clients at work, and a browser that has opened it."""
    async with opened(Garden(), **options) as site, open_browser(tmp_path / "profile") as browser:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_calling, site, "Ada's desktop", "water", {"bed": "east"}, 0.1)
            nursery.start_soon(keep_calling, site, "Robot", "draw", {"size": "small", "note": "roses"}, 0.02)
            nursery.start_soon(keep_calling, site, "Old client", "break_it", {}, 0.5)
            nursery.start_soon(keep_calling, site, "Greenhouse", "grow", {"plant": "peas"}, 0.5)
            await site.garden.begun.wait()
            await browser.open(site.link)
            assert await browser.url() == site.console
            yield site, browser
            nursery.cancel_scope.cancel()


async def record(site: Site, client: str) -> None:
    """Record the session of a client that calls a tool again and again, until there are messages."""
    if not site.http.cookies:
        await site.enter()
    with trio.fail_after(20):
        while not (found := [each for each in site.server.status.sessions if each.client == client]):  # noqa: ASYNC110
            await trio.sleep(0.05)
        await site.note("record", session=str(found[0].number))
        while 'id="m-2"' not in (await site.get("wire")).text:  # noqa: ASYNC110 - the page has no Trio event
            await trio.sleep(0.05)


def orchard() -> types.ModuleType:
    """A plugin with a tool for one call at a time, which does not end."""

    @tool(concurrency=1)
    async def pick(tree: str) -> str:
        """Pick fruit."""
        await trio.sleep_forever()
        return tree

    module = types.ModuleType("orchard")
    vars(module)["pick"] = pick
    return module


async def until_slow(site: Site, count: int) -> None:
    """Wait until as many requests count as slow."""

    def slow() -> int:
        return sum(is_slow(request) for each in site.server.status.sessions for request in each.requests)

    with trio.fail_after(60):
        while slow() < count:  # noqa: ASYNC110 - only time passes
            await trio.sleep(0.2)


async def until(browser: Browser, condition: str) -> None:
    """Wait until a script of the test is true."""
    await browser.evaluate(
        f"new Promise(done => {{ const look = () => ({condition}) ? done() : setTimeout(look, 50); look(); }})"
    )


async def renewed(browser: Browser) -> None:
    """Wait until the live part has been renewed. One that does not change is renewed once."""
    await until(browser, "Number(document.getElementById('live').dataset.updates || 0) >= 1")


async def focused(browser: Browser) -> str:
    """Return the text of the focused element, or of its label."""
    element = "document.activeElement"
    text = f"({element}.labels && {element}.labels.length ? {element}.labels[0] : {element}).textContent"
    return " ".join(str(await browser.evaluate(text)).split())


async def tab_to(browser: Browser, name: str) -> None:
    """Press Tab until an element whose text begins so has the focus."""
    seen = []
    for _ in range(80):
        await browser.press("Tab")
        seen.append(await focused(browser))
        if seen[-1].startswith(name):
            return
    raise AssertionError(f"expected {name!r}, got {seen}")


async def test_every_page_is_accessible_and_pictured(tmp_path: Path, axe: str) -> None:
    settings = [ShownSetting(name="folder", value='"/srv/garden"', origin="mcptrio.toml:3")]
    options = {"settings_of": lambda _name: settings, "tokens_of": lambda _name: {"draw": 84, "water": 41}}
    weather = failing_plugin("weather", "no key for the weather service")
    pictures = os.environ.get("MCPTRIO_SCREENSHOTS")
    async with (
        under_load(tmp_path, plugins=[weather, orchard()], **options) as (site, browser),
        trio.open_nursery() as nursery,
    ):
        for client in ("Bo's editor", "Cy's editor"):
            nursery.start_soon(keep_calling, site, client, "pick", {"tree": "plum"}, 0.1)
        await record(site, "Robot")
        await site.note("stop")
        if pictures is not None:
            # The captions in docs/console.md speak of slow requests.
            await until_slow(site, 3)
        for page in PAGES:
            await browser.open(f"{(await browser.url()).split('/console/')[0]}/console/{page}")
            is_live = await browser.evaluate("!!document.querySelector('[data-live]')")
            for width in (1300, 400):
                await browser.show(width=width)
                if is_live:
                    await renewed(browser)
                assert await browser.evaluate("document.documentElement.scrollWidth") <= width, page
                await check_accessibility(browser, axe)
                if pictures is not None:
                    # The wide ones in light, the narrow ones in dark.
                    await browser.show(scheme="light" if width > 400 else "dark")
                    name = page.partition("?")[0] or "now"
                    await trio.Path(pictures, f"{name}-{width}.webp").write_bytes(await browser.screenshot())
        nursery.cancel_scope.cancel()


async def test_request_is_cancelled_by_keyboard(tmp_path: Path) -> None:
    async with under_load(tmp_path) as (site, browser):
        await browser.open(f"{site.console}tree")
        await renewed(browser)
        await tab_to(browser, "Cancel water")
        # The focus stays where it is while the page is renewed.
        await until(browser, "Number(document.getElementById('live').dataset.updates) >= 4")
        assert (await focused(browser)).startswith("Cancel water")

        await browser.leads_on(partial(browser.press, "Enter"))

        assert "was cancelled" in await browser.evaluate("document.querySelector('.note').textContent")
        assert (await browser.url()) == f"{site.console}tree"


async def test_task_is_cancelled_by_keyboard(tmp_path: Path) -> None:
    async with under_load(tmp_path) as (site, browser):
        await browser.open(f"{site.console}tasks")
        await until(browser, "document.querySelectorAll('tbody tr').length >= 1")
        await tab_to(browser, "Cancel grow")
        await browser.leads_on(partial(browser.press, "Enter"))

        assert "was cancelled" in await browser.evaluate("document.querySelector('.note').textContent")
        assert (await browser.url()) == f"{site.console}tasks"
        await until(browser, "document.body.textContent.includes('cancelled: an operator has cancelled it')")


async def test_session_is_ended_by_keyboard(tmp_path: Path) -> None:
    async with under_load(tmp_path) as (site, browser):
        await browser.open(f"{site.console}sessions")
        await renewed(browser)
        await tab_to(browser, "End session")
        await browser.press("Enter")
        await until(browser, "Number(document.getElementById('live').dataset.updates) >= 4")
        assert await browser.evaluate("document.querySelectorAll('details[open]').length") == 1
        await browser.press("Tab")
        assert (await focused(browser)).startswith("End session")

        await browser.leads_on(partial(browser.press, "Enter"))

        assert "was ended" in await browser.evaluate("document.querySelector('.note').textContent")


async def test_session_is_recorded_by_keyboard(tmp_path: Path) -> None:
    async with under_load(tmp_path) as (site, browser):
        robot = next(each.number for each in site.server.status.sessions if each.client == "Robot")
        await browser.open(f"{site.console}sessions")
        await renewed(browser)
        await tab_to(browser, f"Record session {robot}")
        await browser.leads_on(partial(browser.press, "Enter"))

        assert (await browser.url()) == f"{site.console}wire"
        assert "is recorded from now on" in await browser.evaluate("document.querySelector('.note').textContent")
        await until(browser, "document.querySelectorAll('tbody tr').length >= 2")
        await tab_to(browser, "Stop")
        await browser.leads_on(partial(browser.press, "Enter"))
        assert "was recorded until it was stopped" in await browser.evaluate("document.querySelector('h2').textContent")

        await tab_to(browser, "Message 1")
        await browser.leads_on(partial(browser.press, "Enter"))
        assert '"name": "draw"' in await browser.evaluate("document.querySelector('pre').textContent")
        await tab_to(browser, "Next")
        await browser.leads_on(partial(browser.press, "Enter"))
        assert (await browser.url()) == f"{site.console}message?number=2"
        await browser.open(f"{site.console}wire")
        await tab_to(browser, "Download the recording")
        assert await browser.evaluate("document.activeElement.hasAttribute('download')")
        kept = await browser.evaluate("fetch(document.activeElement.href).then(answer => answer.text())")
        assert '"draw"' in kept
        await tab_to(browser, "Delete")
        await browser.leads_on(partial(browser.press, "Enter"))
        assert await browser.evaluate("document.querySelectorAll('tbody tr').length") == 0


async def test_plugin_is_restarted_and_withheld_by_keyboard(tmp_path: Path) -> None:
    async with under_load(tmp_path) as (site, browser):
        site.garden.go.set()
        await browser.open(f"{site.console}plugins")
        await tab_to(browser, "Restart garden")
        await browser.leads_on(partial(browser.press, "Enter"))
        assert "was restarted and is running" in await browser.evaluate("document.querySelector('.note').textContent")
        await tab_to(browser, "Withhold garden")
        await browser.press("Enter")
        await browser.press("Tab")
        await browser.leads_on(partial(browser.press, "Enter"))
        assert "is withheld" in await browser.evaluate("document.querySelector('.note').textContent")


async def test_tool_is_called_by_keyboard(tmp_path: Path) -> None:
    async with opened() as site, open_browser(tmp_path / "profile") as browser:
        await browser.open(site.link)
        await browser.open(f"{site.console}tool?name=draw")
        await tab_to(browser, "size")
        await browser.type('"l')
        await browser.press("Tab")
        await browser.type("roses")
        await tab_to(browser, "Call draw")
        await browser.leads_on(partial(browser.press, "Enter"))

        assert "large roses" in await browser.evaluate("document.querySelector('.result').textContent")
        assert await browser.evaluate("document.querySelector('.result img').naturalWidth") == 10


async def test_hostile_texts_are_shown_and_not_run(tmp_path: Path) -> None:
    for text in HOSTILE:
        name = text.replace("\x00", "")
        async with opened(name=name, request_of=lambda text=text: (1, text)) as site, trio.open_nursery() as nursery:
            for label in ("water", "grow", name):
                nursery.start_soon(
                    keep_calling, site, name, label, {"plant": name} if label == "grow" else {"bed": name}, 0.2
                )
            nursery.start_soon(keep_calling, site, f"{name}!", "draw", {"size": "small", "note": name}, 0.2)
            await site.garden.begun.wait()
            logging.getLogger(f"garden.{text}").error("%s", text, exc_info=ValueError(text))
            await site.enter()
            await record(site, f"{name}!")
            for page in PAGES:
                answer = await site.get(page)
                assert answer.status_code == 200
                # Only our own script is in the page, and no attribute or element comes from a text.
                assert answer.text.count("<script") == 1
                text = answer.text.replace("&#39;", "")
                for forbidden in ("<img src=x", "<svg onload", "onfocus='", "<mglyph", 'href="javascript'):
                    assert forbidden not in text
            nursery.cancel_scope.cancel()


async def test_browser_runs_none_of_the_hostile_texts(tmp_path: Path) -> None:
    everything = " ".join(HOSTILE).replace("\x00", "")
    async with opened(name=everything) as site, open_browser(tmp_path / "profile") as browser:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(keep_calling, site, everything, "water", {"bed": everything}, 0.2)
            nursery.start_soon(keep_calling, site, everything, everything, {}, 0.2)
            nursery.start_soon(keep_calling, site, everything, "grow", {"plant": everything}, 0.2)
            drawing = {"size": "small", "note": everything}
            nursery.start_soon(keep_calling, site, f"{everything}!", "draw", drawing, 0.2)
            await site.garden.begun.wait()
            logging.getLogger("garden").error("%s", everything, exc_info=ValueError(everything))
            await browser.open(site.link)
            await record(site, f"{everything}!")
            for page in PAGES:
                await browser.open(f"{site.console}{page}")
                if await browser.evaluate("!!document.querySelector('[data-live]')"):
                    await renewed(browser)
                assert await browser.evaluate("window.pwned") is None
                assert await browser.evaluate("document.querySelectorAll('script, main img, main iframe').length") == 1
            # Even a script that came into a page would not run.
            script = "Object.assign(document.createElement('script'), {textContent: 'window.pwned = 1'})"
            await browser.evaluate(f"document.body.append({script})")
            assert await browser.evaluate("window.pwned") is None
            nursery.cancel_scope.cancel()


async def test_browser_signs_in_with_a_token_and_out_by_keyboard(tmp_path: Path, axe: str) -> None:
    async with opened(guard=Tokens(), scope="console") as site, open_browser(tmp_path / "profile") as browser:
        await browser.open(site.console)
        await check_accessibility(browser, axe)
        await tab_to(browser, "Or enter an access token")
        for token, title in (("weak", "Sign in"), ("good", "Now")):
            await browser.type(token)
            await browser.leads_on(partial(browser.press, "Enter"))
            assert str(await browser.evaluate("document.title")).startswith(title)
            if title == "Sign in":
                await check_accessibility(browser, axe)
                await tab_to(browser, "Or enter an access token")

        await tab_to(browser, "Sign out")
        await browser.leads_on(partial(browser.press, "Enter"))
        assert str(await browser.evaluate("document.title")).startswith("Sign in")
        await browser.open(f"{site.console}sessions")
        assert str(await browser.evaluate("document.title")).startswith("Sign in")
