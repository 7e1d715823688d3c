"""The plugin in a server: configuration, tools, progress, timeouts and cancellation."""

from __future__ import annotations

import gzip
import json
import ssl
import time
from datetime import UTC, datetime, timedelta
from functools import partial
from pathlib import Path
from typing import Any

import mcptrio_openapi
import pytest
import trio
import trio.testing
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID
from mcptrio_openapi import Api, Config, OpenAPI
from mcptrio_openapi.operations import ARGUMENT
from mcptrio_openapi.rate_limiter import RateLimiter
from trio.testing import MockClock

from mcptrio import Secret, Server, ToolError, connect
from mcptrio.serving import ServerSettings
from mcptrio.testing import Case, ServerSpec, open_served

from .conftest import Connected, MakeDocument, Reply, Site

PREFIX = "one_"
ALL = ("GET", "HEAD", "OPTIONS", "POST", "PUT", "PATCH", "DELETE")
IT = {"/a": {"get": {"operationId": "it"}}}


def root(paths: Any, **more: Any) -> dict[str, Any]:
    return {"openapi": "3.1.0", "info": {"title": "Fetched", "version": "1"}, "paths": paths, **more}


async def test_configuration_is_read_by_the_loader(
    site: Site, document: MakeDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = document(
        IT, components={"securitySchemes": {"key": {"type": "http", "scheme": "bearer"}}}, security=[{"key": []}]
    )
    monkeypatch.setenv("OWN_SECRET", "from the environment")
    table = {
        "apis": {
            "one": {
                "file": str(file),
                "base_url": site.url,
                "auth": {"key": {"token": {"$env": "OWN_SECRET"}}},
                "headers": {"X-More": "more"},
                "timeout": 60,
            }
        }
    }
    server = Server(plugins=[mcptrio_openapi], config={"mcptrio_openapi": table}, settings=ServerSettings(strict=True))
    async with connect(server) as client:
        await client.call_tool(f"{PREFIX}it")

    assert site.last.header("Authorization") == "Bearer from the environment"
    assert site.last.header("X-More") == "more"


@pytest.mark.parametrize(
    ("policy", "names"),
    [
        ({}, ["openapi_one_it", f"openapi_one_{'x' * 43}_09ecb6eb"]),
        ({"prefix": ""}, ["one_it", f"one_{'x' * 43}_09ecb6eb"]),
        ({"prefix": "something_long"}, ["something_long_one_it"]),
    ],
)
async def test_tool_names_have_the_plugin_as_prefix(
    document: MakeDocument, policy: dict[str, str], names: list[str]
) -> None:
    file = document({**IT, "/b": {"get": {"operationId": "x" * 100}}})
    table = {"apis": {"one": {"file": str(file), "base_url": "http://127.0.0.1:1"}}, **policy}
    spec = ServerSpec(plugins=["openapi"], config={"openapi": table})
    async with open_served(spec, Case()) as served, served.connect() as client:
        found = [tool.name async for tool in client.tools()]
        report = json.loads((await client.read_resource("openapi:///apis")).contents[0].text)["apis"][0]

    assert found == names
    assert list(report["tools"]) == found
    assert len(report["problems"]) == 2 - len(names)
    assert all(len(name) <= 64 for name in found)


async def test_plugin_without_an_api_lists_no_tools() -> None:
    server = Server(plugins=[mcptrio_openapi], settings=ServerSettings(strict=True))
    async with server.open():
        assert not server.catalog.tools.registry
        assert not server.catalog.resources.resources


def test_api_name_with_an_underscore_is_refused() -> None:
    with pytest.raises(ValueError, match="'a_b'"):
        Config(apis={"a_b": Api(file=Path("x"))})


@pytest.mark.parametrize("revision", ["2025-03-26", "2026-07-28"])
async def test_hints_follow_the_method(connected: Connected, document: MakeDocument, revision: str) -> None:
    paths = {"/a": {method.lower(): {"operationId": method} for method in ALL}}
    async with connected(
        Api(file=document(paths), base_url="http://127.0.0.1:1", methods=ALL), revision=revision
    ) as client:
        hints = {
            tool.name.removeprefix(PREFIX): (
                tool.annotations.read_only_hint,
                tool.annotations.destructive_hint,
                tool.annotations.idempotent_hint,
                tool.annotations.open_world_hint,
            )
            async for tool in client.tools()
        }

    assert hints == {
        "GET": (True, False, True, True),
        "HEAD": (True, False, True, True),
        "OPTIONS": (True, False, True, True),
        "POST": (False, True, False, True),
        "PUT": (False, True, True, True),
        "PATCH": (False, True, False, True),
        "DELETE": (False, True, True, True),
    }


async def test_only_safe_methods_are_listed_by_default(connected: Connected, document: MakeDocument) -> None:
    paths = {"/a": {method.lower(): {"operationId": method} for method in ALL}}
    async with connected(Api(file=document(paths), base_url="http://127.0.0.1:1")) as client:
        assert [tool.name.removeprefix(PREFIX) async for tool in client.tools()] == ["GET", "HEAD"]


async def test_descriptions_are_bounded(connected: Connected, document: MakeDocument) -> None:
    parameter = {"name": "a", "in": "query", "description": "p" * 5000, "schema": {}}
    operation = {"summary": "S\0" * 300, "description": "d\n" * 5000, "deprecated": True, "parameters": [parameter]}
    config = Config(max_description=200)
    async with connected(
        Api(file=document({"/a": {"get": operation}}), base_url="http://127.0.0.1:1"), config=config
    ) as client:
        [tool] = [tool async for tool in client.tools()]

    assert len(tool.description) == 200
    assert tool.description.endswith("…\n\nGET /a (deprecated)")
    assert len(tool.title) == 100
    assert len(tool.input_schema["properties"]["a"]["description"]) <= 66


async def test_apis_do_not_affect_each_other_and_share_no_headers(
    connected: Connected, site: Site, elsewhere: Site, document: MakeDocument
) -> None:
    broken = document(IT, name="broken.json", version="2.0")
    one = Api(file=document(IT), base_url=site.url, headers={"X-Key": Secret("of one")})
    two = Api(file=document(IT, name="other.json"), base_url=elsewhere.url)
    async with connected(one, two, Api(file=broken, base_url=site.url)) as client:
        names = [tool.name async for tool in client.tools()]
        for name in names:
            await client.call_tool(name)

    assert names == ["one_it", "two_it"]
    assert len(site.arrived) == len(elsewhere.arrived) == 1
    assert elsewhere.last.header("X-Key") is None


async def test_report_lists_loaded_and_failed_apis(
    connected: Connected, document: MakeDocument, tmp_path: Path
) -> None:
    paths = {**IT, "/b/{x}": {"get": {}}}
    one = Api(file=document(paths), base_url="https://a.example/v1")
    two = Api(file=tmp_path / "missing.yaml", base_url="https://a.example")
    async with connected(one, two) as client:
        result = await client.read_resource("openapi:///apis")

    assert json.loads(result.contents[0].text) == {
        "apis": [
            {
                "name": "one",
                "title": "T",
                "base_urls": ["https://a.example/v1"],
                "tools": {"one_it": "GET /a"},
                "problems": [
                    {
                        "pointer": "#/paths/~1b~1{x}/get/parameters",
                        "text": "expected a path parameter 'x', got none",
                        "lost": "GET /b/{x}",
                    }
                ],
            },
            {
                "name": "two",
                "title": "",
                "base_urls": [],
                "tools": {},
                "problems": [
                    {
                        "pointer": "#",
                        "text": "expected the document in missing.yaml, got none: No such file or directory",
                        "lost": "everything",
                    }
                ],
            },
        ]
    }


async def test_document_is_fetched_once(connected: Connected, site: Site, reply: Reply) -> None:
    site.answers = [
        reply(status=302, headers={"Location": "/v2/openapi.json"}),
        reply(root(IT, servers=[{"url": "api"}])),
        reply({}),
    ]
    async with connected(Api(url=f"{site.url}/openapi.json", url_headers={"X-Key": Secret("doc")})) as client:
        await client.call_tool(f"{PREFIX}it")

    assert [arrived.target for arrived in site.arrived] == ["/openapi.json", "/v2/openapi.json", "/v2/api/a"]
    assert [arrived.header("X-Key") for arrived in site.arrived] == ["doc", "doc", None]


@pytest.mark.parametrize("server", ["https://evil.example/", "http://127.0.0.1:1", "//evil.example"])
async def test_fetched_document_may_name_its_own_origin_only(
    connected: Connected, site: Site, reply: Reply, server: str
) -> None:
    site.always = reply(root(IT, servers=[{"url": server}]))
    async with connected(Api(url=f"{site.url}/openapi.json")) as client:
        report = await client.read_resource("openapi:///apis")
    assert "set base_url" in report.contents[0].text

    async with connected(Api(url=f"{site.url}/openapi.json", base_url=site.url)) as client:
        assert len([tool async for tool in client.tools()]) == 1


@pytest.mark.parametrize(
    ("answer", "text"),
    [
        ({"status": 404}, "the status is 404"),
        ({"body": b"x" * 5000}, "more than 4096 bytes"),
        ({"status": 302, "headers": {"Location": "http://127.0.0.1:1/x"}}, "redirected to another origin"),
        ({"body": b"\xff"}, "UTF-8"),
        (None, "within 0.2 s (document_timeout)"),
    ],
)
async def test_unavailable_document_does_not_affect_other_apis(
    connected: Connected, site: Site, reply: Reply, document: MakeDocument, answer: Any, text: str
) -> None:
    site.always = site.hang if answer is None else reply(**answer)
    config = Config(max_document_bytes=4096, document_timeout=0.2 if answer is None else 10)
    async with connected(Api(url=f"{site.url}/a"), Api(file=document(IT), base_url=site.url), config=config) as client:
        names = [tool.name async for tool in client.tools()]
        [one, _] = json.loads((await client.read_resource("openapi:///apis")).contents[0].text)["apis"]

    assert names == ["two_it"]
    assert text in one["problems"][0]["text"]


async def test_cancelled_call_closes_its_connection(connected: Connected, site: Site, document: MakeDocument) -> None:
    site.always = site.hang
    async with connected(Api(file=document(IT), base_url=site.url)) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, f"{PREFIX}it")
            with trio.fail_after(30):
                while not site.open:
                    await trio.lowlevel.checkpoint()
            nursery.cancel_scope.cancel()
        with trio.fail_after(30):
            await site.closed.wait()


