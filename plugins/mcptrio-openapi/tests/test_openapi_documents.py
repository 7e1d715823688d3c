"""Reading of documents, and the cost of hostile ones."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from random import Random
from typing import Any

import pytest
from mcptrio_openapi import Api, Config
from mcptrio_openapi.documents import Document, read_document
from mcptrio_openapi.operations import DocumentReading, read_operations
from mcptrio_openapi.problems import DocumentError
from mcptrio_openapi.yaml_text import YAMLError, read_yaml

from .conftest import MakeDocument

BASE = "https://api.example.com"
ALL = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
OK = {"responses": {"200": {"description": "ok"}}}


def read(paths: Any, /, *, version: str = "3.1.0", more: dict[str, Any] | None = None, **api: Any) -> DocumentReading:
    root = {"openapi": version, "info": {"title": "T"}, "servers": [{"url": BASE}], "paths": paths, **(more or {})}
    api.setdefault("methods", ALL)
    document = read_document(json.dumps(root).encode())
    return read_operations(document, "one", Config(apis={"one": Api(file=Path("x"), **api)}))


def tools(reading: DocumentReading) -> list[str]:
    return [operation.tool.removeprefix("one_") for operation in reading.operations]


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("200: on", {"200": "on"}),
        ("a: 2020-01-01\nb: 12:30\nc: 0x1F\nd: yes", {"a": "2020-01-01", "b": "12:30", "c": "0x1F", "d": "yes"}),
        (
            "a: 1\nb: -1.5e3\nc: true\nd: null\ne: ~\nf:",
            {"a": 1, "b": -1500.0, "c": True, "d": None, "e": None, "f": None},
        ),
        ("a: '1'\nb: \"true\"\nc: !!str 3", {"a": "1", "b": "true", "c": "3"}),
        ("base: &b {x: 1, y: 2}\nuse: {<<: *b, y: 3}", {"base": {"x": 1, "y": 2}, "use": {"x": 1, "y": 3}}),
        ("a: |\n  one\n  two\n", {"a": "one\ntwo\n"}),
        ("a: " + "9" * 400, {"a": "9" * 400}),
        ("", None),
    ],
)
def test_yaml_is_read_as_json(text: str, expected: Any) -> None:
    assert read_yaml(text) == expected


@pytest.mark.parametrize(
    "text",
    [
        "[" * 100_000,
        "{a: " * 100_000,
        "- " * 100_000,
        "&a [*a]",
        "a: *nothing",
        "a: 1\n---\nb: 2",
        "!!python/object/apply:os.system ['true']",
        "? [a]\n: b",
        "a: 'unclosed",
        "\t- a",
    ],
)
def test_yaml_without_a_json_equivalent_is_refused(text: str) -> None:
    with pytest.raises(YAMLError, match="line"):
        read_yaml(text)


MAPPING = "&b {" + ", ".join(f"k{number}: 1" for number in range(3000)) + "}"


@pytest.mark.parametrize(
    "text",
    [
        f"base: {MAPPING}\nlist: &l [{', '.join(['*b'] * 3000)}]\nout:\n  <<: *l\n",
        f"base: {MAPPING}\nout:\n" + "  <<: *b\n" * 3000,
        f"list: &l [{', '.join(['1'] * 3000)}]\nout:\n" + "  <<: *l\n" * 3000,
    ],
    ids=["a list of many", "again and again", "lists again and again"],
)
def test_yaml_merge_expansion_is_bounded(text: str) -> None:
    assert len(text) < 100_000
    with pytest.raises(YAMLError, match="expected at most 5000000 values, got more"):
        read_yaml(text)


def test_billion_laughs_document_is_refused_cheaply() -> None:
    lines = ["a0: &a0 [lol]"]
    lines += [f"a{level}: &a{level} [{', '.join([f'*a{level - 1}'] * 9)}]" for level in range(1, 30)]
    lines += ["openapi: 3.1.0", "paths: {/a: {get: {parameters: *a29}}}", f"servers: [{{url: {BASE}}}]"]

    document = read_document("\n".join(lines).encode())
    reading = read_operations(document, "one", Config(apis={"one": Api(file=Path("x"))}))

    assert reading.problems[0].pointer == "#/paths/~1a/get/parameters/0"


@pytest.mark.parametrize(
    ("data", "pointer", "text"),
    [
        (b"\xff\xfe", "#", "UTF-8"),
        (b"[]", "#", "expected an object"),
        (b"hello", "#", "expected an object"),
        (b'{"openapi": "3.1.0",', "#", "line 1"),
        (b'{"swagger": "2.0"}', "#/swagger", "Swagger 2.0"),
        (b'{"openapi": 3.1}', "#/openapi", "got 3.1"),
        (b'{"openapi": "4.0.0"}', "#/openapi", "4.0.0"),
        (b"{}", "#/openapi", "got nothing"),
        (b'{"openapi": "3.0.0", "paths": []}', "#/paths", "expected an object"),
        (b"[" * 1_000_000, "#", "expected"),
    ],
)
def test_invalid_document_error_names_the_problem(data: bytes, pointer: str, text: str) -> None:
    with pytest.raises(DocumentError, match=text) as caught:
        read_document(data)

    assert caught.value.pointer == pointer


GOOD = {"get": {"operationId": "good", **OK}}


@pytest.mark.parametrize(
    ("path", "item", "pointer"),
    [
        ("bad", GOOD, "#/paths/bad"),
        ("/bad", 3, "#/paths/~1bad"),
        ("/bad", {"$ref": "#/paths/~1bad"}, "#/paths/~1bad/$ref"),
        ("/bad", {"$ref": "https://evil.example/"}, "#/paths/~1bad/$ref"),
        ("/bad", {"get": []}, "#/paths/~1bad/get"),
        ("/bad/{id}", {"get": OK}, "#/paths/~1bad~1{id}/get/parameters"),
        ("/bad/{}", {"get": OK}, "#/paths/~1bad~1{}/get/parameters"),
        ("/bad/{id", {"get": OK}, "#/paths/~1bad~1{id"),
        ("/bad?x=1", {"get": OK}, "#/paths/~1bad?x=1"),
        ("/a/../bad", {"get": OK}, "#/paths/~1a~1..~1bad"),
        ("/bad", {"get": {"parameters": {}}}, "#/paths/~1bad/get/parameters"),
        ("/bad", {"get": {"parameters": [1]}}, "#/paths/~1bad/get/parameters/0"),
        ("/bad", {"parameters": [{"in": "body", "name": "a"}], "get": OK}, "#/paths/~1bad/parameters/0/in"),
        ("/bad", {"get": {"parameters": [{"in": "query"}]}}, "#/paths/~1bad/get/parameters/0/name"),
        ("/bad", {"get": {"parameters": [{"in": "query", "name": "a"}]}}, "#/paths/~1bad/get/parameters/0"),
        (
            "/bad",
            {"get": {"parameters": [{"in": "query", "name": "a", "schema": {"type": 1}}]}},
            "#/paths/~1bad/get/parameters/0/schema/type",
        ),
        (
            "/bad",
            {"get": {"parameters": [{"in": "query", "name": "a", "schema": {}, "style": "simple"}]}},
            "#/paths/~1bad/get/parameters/0/style",
        ),
        (
            "/bad",
            {"get": {"parameters": [{"in": "header", "name": "a\r\nb", "schema": {}}]}},
            "#/paths/~1bad/get/parameters/0/name",
        ),
        (
            "/bad",
            {"get": {"parameters": [{"in": "query", "name": "a", "schema": {}, "required": "yes"}]}},
            "#/paths/~1bad/get/parameters/0/required",
        ),
        ("/bad", {"post": {"requestBody": 1}}, "#/paths/~1bad/post/requestBody"),
        ("/bad", {"post": {"requestBody": {}}}, "#/paths/~1bad/post/requestBody/content"),
        ("/bad", {"post": {"requestBody": {"content": {"nonsense": {}}}}}, "#/paths/~1bad/post/requestBody/content"),
        (
            "/bad",
            {"post": {"requestBody": {"content": {"application/json": {"schema": []}}}}},
            "#/paths/~1bad/post/requestBody/content/application~1json/schema",
        ),
        ("/bad", {"get": {"security": {}}}, "#/paths/~1bad/get/security"),
        ("/bad", {"get": {"security": [{"key": []}]}}, "#/paths/~1bad/get/security"),
        ("/bad", {"get": {"servers": [{"url": "https://else.example"}]}}, "#/paths/~1bad/get/servers"),
    ],
)
def test_invalid_operation_is_omitted_and_reported_with_its_place(path: str, item: Any, pointer: str) -> None:
    reading = read({"/before": GOOD, path: item, "/after": {"get": OK}})

    assert tools(reading) == ["good", "get_after"]
    [problem] = reading.problems
    assert problem.pointer == pointer
    assert problem.lost


def test_invalid_response_schema_omits_the_output_schema_only() -> None:
    answer = {"content": {"application/json": {"schema": {"type": "object", "properties": {"a": {"type": 1}}}}}}
    reading = read({"/a": {"get": {"responses": {"200": answer}}}})

    assert tools(reading) == ["get_a"]
    assert reading.operations[0].output_schema is None
    assert reading.problems[0].pointer.endswith("/properties/a/type")


def test_operation_with_a_schema_over_the_size_limit_is_omitted() -> None:
    wide = {"type": "string", "enum": [f"{number:0200}" for number in range(70)]}
    parameters = [{"name": f"p{number}", "in": "query", "schema": wide} for number in range(10)]
    reading = read({"/a": {"get": {"parameters": parameters}}, "/b": {"get": OK}})

    assert tools(reading) == ["get_b"]
    assert "max_schema_bytes" in reading.problems[0].text


def test_operations_beyond_max_tools_are_searched() -> None:
    reading = read({f"/p{number}": {"get": OK} for number in range(10)}, max_tools=3)

    assert not reading.operations
    assert len(reading.searchable) == 10
    assert not reading.problems


def test_names_are_valid_stable_and_numbered_in_the_order_of_the_document() -> None:
    long = "x" * 100
    paths = {
        "/a": {"get": {"operationId": "list things!"}, "post": {"operationId": "list/things"}},
        "/b": {"get": {"operationId": "list_things_2"}},
        "/c": {"get": {"operationId": long}, "post": {"operationId": f"{long}y"}},
        "/d/{x}": {"parameters": [{"name": "x", "in": "path", "schema": {}}], "get": {}},
        "/": {"get": {}},
        "/e": {"get": {"operationId": 7}, "put": {"operationId": "Ünï"}},
    }
    whole, part = read(paths), read(paths, methods=("GET",))

    names = [operation.tool for operation in whole.operations]
    assert tools(whole)[:3] == ["list_things", "list_things_2", "list_things_2_2"]
    assert tools(whole)[5:] == ["get_d_x", "get_root", "get_e", "n"]
    assert len(set(names)) == len(names)
    assert max(map(len, names)) == 56  # and openapi_ before it
    assert {operation.tool for operation in part.operations} <= set(names)
    assert [problem.pointer for problem in whole.problems] == [
        "#/paths/~1a/post/operationId",
        "#/paths/~1b/get/operationId",
        "#/paths/~1e/get/operationId",
    ]


def test_arguments_have_valid_names_that_differ() -> None:
    def parameter(name: str, location: str) -> dict[str, Any]:
        return {"name": name, "in": location, "schema": {"type": "string"}, "required": location == "path"}

    item = {
        "parameters": [parameter("id", "query"), parameter("id", "path"), parameter("id", "header")],
        "post": {
            "parameters": [
                parameter("filter[a]", "query"),
                parameter("the_arguments", "query"),
                parameter("body", "query"),
            ],
            "requestBody": {"content": {"application/json": {"schema": {"type": "object"}}}},
        },
    }
    [operation] = read({"/x/{id}": item}).operations

    assert list(operation.input_schema["properties"]) == [
        "id",
        "id_query",
        "filter_a",
        "the_arguments_query",
        "body",
        "id_header",
        "body_of_request",
    ]
    assert operation.input_schema["required"] == ["id"]


def test_connection_headers_are_not_parameters() -> None:
    parameters = [
        {"name": name, "in": "header", "schema": {"type": "string"}}
        for name in ("Host", "content-length", "Transfer-Encoding", "Authorization", "Accept", "X-Fine")
    ]
    reading = read({"/a": {"get": {"parameters": parameters}}})

    assert list(reading.operations[0].input_schema["properties"]) == ["X-Fine"]
    assert len(reading.problems) == 3  # the specification has Authorization and Accept ignored


def test_operation_parameters_override_path_parameters() -> None:
    item = {
        "parameters": [{"name": "a", "in": "query", "schema": {"type": "string"}}],
        "get": {"parameters": [{"name": "a", "in": "query", "schema": {"type": "integer"}}]},
    }
    [operation] = read({"/a": item}).operations

    assert operation.input_schema["properties"] == {"a": {"type": "integer"}}


@pytest.mark.parametrize(
    ("settings", "expected"),
    [
        ({}, ["list", "get", "check"]),
        ({"methods": ("get", "POST")}, ["list", "make", "get"]),
        ({"tags": ("b",)}, ["get"]),
        ({"operations": ("l*", "g?t")}, ["list", "get"]),
        ({"paths": ("/a",)}, ["list"]),
        ({"exclude": ("check", "/a")}, ["get"]),
        ({"tags": ("a",), "methods": ("POST",)}, ["make"]),
    ],
)
def test_operations_can_be_selected(settings: dict[str, Any], expected: list[str]) -> None:
    settings.setdefault("methods", ("GET", "HEAD"))
    paths = {
        "/a": {"get": {"operationId": "list", "tags": ["a"]}, "post": {"operationId": "make", "tags": ["a"]}},
        "/a/b": {"get": {"operationId": "get", "tags": ["b", "c"]}, "head": {"operationId": "check"}},
    }

    assert tools(read(paths, **settings)) == expected


@pytest.mark.parametrize(
    "url",
    [
        "http://api.example.com",
        "https://localhost",
        "https://10.0.0.1",
        "https://127.1",
        "https://2130706433",
        "https://[::1]",
        "https://[::ffff:10.0.0.1]",
        "https://169.254.169.254",
        "https://intranet",
        "https://db.internal",
        "https://user:word@api.example.com",
        "https://api.example.com/?x=1",
        "https://api.example.com/../x",
        "/v1",
        "ftp://api.example.com",
        "https://{host}/",
        "https://api.example.com:99999",
        "",
        7,
    ],
)
def test_private_server_url_in_a_document_is_refused(url: Any) -> None:
    reading = read({"/a": {"get": OK}}, more={"servers": [{"url": url}]})

    assert not reading.operations
    assert reading.problems[0].pointer == "#/servers/0/url"
    assert reading.problems[0].lost == "everything"


def test_operator_can_set_any_server_url() -> None:
    paths = {"/a": {"servers": [{"url": "https://else.example"}], "get": OK}}

    [operation] = read(paths, base_url="http://10.0.0.1:8080/v1/").operations

    assert operation.base_url == "http://10.0.0.1:8080/v1"


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"file": Path("x"), "url": "https://x.example/"},
        {"url": "http://x.example/"},
        {"url": "file:///etc/passwd"},
        {"file": Path("x"), "base_url": "https://a:b@x.example"},
        {"file": Path("x"), "base_url": "x.example"},
        {"file": Path("x"), "base_url": "https://x.example/\r\n"},
        {"file": Path("x"), "methods": ("TRACE",)},
        {"file": Path("x"), "rate": 0},
        {"file": Path("x"), "redirect_origins": ("https://x.example/path",)},
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"expected|must be"):
        Api(**settings)


def test_real_documents_are_read(data: Path) -> None:
    pets = read_document((data / "petstore.yaml").read_bytes())
    hub = read_document((data / "hub.json").read_bytes())
    config = Config(
        apis={
            "pets": Api(file=Path("x"), methods=ALL, anonymous=True),
            "hub": Api(file=Path("x"), methods=ALL),
        }
    )
    of_pets, of_hub = read_operations(pets, "pets", config), read_operations(hub, "hub", config)

    assert [operation.tool for operation in of_pets.operations] == [
        "pets_listPets",
        "pets_createPet",
        "pets_showPetById",
        "pets_petExists",
        "pets_replacePet",
        "pets_changePet",
        "pets_deletePet",
        "pets_getPhoto",
        "pets_uploadPhoto",
        "pets_get_store_orders",
        "pets_place_order",
    ]
    assert not of_pets.problems
    assert {operation.base_url for operation in of_pets.operations} == {"https://pets.example.com/v1"}
    assert [operation.tool for operation in of_hub.operations] == [
        "hub_repos_get",
        "hub_repos_update",
        "hub_issues_list-for-repo",
        "hub_issues_create",
        "hub_repos_get-content",
        "hub_markdown_render-raw",
    ]
    assert [problem.pointer for problem in of_hub.problems] == [
        "#/paths/~1repos~1{owner}~1{repo}/patch/requestBody/content/application~1json/schema/properties/topics/items/pattern",
        "#/paths/~1assets/servers",
    ]


def test_yaml_and_json_documents_give_equal_tools(data: Path, document: MakeDocument) -> None:
    root = read_document((data / "petstore.yaml").read_bytes()).root

    assert read_document(json.dumps(root).encode()).root == root


JUNK = [None, True, 0, -1, 3.5, "", "x", "#/", "object", [], {}, [1], {"a": 1}, ["string", "null"], {"type": "object"}]
JUNK += [{"$ref": reference} for reference in (5, "#", "#/paths", "#/components/schemas/Pet", "#/components")]
KEYS = ["$ref", "type", "in", "nullable", "required", "items", "enum", "allOf", "schema", "content", "properties"]


def nodes(value: Any, path: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    yield path
    for key, child in value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ():
        yield from nodes(child, (*path, key))


@pytest.mark.parametrize("name", ["petstore.yaml", "hub.json"])
def test_any_damaged_document_is_read_or_reported(data: Path, name: str) -> None:
    """Real documents with a few values replaced at random: each error is found by its type check."""
    original = read_document((data / name).read_bytes())
    config = Config(apis={"one": Api(file=Path("x"), methods=ALL, base_url=BASE, anonymous=True)})
    for seed in range(60):
        chance = Random(seed)
        root = json.loads(json.dumps(original.root))
        for _ in range(4):
            *path, last = chance.choice([path for path in nodes(root["paths"]) if path])
            holder = root["paths"]
            for step in path:
                holder = holder[step]
            if isinstance(holder, dict) and chance.random() < 0.3:
                last = chance.choice(KEYS)
            holder[last] = json.loads(json.dumps(chance.choice(JUNK)))
        reading = read_operations(Document(root, original.minor), "one", config)
        assert reading.operations or reading.problems
