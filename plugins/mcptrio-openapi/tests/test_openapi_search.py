"""Documents with many operations: finding and calling operations with two tools."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

import pytest
from mcptrio_openapi import Api
from mcptrio_openapi.type_notation import arguments_text, shape_of

from mcptrio import Client
from plugins.conftest import CheckTokens

from .conftest import Connected, MakeDocument, Site

MakeAPI = Callable[..., Api]
"""Returns the settings of an API with the document below; its arguments replace settings."""

ISSUE = {
    "type": "object",
    "required": ["title"],
    "properties": {
        "title": {"type": "string"},
        "labels": {"type": "array", "items": {"type": "string"}},
        "parent": {"$ref": "#/components/schemas/Link"},
    },
}
COMPONENTS = {
    "schemas": {
        "Issue": ISSUE,
        "Link": {"$ref": "#/components/schemas/Target"},
        "Target": {
            "type": "object",
            "properties": {"id": {"type": "integer"}, "of": {"$ref": "#/components/schemas/Issue"}},
        },
    }
}
OWNER = {"name": "owner", "in": "path", "required": True, "schema": {"type": "string"}, "description": "The owner."}
PATHS: dict[str, Any] = {
    "/{owner}/issues": {
        "parameters": [OWNER],
        "get": {
            "operationId": "listIssues",
            "summary": "List the issues",
            "tags": ["issues"],
            "parameters": [
                {"name": "state", "in": "query", "schema": {"enum": ["open", "closed"], "default": "open"}},
                {"name": "page", "in": "query", "schema": {"type": "integer", "minimum": 1, "maximum": 100}},
            ],
        },
        "post": {
            "operationId": "createIssue",
            "summary": "Create an issue",
            "description": "Notifies all people who follow the repository.",
            "tags": ["issues"],
            "requestBody": {
                "required": True,
                "content": {"application/json": {"schema": {"$ref": "#/components/schemas/Issue"}}},
            },
        },
    },
    "/{owner}/webhooks": {
        "parameters": [OWNER],
        "get": {"operationId": "hooks", "summary": "List the hooks of a repository", "tags": ["hooks"]},
    },
    "/broken": {"get": {"operationId": "broken", "parameters": [{"name": "x", "in": "nowhere"}]}},
}


@pytest.fixture
def hub(document: MakeDocument, site: Site) -> MakeAPI:
    def make(**options: Any) -> Api:
        file = document(PATHS, components=COMPONENTS)
        return Api(file=file, base_url=site.url, **{"methods": ("GET", "POST"), "mode": "search", **options})

    return make


async def find(client: Client, **arguments: Any) -> str:
    return (await client.call_tool("one_find_operation", arguments)).content[0].text


def names(text: str) -> list[str]:
    return [line.split()[0] for line in text.splitlines() if line[0] not in " ["]


async def test_search_offers_two_tools_with_the_tags(connected: Connected, hub: MakeAPI) -> None:
    async with connected(hub()) as client:
        find_tool, call_tool = [tool async for tool in client.tools()]
        report = json.loads((await client.read_resource("openapi:///apis")).contents[0].text)["apis"][0]

    assert [find_tool.name, call_tool.name] == ["one_find_operation", "one_call_operation"]
    assert find_tool.description.endswith("operations: issues (2), hooks (1), untagged (1).")
    assert find_tool.annotations.read_only_hint
    assert call_tool.annotations.destructive_hint
    assert report["tools"] == {
        "one_find_operation": "find in 4 operations",
        "one_call_operation": "call one of 4 operations",
    }


async def test_calls_of_safe_methods_are_read_only(connected: Connected, hub: MakeAPI) -> None:
    async with connected(hub(methods=("GET",))) as client:
        _, call_tool = [tool async for tool in client.tools()]

    assert call_tool.annotations.read_only_hint


@pytest.mark.parametrize("most", [3, 4])
async def test_search_begins_above_max_tools(connected: Connected, hub: MakeAPI, most: int) -> None:
    async with connected(hub(mode="auto", max_tools=most)) as client:
        found = [tool.name async for tool in client.tools()]

    assert ("one_find_operation" in found) == (most == 3)


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        ({"query": "create issue"}, ["createIssue", "listIssues"]),
        ({"query": "listing of issues, please: list"}, ["listIssues", "createIssue", "hooks"]),
        ({"query": "notify follow"}, ["createIssue"]),
        ({"query": "repo"}, ["hooks", "createIssue"]),
        ({"query": "POST"}, ["createIssue"]),
        ({"tag": "issues"}, ["listIssues", "createIssue"]),
        ({}, ["listIssues", "createIssue", "hooks", "broken"]),
        ({"limit": 1}, ["listIssues"]),
        ({"limit": 2, "offset": 1}, ["createIssue", "hooks"]),
    ],
)
async def test_operations_are_found_by_words(
    connected: Connected, hub: MakeAPI, arguments: Any, expected: list[str]
) -> None:
    async with connected(hub()) as client:
        assert names(await find(client, **arguments)) == expected


async def test_arguments_are_shown_compactly(connected: Connected, hub: MakeAPI) -> None:
    async with connected(hub()) as client:
        text = await find(client, tag="issues")
        last = await find(client, limit=3)
        full = await find(client, query="createIssue")
        nothing = await find(client, query="weather")

    assert text.splitlines() == [
        "listIssues  GET /{owner}/issues  [issues]",
        "  List the issues",
        '  owner: string, state?: "open" | "closed" = "open", page?: integer (1 to 100)',
        "createIssue  POST /{owner}/issues  [issues]",
        "  Create an issue",
        "  owner: string, body: {title: string, labels?: [string], parent?: {id?: integer, of?: {…}}}",
    ]
    assert last.endswith("[1 to 3 of 4; continue with offset=3]")
    assert "owner: string  The owner." in full.splitlines()
    assert "Notifies all people" in full
    assert nothing == "No operation has any of these words. The tags are issues, hooks, untagged."


async def test_call_is_validated_and_sent_as_by_its_own_tool(connected: Connected, hub: MakeAPI, site: Site) -> None:
    async with connected(hub()) as client:

        async def call(name: str, **arguments: Any) -> str:
            result = await client.call_tool("one_call_operation", {"name": name, "arguments": arguments})
            return str(result.content[0].text)

        assert await call("createIssue", owner="me", body={"title": "T"}) == "{}"
        created = site.last.line, site.last.body
        assert await call("listIssues", owner="me", page="3") == "{}"
        listed = site.last.target
        sent = len(site.arrived)
        refusals = [
            await call("createIssue", owner="me", body={}),
            await call("listIssues", owner="me", state="lost"),
            await call("listIssues", owner=".."),
            await call("createIssues"),
            await call("broken"),
        ]

    assert created == ("POST /me/issues HTTP/1.1", b'{"title":"T"}')
    assert listed == "/me/issues?page=3"
    assert len(site.arrived) == sent
    expected = ("title", "open", "owner", "similar are createIssue, listIssues", "#/paths/~1broken/get/parameters")
    for refusal, text in zip(refusals, expected, strict=True):
        assert text in refusal


async def test_unknown_tag_names_the_known_ones(connected: Connected, hub: MakeAPI) -> None:
    async with connected(hub()) as client:
        text = await find(client, tag="issue")

    assert text == "expected one of the tags issues, hooks, untagged, got 'issue'"


async def test_operations_without_credentials_are_not_found(connected: Connected, document: MakeDocument) -> None:
    schemes = {"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}}
    paths = {"/a": {"get": {"security": [{"key": []}]}}, "/b": {"get": {}}}
    api = Api(file=document(paths, components=schemes), base_url="http://127.0.0.1:1", mode="search")
    async with connected(api) as client:
        assert names(await find(client)) == ["get_b"]


async def test_definitions_and_pages_of_many_operations_are_small(
    connected: Connected, document: MakeDocument, check_tokens: CheckTokens
) -> None:
    """Each of the 320 operations has a body of 40 schemas that refer to each other."""
    schemas: dict[str, Any] = {"P0": {"type": "string"}}
    for number in range(1, 40):
        fields = {f"f{each}": {"type": "string", "description": "A field."} for each in range(8)}
        schemas[f"P{number}"] = {
            "type": "object",
            "properties": {**fields, "next": {"$ref": f"#/components/schemas/P{number - 1}"}},
        }
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/P20"}}}}
    paths = {f"/p{number}": {"post": {"tags": [f"t{number % 20}"], "requestBody": body}} for number in range(320)}
    file = document(paths, components={"schemas": schemas})
    async with connected(Api(file=file, base_url="http://127.0.0.1:1", methods=("POST",))) as client:
        await check_tokens(client, 280)
        assert len(await find(client, query="post")) < 8_000
        assert len(await find(client, limit=50)) < 17_000
        assert len(await find(client, query="post_p7")) < 37_000


def test_recursive_and_unusual_schemas_have_a_shape() -> None:
    node = {"type": "object", "properties": {"next": {"$ref": "#/$defs/Node"}}}
    schema = {
        "type": "object",
        "properties": {
            "node": {"$ref": "#/$defs/Node"},
            "map": {"type": "object", "additionalProperties": {"type": "integer", "minimum": 0}},
            "either": {"anyOf": [{"type": "string", "format": "date"}, {"type": "null"}]},
            "anything": {},
            "lost": {"$ref": "#/$defs/None"},
            "file": {"type": "string", "contentEncoding": "base64"},
        },
        "required": ["file"],
        "$defs": {"Node": node},
    }

    assert arguments_text(schema, levels=3, descriptions=False) == [
        "file: string (Base64)",
        "node?: {next?: {…}}",
        "map?: {*: integer (>= 0)}",
        "either?: string (date) | null",
        "anything?: any",
        "lost?: any",
    ]
    assert shape_of({"enum": list(range(20))}, {}, 1).endswith("10 | 11 | …")
