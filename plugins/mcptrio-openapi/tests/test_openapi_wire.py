"""The bytes that the API receives."""

from __future__ import annotations

import base64
import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest
from mcptrio_openapi import Api

from .conftest import Connected, MakeDocument, Reply, Site

ALL = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
PREFIX = "one_"
Call = Callable[..., Any]


@pytest.fixture
def call(connected: Connected, site: Site, document: MakeDocument) -> Call:
    """Call the one operation of a document written for it, and return the received request."""

    async def call(
        arguments: dict[str, Any],
        *,
        parameters: Any = (),
        path: str = "/a",
        method: str = "get",
        version: str = "3.1.0",
        **operation: Any,
    ) -> Any:
        operation = {"operationId": "it", "parameters": list(parameters), **operation}
        file = document({path: {method: operation}}, version=version)
        async with connected(Api(file=file, base_url=f"{site.url}/base/", methods=ALL)) as client:
            result = await client.call_tool(f"{PREFIX}it", arguments)
        assert not result.is_error, result
        return site.last

    return call


def parameter(location: str, schema: Any = None, **more: Any) -> dict[str, Any]:
    schema = schema if schema is not None else {}
    return {"name": "color", "in": location, "required": location == "path", "schema": schema, **more}


async def test_request_bytes_are_exact(call: Call, site: Site) -> None:
    arrived = await call({"color": "light blue"}, parameters=[parameter("query")])

    host = site.url.removeprefix("http://")
    assert arrived.raw.split(b"\r\n") == [
        b"GET /base/a?color=light%20blue HTTP/1.1",
        f"Host: {host}".encode(),
        b"Accept: application/json, */*;q=0.5",
        b"Accept-Encoding: gzip",
        b"User-Agent: mcptrio-openapi/0.1.0",
        b"",
        b"",
    ]


@pytest.mark.parametrize(
    ("settings", "value", "target"),
    [
        ({}, ["a", "b"], "/base/a?color=a&color=b"),
        ({"explode": False}, ["a", "b,c"], "/base/a?color=a,b%2Cc"),
        ({"style": "spaceDelimited"}, ["a", "b"], "/base/a?color=a%20b"),
        ({"style": "pipeDelimited"}, ["a", "b"], "/base/a?color=a%7Cb"),
        ({"style": "deepObject"}, {"a": 1, "b": "x y"}, "/base/a?color%5Ba%5D=1&color%5Bb%5D=x%20y"),
        ({}, {"R": 1, "G": 2}, "/base/a?R=1&G=2"),
        ({"allowReserved": True}, "a/b:c#d&e", "/base/a?color=a/b:c%23d%26e"),
        ({}, "é'\"<>\\^`{|}~", "/base/a?color=%C3%A9%27%22%3C%3E%5C%5E%60%7B%7C%7D~"),
        ({}, "%41", "/base/a?color=%2541"),
        ({}, [], "/base/a"),
    ],
)
async def test_query_bytes_are_exact(call: Call, settings: dict[str, Any], value: Any, target: str) -> None:
    arrived = await call({"color": value}, parameters=[parameter("query", **settings)])

    assert arrived.target == target


@pytest.mark.parametrize(
    ("path", "settings", "value", "target"),
    [
        ("/a/{color}", {}, "x/../y", "/base/a/x%2F..%2Fy"),
        ("/a/{color}/b", {"style": "matrix", "explode": True}, ["x", "y"], "/base/a/;color=x;color=y/b"),
        ("/a{color}", {"style": "label"}, {"R": 1}, "/base/a.R,1"),
        ("/a/{color}.json", {}, 5, "/base/a/5.json"),
        ("/a b/{color}", {}, "x", "/base/a%20b/x"),
        ("/a%2Fb/{color}", {}, "x", "/base/a%2Fb/x"),
        ("/{color}/{color}", {}, "x", "/base/x/x"),
    ],
)
async def test_path_bytes_are_exact(call: Call, path: str, settings: dict[str, Any], value: Any, target: str) -> None:
    arrived = await call({"color": value}, path=path, parameters=[parameter("path", **settings)])

    assert arrived.target == target


