"""The results of the tools, the prompt and the resources for pages that exist."""

from __future__ import annotations

import base64
import json
from typing import Any

import pytest

from mcptrio.types import AudioContent, BlobResourceContents, EmbeddedResource, ImageContent, TextResourceContents

from .conftest import OpenReader, Site

PAGE = """<!doctype html><html><head><title> A  page </title></head><body>
<nav><a href="/menu">Menu</a></nav>
<main><h1 id="top"><a href="#top">On bread</a></h1>
<p>Bread is baked from <em>flour</em>, water and salt, as <a href="sub/rye?x=1&amp;y=2#top">rye bread</a> is.</p>
<pre><code>bake(loaf)
</code></pre>
<ul><li>rye</li><li>wheat</li></ul>
<table><tr><th>Kind</th><th>Hours</th></tr><tr><td>rye</td><td>12</td></tr></table>
</main><footer>All rights reserved</footer><script>alert(1)</script></body></html>"""
PNG = base64.b64decode(
    "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
)


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_tools_are_listed_with_hints_and_defaults(reading: OpenReader, site: Site, revision: str) -> None:
    site.page("/a", PAGE)
    async with reading(allow_private=True, revision=revision) as reader:
        tools = {tool.name: tool async for tool in reader.client.tools()}
        text = await reader.text(site.url("/a"))

    assert set(tools) == {"fetch", "fetch_links", "fetch_head"}
    for tool in tools.values():
        hints = tool.annotations
        assert hints is not None
        assert (hints.read_only_hint, hints.destructive_hint) == (True, False)
        assert (hints.idempotent_hint, hints.open_world_hint) == (True, True)
        assert "exclusive" not in json.dumps(tool.input_schema)
    schema = tools["fetch"].input_schema
    assert schema["required"] == ["url"]
    of = schema["properties"]
    assert (of["limit"]["minimum"], of["limit"]["default"]) == (1, 5000)
    assert (of["offset"]["minimum"], of["offset"]["default"]) == (0, 0)
    assert of["raw"]["default"] is False
    assert "internet access" not in str(tools)
    assert text.startswith(f"Contents of {site.url('/a')}:\n")


async def test_html_is_converted_to_markdown(reading: OpenReader, site: Site) -> None:
    site.page("/dir/a", PAGE)
    async with reading(allow_private=True) as reader:
        found = await reader.text(site.url("/dir/a"))

    assert "# On bread" in found
    assert "*flour*" in found
    assert f"[rye bread]({site.url('/dir/sub/rye?x=1&y=2#top')})" in found
    assert "```\nbake(loaf)\n```" in found
    assert "- rye" in found
    assert "| rye | 12 |" in found
    assert "alert" not in found
    assert found.startswith(f"Contents of {site.url('/dir/a')}:\nTitle: A page\n")
    assert found.splitlines()[-1].startswith("| rye")


async def test_pieces_of_a_page_need_one_download(reading: OpenReader, site: Site) -> None:
    words = " ".join(f"word{number}" for number in range(2000))
    site.page("/long", f"<html><body><p>{words}</p></body></html>")
    async with reading(allow_private=True) as reader:
        pieces: list[str] = []
        start: int | None = 0
        while start is not None:
            text = await reader.text(site.url("/long"), offset=start, limit=4000)
            begin = f"Contents of {site.url('/long')}:\n"
            assert text.startswith(begin)
            piece, _, note = text.removeprefix(begin).rpartition("\n")
            end = start + len(piece)
            pieces.append(piece)
            if end < len(words):
                assert note == f"[characters {start} to {end} of {len(words)}; continue with offset={end}]"
            else:
                assert note == f"[characters {start} to {end} of {len(words)}]"
            start = end if end < len(words) else None
        after = await reader.text(site.url("/long"), offset=len(words))

    assert "".join(pieces) == words
    assert len(pieces) > 3
    assert after.endswith(f":\n\n[no more text, the page has {len(words)} characters]")
    assert site.paths() == ["GET /long"]


async def test_resource_and_prompt_report_the_missing_part(reading: OpenReader, site: Site) -> None:
    site.page("/a", "<p>" + "word " * 1000)
    async with reading(allow_private=True, max_chars=100) as reader:
        [page] = (await reader.client.read_resource(f"fetch://{site.url('/a')}")).contents
        got = await reader.client.get_prompt("fetch", {"url": site.url("/a")})
        piece = await reader.text(site.url("/a"), limit=999_999)

    for text in (page.text, got.messages[0].content.text):
        assert text == ("word " * 20) + "\n[characters 0 to 100 of 4999; the fetch tool reads the rest]"
    assert piece.endswith("\n[characters 0 to 100 of 4999; continue with offset=100]")


async def test_each_piece_of_a_truncated_page_has_a_note(reading: OpenReader, site: Site) -> None:
    site.page("/a", "word " * 1000, "text/plain")
    async with reading(allow_private=True, max_bytes=1024) as reader:
        first = await reader.text(site.url("/a"), limit=100)
        last = await reader.text(site.url("/a"), offset=1000)

    end = "the page is too large, so its end was not read]"
    assert first.endswith(f"\n[characters 0 to 100 of 1024; continue with offset=100; {end}")
    assert last.endswith(f"\n[characters 1000 to 1024 of 1024; {end}")


