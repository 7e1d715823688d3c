"""robots.txt, as RFC 9309 and the reference server define it."""

from __future__ import annotations

import pytest
import trio
from mcptrio_fetch.page import FetchedPage
from mcptrio_fetch.robots import MAX_ROBOTS_BYTES, Robots

from .conftest import Names, OpenReader, OpenSite, ReceivedRequest, Site

TEXT = "text/plain"


async def test_robots_txt_rules_are_obeyed(reading: OpenReader, site: Site) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /private\nAllow: /private/but\nDisallow: /*.cgi$\n", TEXT)
    for path in ("/open", "/private/a", "/private/but/this", "/a.cgi"):
        site.page(path, "<p>here</p>")
    async with reading(allow_private=True, robots=True) as reader:
        assert (await reader.text(site.url("/open"))).endswith("here")
        assert (await reader.text(site.url("/private/but/this"))).endswith("here")
        failures = [await reader.failure(site.url(path)) for path in ("/private/a", "/a.cgi")]
        failures.append(await reader.failure(site.url("/private/a"), "fetch_links"))
        failures.append(await reader.failure(site.url("/private/a"), "fetch_head"))

    assert all("autonomous fetching" in failure and "fetch prompt" in failure for failure in failures), failures
    assert site.paths() == ["GET /robots.txt", "GET /open", "GET /private/but/this"]


@pytest.mark.parametrize(
    ("status", "allowed"),
    [(200, True), (404, True), (410, True), (401, False), (403, False), (500, False), (503, False)],
)
async def test_status_of_robots_txt_decides_without_rules(
    reading: OpenReader, site: Site, status: int, allowed: bool
) -> None:
    # The body of a 5xx response is not robots.txt, even if it looks like it.
    site.page("/robots.txt", "User-agent: *\nAllow: /", TEXT, status=status)
    site.page("/a", "<p>here</p>")
    async with reading(allow_private=True, robots=True) as reader:
        result = await reader.call("fetch", url=site.url("/a"))

    assert result.is_error is not allowed
    if not allowed:
        assert f"status {status}" in result.content[0].text


async def test_unreachable_robots_txt_forbids_the_page(reading: OpenReader, site: Site) -> None:
    async def rude(seen: ReceivedRequest) -> None:
        await seen.stream.aclose()

    site.routes["/robots.txt"] = rude
    site.page("/a", "<p>here</p>")
    async with reading(allow_private=True, robots=True) as reader:
        failures = [await reader.failure(site.url("/a")) for _ in range(2)]

    assert all("Failed to fetch robots.txt" in failure for failure in failures)
    assert site.paths() == ["GET /robots.txt"]  # and is not requested again at once


async def test_robots_txt_of_each_redirected_origin_is_checked(
    reading: OpenReader, site: Site, open_another: OpenSite
) -> None:
    other = await open_another()
    site.page("/robots.txt", status=302, Location="/rules")
    site.page("/rules", "User-agent: *\nAllow: /", TEXT)
    site.page("/a", status=302, Location=other.url("/b"))
    other.page("/robots.txt", "User-agent: *\nDisallow: /b", TEXT)
    other.page("/b", "<p>no</p>")
    async with reading(allow_private=True, robots=True) as reader:
        failure = await reader.failure(site.url("/a"))

    assert other.url("/robots.txt") in failure
    assert site.paths() == ["GET /robots.txt", "GET /rules", "GET /a"]
    assert other.paths() == ["GET /robots.txt"]


async def test_robots_txt_redirect_to_a_private_address_is_refused(
    reading: OpenReader, site: Site, names: type[Names]
) -> None:
    site.page("/robots.txt", status=302, Location="http://169.254.169.254/")
    site.page("/a", "<p>here</p>")
    async with reading(resolver=names(site_test=[["127.0.0.1"]]), private_hosts=("site.test",), robots=True) as reader:
        assert "not a public address" in await reader.failure(site.url("/a", "site.test"))
    assert site.paths() == ["GET /robots.txt"]


async def test_concurrent_calls_request_robots_txt_once(reading: OpenReader, site: Site) -> None:
    site.page("/robots.txt", "User-agent: *\nAllow: /", TEXT)
    async with reading(allow_private=True, robots=True) as reader, trio.open_nursery() as nursery:
        for number in range(6):
            site.page(f"/{number}", "<p>here</p>")
            nursery.start_soon(reader.text, site.url(f"/{number}"))

    assert site.paths().count("GET /robots.txt") == 1


async def test_cancelled_robots_request_is_repeated_by_the_next_call(reading: OpenReader, site: Site) -> None:
    question_asked = trio.Event()

    async def first(seen: ReceivedRequest) -> None:
        site.page("/robots.txt", "User-agent: *\nAllow: /", TEXT)
        question_asked.set()
        await seen.stream.receive_some()

    site.routes["/robots.txt"] = first
    site.page("/a", "<p>here</p>")
    async with reading(allow_private=True, robots=True) as reader, trio.open_nursery() as nursery:
        scope = trio.CancelScope()

        async def read_and_be_cancelled() -> None:
            with scope:
                await reader.text(site.url("/a"))

        nursery.start_soon(read_and_be_cancelled)
        await question_asked.wait()
        nursery.start_soon(reader.text, site.url("/a"))
        await trio.testing.wait_all_tasks_blocked(0.05)
        scope.cancel()

    assert site.paths() == ["GET /robots.txt", "GET /robots.txt", "GET /a"]


@pytest.mark.parametrize(
    ("rules", "allowed"),
    [
        ("User-agent: *\nDisallow: /\n\nUser-agent: mcptrio-fetch\nAllow: /", True),
        ("User-agent: *\nAllow: /\n\nUser-agent: MCPTRIO-Fetch/1.0\nDisallow: /", False),
        ("User-agent: mcptrio-fetcher\nDisallow: /", True),
        ("User-agent: fetch\nDisallow: /", True),
        ("User-agent: a\nUser-agent: mcptrio-fetch # us\nDisallow: /a", False),
        ("\ufeffUser-agent: *\r\nDisallow: /a\r\n", False),
        ("User-agent: *\nDisallow: /a%62", True),
        ("User-agent: *\nDisallow:", True),
    ],
)
async def test_most_specific_robots_rules_apply(rules: str, allowed: bool, reading: OpenReader, site: Site) -> None:
    site.page("/robots.txt", rules, TEXT)
    site.page("/a", "<p>here</p>")
    async with reading(allow_private=True, robots=True) as reader:
        assert (await reader.call("fetch", url=site.url("/a"))).is_error is not allowed


async def test_rules_of_the_configured_user_agent_apply(reading: OpenReader, site: Site) -> None:
    site.page("/robots.txt", "User-agent: mybot\nDisallow: /", TEXT)
    site.page("/a", "<p>here</p>")
    async with reading(allow_private=True, robots=True, user_agent="MyBot/2.0 (+https://example.com)") as reader:
        assert "not allowed for mybot" in await reader.failure(site.url("/a"))
    assert site.seen[0].headers["user-agent"] == "MyBot/2.0 (+https://example.com)"


async def test_long_robots_txt_is_parsed_up_to_a_limit(reading: OpenReader, site: Site) -> None:
    filling = "# filling\n" * (MAX_ROBOTS_BYTES // 10)
    site.page("/robots.txt", "User-agent: *\nDisallow: /a\n" + filling + "Disallow: /b\n", TEXT)
    site.page("/b", "<p>here</p>")
    async with reading(allow_private=True, robots=True) as reader:
        assert "not allowed" in await reader.failure(site.url("/a"))
        assert (await reader.text(site.url("/b"))).endswith("here")


async def test_many_agents_with_many_rules_take_little_time() -> None:
    """Rules times agents would be 200 million here."""
    body = "".join(f"User-agent: bot{number}\n" for number in range(12_000)) + "Disallow: /a\n" * 18_000
    assert len(body) < MAX_ROBOTS_BYTES
    page = FetchedPage(url="http://e.org/robots.txt", status=200, content_type=TEXT, body=body.encode())

    async def fetch(url: str) -> FetchedPage:
        return page

    from httpx2 import URL

    with trio.fail_after(30):
        await Robots(fetch, token="mcptrio-fetch", max_age=60).check(URL("http://e.org/a"))