async def test_header_and_cookie_bytes_are_exact(call: Call) -> None:
    parameters = [
        {"name": "X-List", "in": "header", "schema": {"type": "array"}},
        {"name": "session", "in": "cookie", "schema": {}},
        {"name": "more", "in": "cookie", "schema": {}},
        {"name": "q", "in": "query", "content": {"application/json": {"schema": {}}}},
    ]
    arrived = await call({"X-List": ["a", 1], "session": "s;t", "more": [1, 2], "q": {"a": "ü"}}, parameters=parameters)

    assert arrived.header("X-List") == "a,1"
    assert arrived.header("Cookie") == "session=s%3Bt; more=1; more=2"
    assert arrived.target == "/base/a?q=%7B%22a%22%3A%22%C3%BC%22%7D"


def body(media_type: str, schema: Any, **media: Any) -> dict[str, Any]:
    return {"content": {media_type: {"schema": schema, **media}}}


async def test_json_body_bytes_are_exact(call: Call) -> None:
    value = {"name": "é", "tags": [1, None, True]}
    arrived = await call({"body": value}, method="post", requestBody=body("application/vnd.api+json", {}))

    assert arrived.header("Content-Type") == "application/vnd.api+json"
    assert arrived.body == '{"name":"é","tags":[1,null,true]}'.encode()
    assert arrived.header("Content-Length") == str(len(arrived.body))


async def test_null_body_is_sent_and_absent_body_is_not(call: Call) -> None:
    null = await call({"body": None}, method="post", requestBody=body("application/json", {}))
    nothing = await call({}, method="post", requestBody=body("application/json", {}))

    assert null.body == b"null"
    assert (nothing.body, nothing.header("Content-Length"), nothing.header("Content-Type")) == (b"", "0", None)


async def test_form_body_bytes_are_exact(call: Call) -> None:
    schema = {
        "type": "object",
        "properties": {
            "text": {"type": "string"},
            "list": {"type": "array"},
            "commas": {"type": "array"},
            "whole": {"type": "object"},
            "deep": {"type": "object"},
        },
    }
    encoding = {"commas": {"explode": False}, "deep": {"style": "deepObject", "explode": True}}
    value = {
        "text": "a b&c=d+é",
        "list": ["x", 2],
        "commas": ["x y", 2],
        "whole": {"a": 1},
        "deep": {"a": {"b": "c d"}},
        "none": None,
    }
    arrived = await call(
        {"body": value},
        method="post",
        requestBody=body("application/x-www-form-urlencoded", schema, encoding=encoding),
    )

    assert arrived.header("Content-Type") == "application/x-www-form-urlencoded"
    assert arrived.body.decode().split("&") == [
        "text=a+b%26c%3Dd%2B%C3%A9",
        "list=x",
        "list=2",
        "commas=x+y,2",
        "whole=%7B%22a%22%3A1%7D",
        "deep%5Ba%5D%5Bb%5D=c+d",
    ]


@pytest.mark.parametrize("version", ["3.0.3", "3.1.0"])
async def test_multipart_body_bytes_are_exact(call: Call, version: str) -> None:
    binary = {"type": "string", "format": "binary"} if version == "3.0.3" else {}
    schema = {
        "type": "object",
        "properties": {
            "photo": binary,
            "caption": {"type": "string"},
            "meta": {"type": "object"},
            "more": {"type": "array", "items": {"type": "string", "format": "binary"}},
        },
    }
    data = bytes(range(256))
    file = {"data": base64.b64encode(data).decode(), "filename": 'a"b.png'}
    other = {"data": base64.b64encode(b"second").decode(), "media_type": "text/x-own"}
    value = {"caption": "Hé", "photo": file, "meta": {"a": 1}, "more": [other]}
    arrived = await call(
        {"body": value},
        method="post",
        version=version,
        requestBody=body("multipart/form-data", schema, encoding={"photo": {"contentType": "image/png"}}),
    )

    kind, _, boundary = (arrived.header("Content-Type") or "").partition("; boundary=")
    assert kind == "multipart/form-data"
    assert arrived.body.split(f"--{boundary}".encode()) == [
        b"",
        b'\r\nContent-Disposition: form-data; name="caption"\r\n\r\nH\xc3\xa9\r\n',
        b'\r\nContent-Disposition: form-data; name="photo"; filename="a%22b.png"\r\nContent-Type: image/png\r\n\r\n'
        + data
        + b"\r\n",
        b'\r\nContent-Disposition: form-data; name="meta"\r\nContent-Type: application/json\r\n\r\n{"a":1}\r\n',
        b'\r\nContent-Disposition: form-data; name="more"; filename="more"\r\n'
        b"Content-Type: text/x-own\r\n\r\nsecond\r\n",
        b"--\r\n",
    ]