async def test_cancelled_download_is_closed_and_the_next_call_works(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply
) -> None:
    started = trio.Event()

    async def forever(_: Any, stream: trio.abc.Stream) -> None:
        await stream.send_all(b"HTTP/1.1 200 OK\r\nContent-Length: 100000000\r\n\r\n")
        while True:
            await stream.send_all(b"x" * 65536)
            started.set()

    site.answers = [forever]
    api = Api(file=document(IT), base_url=site.url, concurrency=1, max_response_bytes=200 * 1024 * 1024)
    async with connected(api) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, f"{PREFIX}it")
            with trio.fail_after(30):
                await started.wait()
            nursery.cancel_scope.cancel()
        with trio.fail_after(30):
            await site.closed.wait()
        site.always = reply({"fine": True})
        assert (await client.call_tool(f"{PREFIX}it")).structured_content == {"fine": True}


async def test_call_times_out(
    connected: Connected, site: Site, document: MakeDocument, mock_clock: trio.testing.MockClock
) -> None:
    mock_clock.rate = 1.0

    async def hang(arrived: Any, stream: trio.abc.Stream) -> bytes | None:
        mock_clock.jump(30)  # only now, so that the request has arrived
        return await site.hang(arrived, stream)

    site.always = hang
    async with connected(Api(file=document(IT), base_url=site.url, timeout=30)) as client:
        result = await client.call_tool(f"{PREFIX}it")
        assert result.content[0].text == "GET /a of one: no complete response within 30 s (timeout)"
        with trio.fail_after(20):
            await site.closed.wait()


