"""The result of a response for a model."""

from __future__ import annotations

import base64
import gzip
import json
import zlib
from collections.abc import Callable
from typing import Any

import pytest
import trio
from mcptrio_openapi import Api

from mcptrio import Secret
from mcptrio.protocol.model.fields import ABSENT

from .conftest import Connected, MakeDocument, Reply, Site

PREFIX = "one_"
Call = Callable[..., Any]
ITEM = {"type": "object", "required": ["id"], "properties": {"id": {"type": "integer"}, "name": {"type": "string"}}}


def responses(schema: Any = None, kind: str = "application/json", code: str = "200") -> dict[str, Any]:
    return {code: {"description": "ok", "content": {kind: {"schema": schema or {}}}}}


@pytest.fixture
def call(connected: Connected, site: Site, document: MakeDocument) -> Call:
    """Call an operation that gets this response."""

    async def call(
        answer: Any,
        *,
        documented: Any = None,
        method: str = "get",
        revision: str | None = None,
        result_text: int = 40_000,
        **settings: Any,
    ) -> Any:
        file = document({"/a": {method: {"operationId": "it", "responses": documented or {}}}})
        site.always = answer
        api = Api(file=file, base_url=site.url, methods=("GET", "HEAD", "POST"), **settings)
        async with connected(api, revision=revision, result_text=result_text) as client:
            return await client.call_tool(f"{PREFIX}it")

    return call


@pytest.mark.parametrize("revision", ["2025-06-18", "2026-07-28"])
async def test_json_response_is_structured_content(call: Call, reply: Reply, revision: str) -> None:
    whole = await call(reply({"id": 1}), documented=responses(ITEM), revision=revision)
    undocumented = await call(reply({"x": [1]}), revision=revision)
    many = await call(reply([1, {"a": 2}]), revision=revision)
    scalar = await call(reply("3", kind="application/problem+json"), revision=revision)

    assert (whole.structured_content, whole.content[0].text) == ({"id": 1}, '{"id": 1}')
    assert undocumented.structured_content == {"x": [1]}
    assert (many.structured_content, many.content[0].text) == ({"items": [1, {"a": 2}]}, '[1, {"a": 2}]')
    assert (scalar.structured_content, scalar.content[0].text) == (ABSENT, "3")


@pytest.mark.parametrize(
    ("body", "structured"),
    [
        ({}, {}),
        ({"name": "no id, and more", "more": 1}, {"name": "no id, and more", "more": 1}),
        ({"id": 1, "name": None}, {"id": 1}),
    ],
)
async def test_minor_schema_violations_are_tolerated(call: Call, reply: Reply, body: Any, structured: Any) -> None:
    result = await call(reply(body), documented=responses(ITEM))

    assert not result.is_error
    assert result.structured_content == structured
    assert json.loads(result.content[0].text) == body


@pytest.mark.parametrize("body", [b'{"id": "one"}', b"[1]", b"{", b'{"id": ' + b"[" * 500 + b"]" * 500 + b"}"])
async def test_response_that_violates_its_schema_is_an_error(call: Call, reply: Reply, body: bytes) -> None:
    result = await call(reply(body, kind="application/json"), documented=responses(ITEM))

    assert result.is_error
    assert result.content[0].text.startswith("the API answered with success, but not as its document says: ")
    assert result.content[1].text == body.decode()


async def test_204_response_matches_any_schema(call: Call, reply: Reply) -> None:
    result = await call(reply(status=204), documented=responses(ITEM))

    assert (result.is_error, result.structured_content) == (False, {})
    assert result.content[0].text == "204 No Content"


@pytest.mark.parametrize(
    ("body", "kind", "text"),
    [
        (b"plain", "text/plain", "plain"),
        ("é".encode("latin-1"), "text/plain; charset=ISO-8859-1", "é"),
        ("é".encode(), "text/html; charset=nonsense", "é"),
        (b"xn--a", "text/plain; charset=punycode", "xn--a"),
        ("\ufeffé".encode(), "text/csv", "é"),
        (b"\xff", "text/plain", "\ufffd"),
        (b"<a/>", "application/atom+xml", "<a/>"),
        (b"<svg/>", "image/svg+xml", "<svg/>"),
        (b"not json", "application/json", "not json"),
        (b"who knows", None, "who knows"),
    ],
)
async def test_text_response_is_text_content(
    call: Call, reply: Reply, body: bytes, kind: str | None, text: str
) -> None:
    result = await call(reply(body, kind=kind))

    assert not result.is_error
    assert [block.text for block in result.content] == [text]