async def test_default_limit_fits_the_context_of_a_model(reading: OpenReader, site: Site) -> None:
    site.page("/a", "word " * 100_000, "text/plain")
    async with reading(allow_private=True) as reader:
        assert 30_000 < len(await reader.text(site.url("/a"), limit=999_999)) < 40_000


async def test_url_without_a_scheme_is_fetched_with_https(reading: OpenReader) -> None:
    async with reading(deny_hosts=("example.com",)) as reader:
        for url in ("example.com", "example.com:8443/a?b=c"):
            for tool in ("fetch", "fetch_links", "fetch_head"):
                assert "not among the allowed hosts" in await reader.failure(url, tool)


async def test_definitions_take_few_tokens(reading: OpenReader, check_tokens: Any) -> None:
    async with reading() as reader:
        await check_tokens(reader.client, 232)


async def test_links_and_headers_are_lines(reading: OpenReader, site: Site) -> None:
    site.page("/a", "<html><body><a href='/b'>B</a> <a href='/c'>C</a></body>")
    async with reading(allow_private=True) as reader:
        links = await reader.text(site.url("/a"), tool="fetch_links", limit=1)
        head = await reader.text(site.url("/a"), tool="fetch_head")

    assert links == f"{site.url('/b')} B\n[1 of 2 links; continue with cursor=1]"
    assert head.startswith(f"status: 200\nurl: {site.url('/a')}\ncontent type: text/html\nbytes: ")


async def test_raw_and_other_texts_are_unchanged(reading: OpenReader, site: Site) -> None:
    site.page("/a", PAGE)
    site.page("/data", '{"a": [1, 2]}', "application/json")
    site.page("/plain", "just text", "text/plain")
    site.page("/unsaid", "<HTML><body><p>Said by nobody</p></body>", "")
    async with reading(allow_private=True) as reader:
        raw = await reader.text(site.url("/a"), raw=True)
        data = await reader.text(site.url("/data"))
        plain = await reader.text(site.url("/plain"))
        unsaid = await reader.text(site.url("/unsaid"))

    assert raw == f"text/html, not converted. Contents of {site.url('/a')}:\n{PAGE}"
    assert data.endswith('{"a": [1, 2]}')
    assert data.startswith("application/json, not converted. ")
    assert plain.endswith(":\njust text")
    assert unsaid == f"Contents of {site.url('/unsaid')}:\nSaid by nobody"


async def test_media_are_returned_as_content_blocks(reading: OpenReader, site: Site) -> None:
    site.page("/a.png", PNG, "image/png")
    site.page("/a.ogg", b"OggS", "audio/ogg")
    site.page("/a.pdf", b"%PDF-1.7 x", "application/octet-stream")
    site.page("/a.zip", b"PK\x03\x04\0\0", "application/zip")
    site.page("/a.bin", b"\0\1\2", "application/octet-stream")
    site.page("/big.png", b"x" * 5000, "image/png")
    async with reading(allow_private=True, max_media_bytes=4096) as reader:
        image = await reader.call("fetch", url=site.url("/a.png"))
        sound = await reader.call("fetch", url=site.url("/a.ogg"))
        document = await reader.call("fetch", url=site.url("/a.pdf"), raw=True)
        failures = [await reader.failure(site.url(path)) for path in ("/a.zip", "/a.bin", "/big.png")]

    assert isinstance(image.content[1], ImageContent)
    assert image.content[1].mime_type == "image/png"
    assert base64.b64decode(image.content[1].data) == PNG
    assert image.content[0].text == f"Contents of {site.url('/a.png')}: image/png, {len(PNG)} bytes"
    assert isinstance(sound.content[1], AudioContent)
    assert isinstance(document.content[1], EmbeddedResource)
    assert document.content[1].resource.mime_type == "application/pdf"
    assert "got application/zip" in failures[0]
    assert "got binary data of another kind" in failures[1]
    assert "expected at most 4096 bytes of image/png, got 5000" in failures[2]


@pytest.mark.parametrize(
    ("body", "kind"),
    [
        ("größe".encode("latin-1"), "text/plain; charset=ISO-8859-1"),
        ("größe".encode(), "text/plain"),
        ("größe".encode("cp1252"), "text/plain"),
        ("größe".encode("utf-16"), "text/plain"),
        (b"\xef\xbb\xbf" + "größe".encode(), "text/plain; charset=latin-1"),
        ("größe".encode(), "text/plain; charset=zip"),
        ('<html><meta charset="windows-1252"><body><p>größe'.encode("cp1252"), "text/html"),
        ('<?xml version="1.0" encoding="iso-8859-1"?><a>größe</a>'.encode("latin-1"), "application/xml"),
    ],
)
async def test_text_is_decoded_as_in_browsers(reading: OpenReader, site: Site, body: bytes, kind: str) -> None:
    site.page("/a", body, kind)
    async with reading(allow_private=True) as reader:
        assert "größe" in await reader.text(site.url("/a"))