async def test_connection_is_reused_by_the_next_call(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply
) -> None:
    packed = {"Content-Encoding": "gzip"}
    site.answers = [
        reply({}),
        reply(gzip.compress(b"{}"), headers=packed, kind="application/json"),
        reply(status=204),
        reply({}, status=404),
    ]
    async with connected(Api(file=document(IT), base_url=site.url)) as client:
        for _ in range(5):
            await client.call_tool(f"{PREFIX}it")

    assert len(site.arrived) == 5
    assert site.connections == 1  # and the fixture nothing_left checks that it is closed


async def test_concurrent_requests_are_limited(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply
) -> None:
    both = trio.Event()

    async def wait(_: Any, __: Any) -> bytes:
        if site.open == 2:
            both.set()
        await both.wait()
        return reply({})

    site.always = wait
    async with connected(Api(file=document(IT), base_url=site.url, concurrency=2)) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(client.call_tool, f"{PREFIX}it")

    assert site.most_open == 2
    assert len(site.arrived) == 6


async def test_download_reports_progress(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply
) -> None:
    site.always = reply(b"x" * 300_000, kind="image/png")
    received: list[Any] = []
    async with connected(Api(file=document(IT), base_url=site.url)) as client:
        await client.call_tool(f"{PREFIX}it", progress=received.append)

    assert received
    assert received[-1].total == 300_000
    assert received[-1].message.endswith("bytes received")