@pytest.mark.parametrize("kind", ["image/png", "audio/mpeg", "application/pdf", "nonsense", None])
async def test_binary_response_has_its_media_type(call: Call, reply: Reply, kind: str | None, site: Site) -> None:
    data = bytes(range(256))
    [block] = (await call(reply(data, kind=kind))).content

    if kind in ("image/png", "audio/mpeg"):
        assert (block.type, block.mime_type, base64.b64decode(block.data)) == (kind[:5], kind, data)
    else:
        assert base64.b64decode(block.resource.blob) == data
        assert block.resource.mime_type == (kind if kind == "application/pdf" else "application/octet-stream")
        assert block.resource.uri == f"{site.url}/a"


async def test_image_instead_of_json_is_an_error(call: Call, reply: Reply) -> None:
    result = await call(reply(b"\x89", kind="image/png"), documented=responses(ITEM))

    assert result.is_error
    assert result.content[1].mime_type == "image/png"


async def test_head_request_returns_headers(call: Call, reply: Reply) -> None:
    headers = {"ETag": '"x"', "Set-Cookie": "session=1", "X-Any": "y"}
    result = await call(b"HTTP/1.1 200 OK\r\n" + reply(headers=headers).split(b"\r\n", 1)[1], method="head")

    assert result.content[0].text == '200 OK\nContent-Length: 0\nETag: "x"\nX-Any: y'


@pytest.mark.parametrize("status", [400, 404, 429, 500, 599])
async def test_error_response_shows_its_body(call: Call, reply: Reply, status: int) -> None:
    answer = reply({"message": "x" * 10_000}, status=status, headers={"Retry-After": "7"})
    result = await call(answer, documented=responses(ITEM))

    assert result.is_error
    [block] = result.content
    assert block.text.startswith(f"GET /a of one: {status}")
    assert '(retry after 7): {"message": "xxx' in block.text
    assert len(block.text) < 4200


async def test_binary_body_of_an_error_response_is_not_shown(call: Call, reply: Reply) -> None:
    result = await call(reply(b"\0\1\2", status=418, kind="application/octet-stream"))

    assert result.content[0].text == "GET /a of one: 418 I'm a Teapot"


async def test_long_text_is_truncated(call: Call, reply: Reply) -> None:
    text = await call(reply("é" * 1000, kind="text/plain"), max_response_bytes=1025)
    json_ = await call(reply(list(range(2000))), max_response_bytes=1024)
    promised = await call(reply({"id": 1, "name": "x" * 2000}), documented=responses(ITEM), max_response_bytes=1024)
    picture = await call(reply(b"x" * 2000, kind="image/png"), max_response_bytes=1024)

    assert text.content[0].text.startswith("[the first 1025 bytes (max_response_bytes) of the answer; for the rest,")
    assert text.content[1].text == "é" * 512
    assert json_.structured_content is ABSENT
    assert promised.is_error
    assert promised.content[1].text.startswith('{"id": 1')
    assert picture.is_error
    assert "more than 1024 bytes" in picture.content[0].text


async def test_texts_are_bounded_by_the_server(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply
) -> None:
    lines = "".join(f"line {number}\n" for number in range(20_000))
    site.always = reply(lines, kind="text/plain", headers={"Link": '<https://x>; rel="next"'})
    api = Api(file=document({"/a": {"get": {"operationId": "it"}}}), base_url=site.url)
    async with connected(api) as client:
        note, text = (await client.call_tool(f"{PREFIX}it")).content

    assert note.text == '200 OK\nLink: <https://x>; rel="next"'
    assert 38_000 < len(text.text) < 40_200
    assert text.text.endswith(f"of {len(lines)} characters; ask for less, or for another part, to see the rest]")


