"""Credentials: where they are sent, and where they are never shown."""

from __future__ import annotations

import base64
import json
import logging
from pathlib import Path
from typing import Any

import pytest
import trio
from mcptrio_openapi import Api, Config, Credential
from mcptrio_openapi.documents import read_document
from mcptrio_openapi.operations import read_operations

from mcptrio import Secret

from .conftest import Connected, MakeDocument, Reply, Site

PREFIX = "one_"
WORD = "s3cr3t/word+é"


def schemes(**named: Any) -> dict[str, Any]:
    return {"components": {"securitySchemes": named}, "security": [{name: [] for name in named}]}


KEY = {"type": "apiKey", "in": "header", "name": "X-Key"}
BEARER = {"type": "http", "scheme": "Bearer"}
BASIC = {"type": "http", "scheme": "basic"}
PATHS = {"/a": {"get": {"operationId": "it"}, "post": {"operationId": "make"}}}


async def test_api_keys_are_sent_in_their_places(connected: Connected, site: Site, document: MakeDocument) -> None:
    more = schemes(
        header=KEY,
        query={"type": "apiKey", "in": "query", "name": "api key"},
        cookie={"type": "apiKey", "in": "cookie", "name": "sid"},
    )
    paths = {
        "/a": {
            "get": {
                "operationId": "it",
                "parameters": [
                    {"name": "x-key", "in": "header", "required": True, "schema": {}},
                    {"name": "q", "in": "query", "schema": {}},
                    {"name": "c", "in": "cookie", "schema": {}},
                ],
            }
        }
    }
    auth = {name: Credential(token=Secret(f"{name}&1")) for name in ("header", "query", "cookie")}
    async with connected(Api(file=document(paths, **more), base_url=site.url, auth=auth)) as client:
        [tool] = [tool async for tool in client.tools()]
        await client.call_tool(tool.name, {"q": 1, "c": 2})

    assert list(tool.input_schema["properties"]) == ["q", "c"]
    assert site.last.header("X-Key") == "header&1"
    assert site.last.target == "/a?q=1&api%20key=query%261"
    assert site.last.header("Cookie") == "c=2; sid=cookie%261"


async def test_bearer_and_basic_credentials_are_sent(connected: Connected, site: Site, document: MakeDocument) -> None:
    paths = {
        "/a": {"get": {"operationId": "bearer", "security": [{"bearer": []}]}},
        "/b": {"get": {"operationId": "basic", "security": [{"unknown": []}, {"basic": []}]}},
        "/c": {"get": {"operationId": "nobody", "security": []}},
        "/d": {"get": {"operationId": "either", "security": [{}, {"bearer": []}]}},
    }
    auth = {"bearer": Credential(token=Secret(WORD)), "basic": Credential(username="ü", password=Secret("p:w"))}
    file = document(paths, **schemes(bearer=BEARER, basic=BASIC))
    async with connected(Api(file=file, base_url=site.url, auth=auth)) as client:
        for name in ("bearer", "basic", "nobody", "either"):
            await client.call_tool(f"{PREFIX}{name}")

    assert [arrived.header("Authorization") for arrived in site.arrived] == [
        f"Bearer {WORD}",
        "Basic " + base64.b64encode("ü:p:w".encode()).decode(),
        None,
        f"Bearer {WORD}",
    ]


async def test_configured_headers_are_sent(connected: Connected, site: Site, document: MakeDocument) -> None:
    headers = {"Authorization": Secret(f"Token {WORD}"), "Accept": Secret("x/y")}
    file = document(PATHS, **schemes(any={"type": "http", "scheme": "token"}))
    async with connected(Api(file=file, base_url=site.url, headers=headers)) as client:
        await client.call_tool(f"{PREFIX}it")

    assert site.last.header("Authorization") == f"Token {WORD}"
    assert site.last.header("Accept") == "x/y"
    assert site.last.raw.count(b"Accept: ") == 1


def reading(document: MakeDocument, more: dict[str, Any], **api: Any) -> Any:
    config = Config(apis={"one": Api(file=Path("x"), base_url="https://a.example", **api)})
    return read_operations(read_document(document(PATHS, **more).read_bytes()), "one", config)


