"""The cache between calls, and its lifetimes."""

from __future__ import annotations

import pytest
import trio
from mcptrio_fetch.byte_cache import ByteCache
from mcptrio_fetch.host_limits import BURST, HostLimits
from trio.testing import MockClock

from .conftest import OpenReader, ReceivedRequest, Site


async def test_fresh_page_is_not_requested_again(reading: OpenReader, site: Site) -> None:
    site.page("/a", "<p>one</p>")
    async with reading(allow_private=True) as reader:
        for arguments in ({}, {"raw": True}, {"limit": 2}):
            await reader.text(site.url("/a#part"), **arguments)
        await reader.call("fetch_links", url=site.url("/a"))

    assert site.paths() == ["GET /a"]


async def test_stale_page_is_revalidated_with_its_etag(reading: OpenReader, site: Site) -> None:
    changed = False

    async def page(seen: ReceivedRequest) -> None:
        if seen.headers.get("if-none-match") == '"1"' and not changed:
            await seen.stream.send_all(b'HTTP/1.1 304 Same\r\nETag: "1"\r\n\r\n')
            return
        body = b"<p>two</p>" if changed else b"<p>one</p>"
        await seen.stream.send_all(
            b'HTTP/1.1 200 OK\r\nETag: "1"\r\nCache-Control: max-age=0\r\nContent-Type: text/html\r\n'
            b"Content-Length: %d\r\n\r\n%s" % (len(body), body)
        )

    site.routes["/a"] = page
    async with reading(allow_private=True) as reader:
        texts = [await reader.text(site.url("/a")) for _ in range(2)]
        changed = True
        texts.append(await reader.text(site.url("/a")))

    assert [text.rpartition("\n")[2] for text in texts] == ["one", "one", "two"]
    assert [each.headers.get("if-none-match") for each in site.seen] == [None, '"1"', '"1"']


async def test_next_piece_comes_from_the_cached_page_even_if_stale(reading: OpenReader, site: Site) -> None:
    site.page("/a", "first text", "text/plain", Cache_Control="no-store", Last_Modified="Tue, 15 Nov 1994 12:45:26 GMT")
    async with reading(allow_private=True) as reader:
        await reader.text(site.url("/a"), limit=5)
        site.page("/a", "other text", "text/plain")
        rest = await reader.text(site.url("/a"), offset=5)
        anew = await reader.text(site.url("/a"))

    assert rest.endswith(":\n text\n[characters 5 to 10 of 10]")
    assert anew.endswith("other text")
    assert [each.headers.get("if-modified-since") for each in site.seen] == [None, "Tue, 15 Nov 1994 12:45:26 GMT"]


async def test_page_cached_without_robots_txt_is_not_returned_to_a_model(reading: OpenReader, site: Site) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /", "text/plain")
    site.page("/a", "<p>here</p>")
    async with reading(allow_private=True, robots=True) as reader:
        await reader.client.get_prompt("fetch", {"url": site.url("/a")})
        assert "not allowed" in await reader.failure(site.url("/a"))


async def test_page_that_may_not_be_cached_is_not_cached(reading: OpenReader, site: Site) -> None:
    site.page("/a", "<p>one</p>")
    async with reading(allow_private=True, cache_bytes=0) as reader:
        for _ in range(2):
            await reader.text(site.url("/a"))

    assert site.paths() == ["GET /a", "GET /a"]


async def test_cache_is_bounded_in_bytes_and_age(autojump_clock: MockClock) -> None:
    shelf: ByteCache[str, int] = ByteCache(10, max_age=5)
    shelf.put("a", 1, 4)
    shelf.put("b", 2, 4)
    assert shelf.get("a") == 1
    shelf.put("c", 3, 4)
    shelf.put("d", 4, 11)

    assert [shelf.get(key) for key in "abcd"] == [1, None, 3, None]
    assert shelf.weight == 8
    await trio.sleep(5)
    assert [shelf.get(key) for key in "ac"] == [None, None]
    assert shelf.weight == 0


async def test_cancelled_wait_for_a_host_returns_its_turn(autojump_clock: MockClock) -> None:
    limits = HostLimits(width=1, rate=1)
    for _ in range(BURST):
        async with limits.enter("a"):
            pass
    began = trio.current_time()
    for _ in range(50):
        with trio.move_on_after(0.001):
            async with limits.enter("a"):
                raise AssertionError("it is nobody's turn yet")
    async with limits.enter("a"):
        assert trio.current_time() - began == pytest.approx(1, abs=0.1)


async def test_requests_to_a_host_are_paced(autojump_clock: MockClock) -> None:
    limits = HostLimits(width=100, rate=2)
    times = []
    for _ in range(BURST + 4):
        async with limits.enter("a"):
            times.append(trio.current_time() - (times[0] if times else 0))
    before = trio.current_time()
    async with limits.enter("b"):
        pass

    assert times[1:BURST] == pytest.approx([0] * (BURST - 1))
    assert times[BURST:] == pytest.approx([0.5, 1.0, 1.5, 2.0])
    assert trio.current_time() == before