async def test_text_and_binary_bodies_are_sent_unchanged(call: Call) -> None:
    text = await call({"body": "# é"}, method="post", requestBody=body("text/plain", {"type": "string"}))
    xml = await call({"body": "<a/>"}, method="put", requestBody=body("application/xml", {"type": "object"}))
    data = await call(
        {"body": base64.b64encode(b"\0\xff").decode()},
        method="post",
        requestBody=body("application/octet-stream", {"type": "string", "format": "binary"}),
    )

    assert (text.body, text.header("Content-Type")) == ("# é".encode(), "text/plain")
    assert (xml.body, xml.header("Content-Type"), xml.line[:4]) == (b"<a/>", "application/xml", "PUT ")
    assert (data.body, data.header("Content-Type")) == (b"\0\xff", "application/octet-stream")


@pytest.mark.parametrize(
    ("arguments", "settings", "text"),
    [
        ({"color": ".."}, {"path": "/a/{color}"}, "other than"),
        ({"color": "."}, {"path": "/a/{color}/b"}, "other than"),
        ({"color": ""}, {"path": "/a/{color}"}, "not empty"),
        ({"color": "."}, {"path": "/a/.{color}"}, "other than"),
        ({"color": "a\nb"}, {"place": "header"}, "control characters"),
        ({"color": "x" * 40_000}, {"place": "query"}, "32768 characters"),
        ({"color": {"a": {"b": 1}}}, {"place": "query"}, "color.a"),
        ({"colour": 1}, {"place": "query"}, "unknown field `colour`"),
        ({}, {"path": "/a/{color}"}, "missing required field `color`"),
    ],
)
async def test_unsendable_argument_is_refused(
    connected: Connected, site: Site, document: MakeDocument, arguments: Any, settings: dict[str, str], text: str
) -> None:
    location = settings.get("place", "path")
    file = document({settings.get("path", "/a"): {"get": {"operationId": "it", "parameters": [parameter(location)]}}})
    async with connected(Api(file=file, base_url=site.url), revision="2025-11-25") as client:
        result = await client.call_tool(f"{PREFIX}it", arguments)
        assert result.is_error
        assert text in result.content[0].text

    assert not site.arrived


async def test_body_that_cannot_be_sent_is_an_error(connected: Connected, site: Site, document: MakeDocument) -> None:
    paths = {
        "/a": {
            "post": {"operationId": "bytes", "requestBody": body("application/octet-stream", {})},
            "put": {"operationId": "json", "requestBody": body("application/json", {})},
        }
    }
    api = Api(file=document(paths), base_url=site.url, methods=ALL, max_request_bytes=1024)
    async with connected(api) as client:
        for tool, value, text in (
            ("bytes", "no base64!", "Base64 at `body`"),
            ("json", "x" * 2000, "1024 bytes at `body`"),
        ):
            result = await client.call_tool(f"{PREFIX}{tool}", {"body": value})
            assert result.is_error
            assert text in result.content[0].text

    assert not site.arrived