@pytest.mark.parametrize(
    ("scheme", "credential", "text"),
    [
        (KEY, None, "expected credentials for 'any', got none"),
        (BASIC, Credential(token=Secret("x")), "a username and a password in auth.any"),
        (BEARER, Credential(username="u", password=Secret("p")), "a token in auth.any"),
        (KEY, Credential(username="u", password=Secret("p")), "a token in auth.any"),
        ({"type": "http", "scheme": "digest"}, Credential(token=Secret("x")), "basic or bearer, got 'digest'"),
        ({"type": "mutualTLS"}, Credential(token=Secret("x")), "got 'mutualTLS'"),
        ({**KEY, "in": "path"}, Credential(token=Secret("x")), "header, query or cookie"),
        ({**KEY, "name": "a b"}, Credential(token=Secret("x")), "expected a name"),
        ({"type": "oauth2"}, Credential(client_id="c", client_secret=Secret("s")), "set token_url"),
        (
            {"type": "oauth2", "flows": {"clientCredentials": {"tokenUrl": "https://evil.example/token"}}},
            Credential(client_id="c", client_secret=Secret("s")),
            "the API's own origin, got https://evil.example",
        ),
    ],
)
def test_operation_without_its_credentials_is_omitted(
    document: MakeDocument, scheme: Any, credential: Credential | None, text: str
) -> None:
    found = reading(document, schemes(any=scheme), auth={"any": credential} if credential else {})

    assert not found.operations
    assert text in found.problems[0].text


def test_operation_without_its_credentials_is_listed_if_configured(document: MakeDocument) -> None:
    assert len(reading(document, schemes(any=KEY), anonymous=True).operations) == 1


def test_unused_credentials_are_reported(document: MakeDocument) -> None:
    found = reading(document, {}, auth={"typo": Credential(token=Secret("x"))})

    assert "'typo'" in found.problems[0].text
    assert found.problems[0].lost is None


@pytest.mark.parametrize(
    "settings",
    [
        {},
        {"token": Secret("x"), "username": "u", "password": Secret("p")},
        {"username": "u"},
        {"client_id": "c"},
        {"username": "a:b", "password": Secret("p")},
        {"token": Secret("x\n")},
        {"client_id": "c", "client_secret": Secret("s"), "token_url": "http://elsewhere.example"},
    ],
)
def test_incomplete_or_ambiguous_credential_is_refused(settings: Any) -> None:
    with pytest.raises(ValueError, match="expected"):
        Credential(**settings)


def oauth(site: Site, **flow: Any) -> dict[str, Any]:
    flow.setdefault("tokenUrl", f"{site.url}/token")
    return schemes(own={"type": "oauth2", "flows": {"clientCredentials": flow}})


CLIENT = {"client_id": "cl ient", "client_secret": Secret("se:cret")}


async def test_client_credentials_obtain_a_token(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply
) -> None:
    site.answers = [
        reply({"access_token": "first-token", "token_type": "Bearer", "expires_in": 3600}),
        reply({}),
        reply({}),
        reply({"error": "expired"}, status=401),
        reply({"access_token": "second-token", "token_type": "bearer", "expires_in": "3600"}),
        reply({}),
        reply({"echo": "second-token first-token"}, status=401),
        reply({"error": "invalid_client", "error_description": "se:cret"}, status=400),
    ]
    credential = Credential(**CLIENT, scopes=("a", "b"), token_parameters={"audience": "x y"})
    api = Api(file=document(PATHS, **oauth(site)), base_url=f"{site.url}/v1", auth={"own": credential})
    async with connected(api) as client:
        results = [await client.call_tool(f"{PREFIX}it") for _ in range(4)]

    token = site.arrived[0]
    assert token.line == "POST /token HTTP/1.1"
    assert token.header("Authorization") == "Basic " + base64.b64encode(b"cl+ient:se%3Acret").decode()
    assert token.body == b"grant_type=client_credentials&audience=x+y&scope=a+b"
    assert [(arrived.target, arrived.header("Authorization")) for arrived in site.arrived[1:4]] == [
        ("/v1/a", "Bearer first-token")
    ] * 3
    assert [arrived.target for arrived in site.arrived[4:]] == ["/token", "/v1/a", "/v1/a", "/token"]
    assert site.arrived[5].header("Authorization") == "Bearer second-token"
    assert [result.is_error for result in results] == [False, False, False, True]
    assert "refused the credentials of own: 400: invalid_client" in results[3].content[0].text


async def test_client_secret_can_be_sent_in_the_form(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply
) -> None:
    site.answers = [reply({"access_token": "t" * 20})]
    credential = Credential(**CLIENT, client_authentication="post")
    async with connected(
        Api(file=document(PATHS, **oauth(site)), base_url=site.url, auth={"own": credential})
    ) as client:
        await client.call_tool(f"{PREFIX}it")

    assert site.arrived[0].body == b"grant_type=client_credentials&client_id=cl+ient&client_secret=se%3Acret"
    assert site.arrived[0].header("Authorization") is None


