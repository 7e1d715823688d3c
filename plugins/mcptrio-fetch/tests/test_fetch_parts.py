"""Addresses, settings, and hostile pages."""

from __future__ import annotations

import importlib
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
import trio
from mcptrio_fetch import Config, Fetch
from mcptrio_fetch.errors import printable
from mcptrio_fetch.page import FetchedPage
from mcptrio_fetch.renderer import Renderer

from mcptrio import Secret, Server, ToolError, connect


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"max_bytes": 1}, "max_bytes"),
        ({"request_timeout": float("nan")}, "request_timeout"),
        ({"allow_hosts": ("http://a",)}, "expected a host such as"),
        ({"allow_hosts": ("10.0.0.0/8",)}, "expected a host such as"),
        ({"deny_hosts": ("a b",)}, "expected a host, an address or a network"),
        ({"user_agent": "a\r\nb"}, "printable ASCII"),
        ({"proxy": Secret("me:s3cret@proxy")}, "expected a URL of http"),
        ({"ca_file": Path("/nowhere/ca.pem")}, "expected a file for ca_file"),
    ],
)
def test_invalid_setting_is_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message) as caught:
        Config(**settings)
    assert "s3cret" not in str(caught.value)


def test_settings_as_text_omit_the_proxy() -> None:
    assert "s3cret" not in repr(Config(proxy=Secret("http://me:s3cret@proxy:1080")))


async def test_plugin_is_configured_by_a_table() -> None:
    config = {"Fetch": {"deny_hosts": ["example.com"], "robots": False}}
    with trio.fail_after(60):
        async with connect(Server(plugins=[Fetch], config=config)) as client:
            result = await client.call_tool("fetch", {"url": "http://example.com/"})

    assert "not among the allowed hosts" in result.content[0].text


def test_http_client_is_imported_on_first_use() -> None:
    """Until the first use, the plugin does not slow the start of the server."""
    heavy = ("httpx2", "httpcore2", "lxml", "trafilatura", "protego", "mcptrio_documents")
    code = f"import mcptrio_fetch, sys; print([m for m in {heavy} if m in sys.modules])"
    result = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, timeout=60, check=True)
    assert result.stdout.strip() == "[]"


@pytest.fixture(scope="module")
def loaded() -> None:
    """Import the libraries, so that their import is not timed."""
    importlib.import_module("mcptrio_fetch.markdown")


def html(body: str) -> FetchedPage:
    return FetchedPage(url="http://e.org/", status=200, content_type="text/html", body=f"<html><body>{body}".encode())


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize("body", ["<table><tr><td>x</td></tr></table>" * 30_000, "<br>" * 200_000])
async def test_parsing_of_a_page_is_cancellable(body: str) -> None:
    """Parsing the whole page takes 15 s. Processor time is measured, because other processes may use the machine."""
    renderer = Renderer(Config(convert_timeout=0.5))
    worst = 0.0

    async def watch() -> None:
        nonlocal worst
        while True:
            before = time.process_time()
            await trio.sleep(0.01)
            worst = max(worst, time.process_time() - before)

    since = time.process_time()
    async with trio.open_nursery() as nursery:
        nursery.start_soon(watch)
        with pytest.raises(ToolError, match=r"took longer than 0\.5 seconds"):
            await renderer.render(html(body), raw=False)
        nursery.cancel_scope.cancel()

    assert time.process_time() - since < 5
    assert worst < 1.0  # the event loop ran meanwhile


@pytest.mark.usefixtures("loaded")
@pytest.mark.parametrize(
    "body",
    [
        "<p>a" + " " * 1_000_000 + "b",
        "<div>" * 50_000 + "x",
        "<p>" + "<b>x" * 20_000,
        "<p>" + "<" * 100_000,
        "\0",
        "<!--",
    ],
)
async def test_hostile_page_is_parsed_in_limited_time(body: str) -> None:
    with trio.fail_after(60):
        rendered = await Renderer(Config(convert_timeout=30)).render(html(body), raw=False)
    assert rendered.text


@pytest.mark.usefixtures("loaded")
async def test_html_is_parsed_up_to_a_limit() -> None:
    page = html("<p>word</p>" + " " * 2000 + "<p>end</p>")
    rendered = await Renderer(Config(max_html_bytes=1024)).render(page, raw=False)
    assert (rendered.text, rendered.notes) == ("word", ("the page is too large, so its end was not read",))


def test_text_from_the_network_is_one_line() -> None:
    assert printable("a\r\nb\x1b[1m\u2028") == "a\\x0d\\x0ab\\x1b[1m\\x2028"
    assert printable("x" * 400) == "x" * 300 + "…"