async def test_petstore_document_can_be_called(connected: Connected, site: Site, reply: Reply, data: Path) -> None:
    api = Api(file=data / "petstore.yaml", base_url=f"{site.url}/v1", methods=ALL, anonymous=True)
    pet = {"id": 7, "name": "Rex", "born": None, "mother": {"id": 1, "name": "Ada"}}
    site.answers = [
        reply([pet], headers={"X-Next": "2"}),
        reply(pet, status=201, headers={"Location": "/v1/pets/7"}),
        reply(status=204),
        reply(b"\x89PNG", kind="image/png"),
    ]
    async with connected(api) as client:
        listed = await client.call_tool(
            f"{PREFIX}listPets",
            {
                "limit": 2,
                "status": ["sold", "pending"],
                "tag": ["a", "b"],
                "filter_age": {"from": 1},
                "X-Trace-Id": "t",
            },
        )
        created = await client.call_tool(f"{PREFIX}createPet", {"body": {"name": "Rex", "secret": "s"}})
        deleted = await client.call_tool(f"{PREFIX}deletePet", {"petId": "7/8"})
        photo = await client.call_tool(f"{PREFIX}getPhoto", {"petId": "7"})
        refused = await client.call_tool(f"{PREFIX}createPet", {"body": {"name": ""}})

    assert [arrived.line for arrived in site.arrived] == [
        "GET /v1/pets?limit=2&status=sold,pending&tag=a&tag=b&filter%5Bage%5D%5Bfrom%5D=1 HTTP/1.1",
        "POST /v1/pets HTTP/1.1",
        "DELETE /v1/pets/7%2F8 HTTP/1.1",
        "GET /v1/pets/7/photo HTTP/1.1",
    ]
    assert site.arrived[0].header("X-Trace-Id") == "t"
    assert json.loads(site.arrived[1].body) == {"name": "Rex", "secret": "s"}
    assert listed.structured_content == {"items": [pet]}
    assert listed.content[0].text == "200 OK\nX-Next: 2"
    # The document declares it nullable, so null is not removed.
    assert created.structured_content == pet
    assert created.content[0].text == "201 Created\nLocation: /v1/pets/7"
    assert deleted.content[0].text == "204 No Content"
    assert (photo.content[0].mime_type, photo.content[0].data) == ("image/png", "iVBORw==")
    assert refused.is_error
    assert "at least 1 character at `body.name`" in refused.content[0].text


async def test_hub_document_can_be_called(connected: Connected, site: Site, reply: Reply, data: Path) -> None:
    api = Api(file=data / "hub.json", base_url=site.url, methods=("GET", "POST", "PATCH"))
    site.answers = [
        reply({"id": 1, "full_name": "a/b", "description": None, "parent": {"id": 2, "full_name": "c/d"}}),
        reply([{"number": 1}], headers={"Link": '<https://x>; rel="next"'}),
        reply("<h1>x</h1>", kind="text/html; charset=utf-8"),
        reply(b"bytes", kind="application/octet-stream"),
        reply(status=201),
    ]
    async with connected(api) as client:
        tools = {tool.name.removeprefix(PREFIX): tool async for tool in client.tools()}
        got = await client.call_tool(f"{PREFIX}repos_get", {"owner": "a", "repo": "b"})
        listed = await client.call_tool(f"{PREFIX}issues_list-for-repo", {"owner": "a", "repo": "b", "q": {"x": [1]}})
        html = await client.call_tool(f"{PREFIX}markdown_render-raw", {"body": "# x"})
        file = await client.call_tool(f"{PREFIX}repos_get-content", {"owner": "a", "repo": "b", "path": "c/d"})
        await client.call_tool(f"{PREFIX}repos_upload-asset", {"name": "n", "body": "AAE="})

    assert tools["repos_get"].title == "Get a repository"
    assert tools["repos_get"].description == "Get a repository\n\nGET /repos/{owner}/{repo}"
    assert tools["repos_get"].output_schema["properties"]["parent"] == {
        "$ref": "#/$defs/repository",
        "description": "What it was forked from.",
    }
    assert tools["repos_update"].input_schema["properties"]["body"]["properties"] == {
        "description": {"anyOf": [{"type": "string", "maxLength": 350}, {"type": "null"}]},
        "visibility": {"anyOf": [{"type": "string", "enum": ["public", "private"]}, {"type": "null"}]},
        "topics": {"type": "array", "items": {"type": "string"}},
    }
    assert got.structured_content["parent"]["full_name"] == "c/d"
    assert listed.content[0].text == '200 OK\nLink: <https://x>; rel="next"'
    assert html.content[0].text == "<h1>x</h1>"
    assert file.content[0].resource.uri == f"{site.url}/repos/a/b/contents/c%2Fd"
    assert [arrived.target for arrived in site.arrived] == [
        "/repos/a/b",
        "/repos/a/b/issues?q=%7B%22x%22%3A%5B1%5D%7D",
        "/markdown",
        "/repos/a/b/contents/c%2Fd",
        "/assets?name=n",
    ]
    assert site.last.body == b"\0\x01"