async def test_concurrent_calls_share_a_token(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply
) -> None:
    site.answers = [reply({"access_token": "t" * 20, "expires_in": 60})]
    api = Api(file=document(PATHS, **oauth(site)), base_url=site.url, auth={"own": Credential(**CLIENT)})
    async with connected(api) as client, trio.open_nursery() as nursery:
        for _ in range(4):
            nursery.start_soon(client.call_tool, f"{PREFIX}it")

    assert sorted(arrived.target for arrived in site.arrived) == ["/a"] * 4 + ["/token"]


async def test_expired_token_is_renewed(connected: Connected, site: Site, document: MakeDocument, reply: Reply) -> None:
    site.answers = [reply({"access_token": "t" * 20, "expires_in": 0}), reply({}), reply({"access_token": "u" * 20})]
    api = Api(file=document(PATHS, **oauth(site)), base_url=site.url, auth={"own": Credential(**CLIENT)})
    async with connected(api) as client:
        await client.call_tool(f"{PREFIX}it")
        await client.call_tool(f"{PREFIX}it")

    assert [arrived.target for arrived in site.arrived] == ["/token", "/a", "/token", "/a"]


@pytest.mark.parametrize(
    "answer",
    [
        {"status": 302, "headers": {"Location": "https://evil.example/"}},
        {"body": b"x" * 100_000},
        {"body": {"access_token": "a\r\nb"}},
        {"body": {"access_token": "aaaaaaa", "token_type": "mac"}},
        {"body": [1]},
    ],
)
async def test_invalid_token_response_fails_the_call(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply, answer: Any
) -> None:
    site.always = reply(**answer)
    api = Api(file=document(PATHS, **oauth(site)), base_url=site.url, auth={"own": Credential(**CLIENT)})
    async with connected(api) as client:
        result = await client.call_tool(f"{PREFIX}it")

    assert result.is_error
    assert "token" in result.content[0].text
    assert [arrived.target for arrived in site.arrived] == ["/token"]


async def test_redirect_on_the_same_origin_is_followed_with_credentials(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply
) -> None:
    more = schemes(header=KEY, query={"type": "apiKey", "in": "query", "name": "key"})
    auth = {name: Credential(token=Secret(WORD)) for name in ("header", "query")}
    site.answers = [reply(status=302, headers={"Location": "../b?x=1#f"}), reply({})]
    async with connected(Api(file=document(PATHS, **more), base_url=f"{site.url}/v1/w", auth=auth)) as client:
        await client.call_tool(f"{PREFIX}it")

    assert site.last.target == "/v1/b?x=1&key=s3cr3t%2Fword%2B%C3%A9"
    assert site.last.header("X-Key") == WORD


@pytest.mark.parametrize("path", ["/x?token=1", ""])
async def test_redirect_to_another_origin_is_refused(
    connected: Connected, site: Site, elsewhere: Site, document: MakeDocument, reply: Reply, path: str
) -> None:
    site.always = reply(status=307, headers={"Location": f"{elsewhere.url}{path}"})
    async with connected(Api(file=document(PATHS), base_url=site.url)) as client:
        result = await client.call_tool(f"{PREFIX}it")

    assert result.is_error
    assert result.content[0].text.endswith(f"redirected to another origin, {elsewhere.url}, which is not allowed")
    assert not elsewhere.arrived


@pytest.mark.parametrize(
    "location", ["file:///etc/passwd", "//user:word@127.0.0.1/", "http://", "ht!tp:x", "http://[x"]
)
async def test_redirect_without_a_valid_url_is_refused(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply, location: str
) -> None:
    site.always = reply(status=302, headers={"Location": location})
    async with connected(Api(file=document(PATHS), base_url=site.url)) as client:
        result = await client.call_tool(f"{PREFIX}it")

    assert result.is_error
    assert len(site.arrived) in (1, 6)  # text that is not a URL is a path of the same origin


async def test_allowed_redirect_to_another_origin_has_no_credentials(
    connected: Connected, site: Site, elsewhere: Site, document: MakeDocument, reply: Reply
) -> None:
    more = schemes(header=KEY, query={"type": "apiKey", "in": "query", "name": "key"})
    auth = {name: Credential(token=Secret(WORD)) for name in ("header", "query")}
    paths = {"/a": {"get": {"operationId": "it", "parameters": [{"name": "X-Own", "in": "header", "schema": {}}]}}}
    api = Api(
        file=document(paths, **more),
        base_url=site.url,
        auth=auth,
        headers={"X-More": Secret(WORD)},
        redirect_origins=(elsewhere.url,),
    )
    site.answers = [reply(status=302, headers={"Location": f"{elsewhere.url}/file?signature=1"})]
    elsewhere.answers = [
        reply(status=302, headers={"Location": f"{elsewhere.url}/again"}),
        reply("there", kind="text/plain"),
    ]
    async with connected(api) as client:
        result = await client.call_tool(f"{PREFIX}it", {"X-Own": "own"})

    assert result.content[0].text == "there"
    for arrived in elsewhere.arrived:
        names = [line.split(b":")[0].decode() for line in arrived.head.split(b"\r\n")[1:]]
        assert names == ["Host", "Accept", "Accept-Encoding", "User-Agent"]
        assert "key" not in arrived.target