async def test_response_without_a_page_is_reported(reading: OpenReader, site: Site) -> None:
    site.page("/empty", "<html><body></body></html>")
    site.page("/gone", "x", status=410)
    async with reading(allow_private=True) as reader:
        empty = await reader.text(site.url("/empty"))
        failures = [
            await reader.failure(url)
            for url in (
                site.url("/gone"),
                "localhost",
                "ftp://example.com/",
                "http://user:pw@example.com/",
                "http://",
                "http://[::1",
                "http://example.com:99999/",
                "file:///etc/passwd",
                "http://ex ample.com/",
                "http://" + "a" * 64 + ".com/",
            )
        ]
        too_long = await reader.call("fetch", url="http://e.org/" + "a" * 9000)

    assert empty.endswith("[no text found; raw=true returns the HTML]")
    assert failures[0] == f"Failed to fetch {site.url('/gone')} - status code 410"
    assert "expected a URL such as https://example.com/" in failures[1]
    assert all("expected a" in failure for failure in failures[1:-1]), failures
    assert "does not resolve" in failures[-1]
    assert all("pw" not in failure for failure in failures)
    assert too_long.is_error


async def test_links_are_listed_in_pages(reading: OpenReader, site: Site) -> None:
    links = "".join(f"<a href='/page/{number}#part'>Page  {number}</a> " for number in range(7))
    site.page("/a", f"<html><body>{links}<a href='/page/0'>again</a><a href='mailto:x@y'>no</a><a>no</a></body>")
    async with reading(allow_private=True) as reader:
        first = (await reader.call("fetch_links", url=site.url("/a"), limit=4)).structured_content
        rest = (
            await reader.call("fetch_links", url=site.url("/a"), limit=4, cursor=first["next_cursor"])
        ).structured_content
        wrong = await reader.failure(site.url("/a"), "fetch_links", cursor="x")

    assert [each["url"] for each in first["items"] + rest["items"]] == [site.url(f"/page/{n}") for n in range(7)]
    assert first["items"][1] == {"url": site.url("/page/1"), "text": "Page 1"}
    assert (first["total"], first["truncated"], rest["truncated"]) == (7, True, False)
    assert rest.get("next_cursor") is None
    assert "next_cursor" in wrong
    assert site.paths() == ["GET /a"]


async def test_head_of_a_page_is_requested_without_its_body(reading: OpenReader, site: Site) -> None:
    site.page("/old", status=301, Location="/new")
    site.page("/new", PAGE, ETag='"1"')
    async with reading(allow_private=True) as reader:
        head = (await reader.call("fetch_head", url=site.url("/old"))).structured_content
        none = (await reader.call("fetch_head", url=site.url("/none"))).structured_content

    assert head["final_url"] == site.url("/new")
    assert head["redirects"] == [site.url("/old")]
    assert (head["status"], head["content_type"], head["length"]) == (200, "text/html", len(PAGE.encode()))
    assert head["etag"] == '"1"'
    assert none["status"] == 404
    assert site.paths() == ["HEAD /old", "HEAD /new", "HEAD /none"]


async def test_prompt_is_fetched_as_a_users_request(reading: OpenReader, site: Site) -> None:
    site.page("/robots.txt", "User-agent: *\nDisallow: /", "text/plain")
    site.page("/a", PAGE)
    async with reading(allow_private=True, robots=True) as reader:
        prompts = [prompt async for prompt in reader.client.prompts()]
        got = await reader.client.get_prompt("fetch", {"url": site.url("/a")})
        failed = await reader.client.get_prompt("fetch", {"url": site.url("/none")})

    [listed] = prompts
    assert listed.name == "fetch"
    assert [(argument.name, argument.required) for argument in listed.arguments or ()] == [("url", True)]
    assert "# On bread" in got.messages[0].content.text
    assert got.messages[0].role == "user"
    assert failed.messages[0].content.text.endswith("status code 404")
    assert site.paths() == ["GET /a", "GET /none"]
    assert "user-specified" in site.seen[0].headers["user-agent"]


async def test_page_is_a_resource(reading: OpenReader, site: Site) -> None:
    site.page("/a b", PAGE)
    site.page("/a%20b", PAGE)
    site.page("/q", "x", "text/plain")
    site.page("/a.png", PNG, "image/png")
    async with reading(allow_private=True) as reader:
        [page] = (await reader.client.read_resource(f"fetch://{site.url('/a%20b')}")).contents
        await reader.client.read_resource("fetch://" + site.url("/q?x=1%26y").replace("%", "%25"))
        [image] = (await reader.client.read_resource(f"fetch://{site.url('/a.png')}")).contents

    assert isinstance(page, TextResourceContents)
    assert page.mime_type == "text/markdown"
    assert page.uri == f"fetch://{site.url('/a%20b')}"
    assert "# On bread" in page.text
    assert isinstance(image, BlobResourceContents)
    assert base64.b64decode(image.blob) == PNG
    assert site.paths() == ["GET /a%20b", "GET /q?x=1%26y", "GET /a.png"]