@pytest.mark.parametrize("empty", [0, 1, 3])
@pytest.mark.parametrize("size", [3, 262_144, 600_000])
async def test_multi_member_gzip_body_is_decoded(call: Call, reply: Reply, size: int, empty: int) -> None:
    packed = gzip.compress(b"a" * size) + empty * gzip.compress(b"") + gzip.compress(b"b") + gzip.compress(b"c" * 5)
    headers = {"Content-Encoding": "gzip"}
    answered = {"kind": "text/plain", "headers": headers}
    limits = {"max_response_bytes": 1_000_000, "result_text": 1_000_000}
    result = await call(reply(packed, **answered), **limits)
    padded = await call(reply(packed + b"\0\0", **answered), **limits)

    assert result.content[0].text == "a" * size + "bccccc"
    assert padded.content[0].text == result.content[0].text


async def test_body_received_in_parts_is_complete(call: Call) -> None:
    parts = [gzip.compress(b"first "), gzip.compress(b"second")]
    pieces = [parts[0], parts[1][:1], parts[1][1:]]

    async def slowly(_: Any, stream: trio.abc.Stream) -> None:
        length = sum(map(len, pieces))
        head = f"HTTP/1.1 200 OK\r\nContent-Type: text/plain\r\nContent-Encoding: gzip\r\nContent-Length: {length}\r\n"
        await stream.send_all(head.encode() + b"\r\n")
        for piece in pieces:
            await stream.send_all(piece)
            await trio.sleep(0.05)

    result = await call(slowly)

    assert result.content[0].text == "first second"


@pytest.mark.parametrize("coding", ["gzip", "deflate"])
async def test_response_over_the_limit_after_decompression_is_truncated(call: Call, reply: Reply, coding: str) -> None:
    data = b"x" * 50_000_000
    packed = gzip.compress(data, 1) if coding == "gzip" else zlib.compress(data, 1)
    result = await call(reply(packed, kind="text/plain", headers={"Content-Encoding": coding}), max_response_bytes=4096)

    assert result.content[1].text == "x" * 4096


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        (b"HTTP/1.1 200 OK\r\nContent-Length: 10\r\n\r\nabc", "ended its response too early"),
        (b"nonsense\r\n\r\n", "cannot reach"),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: br\r\nContent-Length: 3\r\n\r\nabc", "got 'br'"),
        (
            b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 10\r\n\r\n"
            + gzip.compress(b"x", mtime=0)[:10],
            "ends early",
        ),
        (b"HTTP/1.1 200 OK\r\nContent-Encoding: gzip\r\nContent-Length: 3\r\n\r\nabc", "decompressed"),
    ],
)
async def test_malformed_response_is_an_error(call: Call, answer: bytes, text: str) -> None:
    async def half(_: Any, stream: trio.abc.Stream) -> None:
        await stream.send_all(answer)

    result = await call(half)

    assert result.is_error
    assert result.content[0].text.startswith("GET /a of one: ")
    assert text in result.content[0].text


async def test_refused_connection_is_an_error(connected: Connected, document: MakeDocument) -> None:
    with trio.socket.socket() as free:
        await free.bind(("127.0.0.1", 0))
        url = f"http://127.0.0.1:{free.getsockname()[1]}"
    async with connected(Api(file=document({"/a": {"get": {"operationId": "it"}}}), base_url=url)) as client:
        result = await client.call_tool(f"{PREFIX}it")

    assert result.is_error
    assert f"cannot reach {url}" in result.content[0].text


async def test_accept_header_lists_the_documented_media_types(
    connected: Connected, site: Site, document: MakeDocument
) -> None:
    documented = responses({}, "text/csv") | responses({}, "application/pdf", "201") | responses({}, "x/error", "404")
    paths = {"/a": {"get": {"operationId": "it", "responses": documented | responses({}, "bad\r\ntype/x", "202")}}}
    async with connected(Api(file=document(paths), base_url=site.url)) as client:
        await client.call_tool(f"{PREFIX}it")

    assert site.last.header("Accept") == "text/csv, application/pdf, */*;q=0.1"


@pytest.mark.parametrize("levels", [47, 49, 200])
async def test_json_nested_deeper_than_a_message_allows_is_text(call: Call, reply: Reply, levels: int) -> None:
    body = '{"a":' * levels + '"s3cret"' + "}" * levels
    undocumented = await call(reply(body), headers={"X-Key": Secret("s3cret")})
    documented = await call(reply(body), documented=responses(ITEM | {"required": []}))

    assert undocumented.content[0].text == body.replace("s3cret", "[secret]")
    assert (undocumented.structured_content is ABSENT) == (levels > 48)
    assert documented.is_error == (levels > 48)