@pytest.mark.parametrize(
    ("status", "expected"), [(303, "GET /b"), (307, "POST /b"), (308, "POST /b"), (301, None), (302, None)]
)
async def test_post_is_redirected_only_by_303_307_and_308(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply, status: int, expected: str | None
) -> None:
    paths = {
        "/a": {"post": {"operationId": "make", "requestBody": {"content": {"application/json": {}}}}},
    }
    site.answers = [reply(status=status, headers={"Location": "/b"}), reply({})]
    async with connected(Api(file=document(paths), base_url=site.url, methods=("POST",))) as client:
        result = await client.call_tool(f"{PREFIX}make", {"body": [1]})

    if expected is None:
        assert result.is_error
        assert len(site.arrived) == 1
    else:
        assert site.last.line == f"{expected} HTTP/1.1"
        assert site.last.body == (b"" if status == 303 else b"[1]")
        assert site.last.header("Content-Type") == (None if status == 303 else "application/json")


async def test_number_of_redirects_is_limited(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply
) -> None:
    site.always = reply(status=302, headers={"Location": "/a"})
    async with connected(Api(file=document(PATHS), base_url=site.url)) as client:
        result = await client.call_tool(f"{PREFIX}it")

    assert "more than 5 times" in result.content[0].text
    assert len(site.arrived) == 6


async def test_secrets_are_not_shown(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply, caplog: pytest.LogCaptureFixture
) -> None:
    """They are not in the list of tools, the report, the debug log, or results in which the API repeats them."""
    caplog.set_level(logging.DEBUG)
    # httpcore2 then logs the headers of responses; this checks what it logs of requests.
    caplog.set_level(logging.DEBUG, "httpcore2")
    more = schemes(header=KEY, query={"type": "apiKey", "in": "query", "name": "key"}, basic=BASIC)
    auth = {
        "header": Credential(token=Secret(WORD)),
        "query": Credential(token=Secret(WORD)),
        "basic": Credential(username="user", password=Secret(WORD)),
    }
    api = Api(file=document(PATHS, **more), base_url=site.url, auth=auth, headers={"X-More": Secret(f"Own {WORD}")})
    basic = base64.b64encode(f"user:{WORD}".encode()).decode()
    encoded = "s3cr3t%2Fword%2B%C3%A9"
    echo = {"a": WORD, "b": f"https://x/?key={encoded}", "c": f"Basic {basic}"}
    escaped = json.dumps(echo).encode()  # with \u00e9
    site.answers = [
        reply(json.dumps(echo, ensure_ascii=False), kind="application/json"),
        reply(json.dumps(echo, ensure_ascii=False), status=500, kind="application/json"),
        reply(escaped, kind="application/json"),
        reply({}, headers={"Location": f"/x?key={encoded}"}),
    ]
    shown: list[str] = []
    async with connected(api) as client:
        shown += [repr(tool) async for tool in client.tools()]
        for _ in range(4):
            shown.append(repr(await client.call_tool(f"{PREFIX}it")))
        shown.append(repr(await client.read_resource("openapi:///apis")))
    messages = [record.getMessage() for record in caplog.records]
    assert [message for message in messages if "send_request_headers" in message]
    shown += [message for message in messages if "receive_response_headers.complete" not in message] + [repr(api)]

    for secret in (WORD, encoded, basic, "s3cr3t"):
        assert not [text for text in shown if secret in text], secret
    assert "[secret]" in shown[1]


@pytest.mark.parametrize("name", ["Host", "transfer-encoding"])
def test_api_key_in_a_connection_header_is_refused(document: MakeDocument, name: str) -> None:
    file = document(PATHS, **schemes(key=KEY | {"name": name}))
    api = Api(file=file, base_url="https://api.example.com", auth={"key": Credential(token=Secret(WORD))})
    reading = read_operations(read_document(file.read_bytes()), "one", Config(apis={"one": api}))

    assert reading.operations == ()
    assert "the connection does not set itself" in reading.problems[0].text
    assert WORD not in str(reading.problems)