@pytest.mark.parametrize(("method", "sent"), [("get", 3), ("put", 3), ("delete", 3), ("post", 1), ("patch", 1)])
async def test_only_idempotent_requests_are_retried(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply, method: str, sent: int
) -> None:
    async def gone(_: Any, __: Any) -> None:
        return None

    site.answers = [reply(status=503, headers={"Retry-After": "0"}), gone, reply({"done": 1})]
    file = document({"/a": {method: {"operationId": "it"}}})
    async with connected(Api(file=file, base_url=site.url, methods=ALL, retries=2, timeout=30)) as client:
        result = await client.call_tool(f"{PREFIX}it")

    assert len(site.arrived) == sent
    assert result.is_error == (sent == 1)


async def test_requests_are_not_retried_by_default(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply
) -> None:
    site.always = reply(status=503, headers={"Retry-After": "0"})
    async with connected(Api(file=document(IT), base_url=site.url)) as client:
        result = await client.call_tool(f"{PREFIX}it")

    assert result.is_error
    assert len(site.arrived) == 1


async def test_retry_after_beyond_the_timeout_is_not_retried(
    connected: Connected, site: Site, document: MakeDocument, reply: Reply
) -> None:
    site.always = reply(status=429, headers={"Retry-After": "3600"})
    async with connected(Api(file=document(IT), base_url=site.url, retries=5)) as client:
        result = await client.call_tool(f"{PREFIX}it")

    assert "429 Too Many Requests (retry after 3600)" in result.content[0].text
    assert len(site.arrived) == 1


async def test_rate_limit_delays_calls(autojump_clock: MockClock) -> None:
    pace, began = RateLimiter(2.0, 3), trio.current_time()
    times: list[float] = []
    for _ in range(6):
        await pace.wait(began + 100)
        times.append(trio.current_time() - began)
    await trio.sleep(100)
    await pace.wait(began + 1000)

    assert times == pytest.approx([0, 0, 0, 0.5, 1.0, 1.5])
    assert trio.current_time() - began == pytest.approx(101.5)


async def test_rate_limit_wait_over_the_maximum_fails_at_once(autojump_clock: MockClock) -> None:
    pace, began = RateLimiter(0.1, 1), trio.current_time()
    await pace.wait(began + 5)
    with pytest.raises(ToolError, match="call again in 10 s"):
        await pace.wait(began + 5)

    assert trio.current_time() == began
    await pace.wait(began + 15)
    assert trio.current_time() - began == pytest.approx(10)


async def test_cancelled_rate_limit_wait_frees_its_turn(autojump_clock: MockClock) -> None:
    pace, began = RateLimiter(1.0, 1), trio.current_time()
    await pace.wait(began)
    for _ in range(50):
        with trio.move_on_after(0.001):
            await pace.wait(began + 100)
    await pace.wait(began + 100)

    assert trio.current_time() - began == pytest.approx(1, abs=0.1)


async def test_without_a_rate_no_call_waits(autojump_clock: MockClock) -> None:
    pace, began = RateLimiter(None, 1), trio.current_time()
    for _ in range(1000):
        await pace.wait(began)

    assert trio.current_time() == began


async def test_parameter_named_like_the_argument_container_is_renamed(
    connected: Connected, site: Site, document: MakeDocument
) -> None:
    parameter = {"name": ARGUMENT, "in": "query", "schema": {"type": "string"}}
    file = document({"/a": {"get": {"operationId": "it", "parameters": [parameter]}}})
    async with connected(Api(file=file, base_url=site.url)) as client:
        await client.call_tool(f"{PREFIX}it", {f"{ARGUMENT}_query": "x"})

    assert site.last.target == f"/a?{ARGUMENT}=x"


async def test_tools_of_fetched_documents_are_removed_with_the_server(site: Site, reply: Reply) -> None:
    site.always = reply(root(IT))
    server = Server(
        plugins=[OpenAPI(Config(apis={"one": Api(url=f"{site.url}/x")}))], settings=ServerSettings(strict=True)
    )
    async with connect(server) as client:
        assert len([tool async for tool in client.tools()]) == 1

    assert len(server.catalog.tools.registry) == 0


async def test_ten_thousand_operations_are_read_quickly(connected: Connected, document: MakeDocument) -> None:
    """The operations refer to the same schemas, and ten of them are selected."""
    schema = {
        "type": "object",
        "properties": {f"p{number}": {"$ref": "#/components/schemas/S"} for number in range(50)},
    }
    body = {"content": {"application/json": {"schema": {"$ref": "#/components/schemas/S"}}}}
    paths = {f"/{number}": {"get": {}, "post": {"requestBody": body}} for number in range(5000)}
    file = document(paths, components={"schemas": {"S": schema}})
    began = time.process_time()  # processor time, on a busy machine too
    async with connected(Api(file=file, base_url="http://127.0.0.1:1", paths=("/1?",), methods=("POST",))) as client:
        assert len([tool async for tool in client.tools()]) == 10

    assert time.process_time() - began < 10


async def test_certificate_of_a_private_authority_is_accepted(
    connected: Connected, site: Site, document: MakeDocument, tmp_path: Path
) -> None:
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "own")])
    now = datetime.now(UTC)
    certificate = (
        x509.CertificateBuilder(name, name, key.public_key(), 1, now - timedelta(days=1), now + timedelta(days=1))
        .add_extension(x509.SubjectAlternativeName([x509.DNSName("localhost")]), critical=False)
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    pem = tmp_path / "own.pem"
    pem.write_bytes(certificate.public_bytes(serialization.Encoding.PEM))
    private = tmp_path / "own.key"
    private.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
    )
    context = ssl.create_default_context(ssl.Purpose.CLIENT_AUTH)
    context.load_cert_chain(pem, private)

    async def serve(stream: trio.SocketStream) -> None:
        try:
            await site.serve(trio.SSLStream(stream, context, server_side=True, https_compatible=True))
        except trio.BrokenResourceError:
            return  # a client that does not trust the certificate

    async with trio.open_nursery() as nursery:
        [listener] = await nursery.start(partial(trio.serve_tcp, serve, 0, host="127.0.0.1"))
        url = f"https://localhost:{listener.socket.getsockname()[1]}"
        file = document(IT)
        async with connected(Api(file=file, base_url=url, ca_file=pem), Api(file=file, base_url=url)) as client:
            trusted = await client.call_tool("one_it")
            distrusted = await client.call_tool("two_it")
        nursery.cancel_scope.cancel()

    assert trusted.structured_content == {}
    assert distrusted.is_error
    assert "certificate" in distrusted.content[0].text
    assert len(site.arrived) == 1


async def test_proxy_comes_from_the_settings_and_not_the_environment(
    connected: Connected, site: Site, elsewhere: Site, document: MakeDocument, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("HTTP_PROXY", elsewhere.url)
    monkeypatch.setenv("ALL_PROXY", elsewhere.url)
    api = Api(file=document(IT), base_url="http://api.example", proxy=Secret(site.url))
    async with connected(api, Api(file=document(IT), base_url=site.url)) as client:
        await client.call_tool("one_it")
        await client.call_tool("two_it")

    assert [arrived.target for arrived in site.arrived] == ["http://api.example/a", "/a"]
    assert not elsewhere.arrived
