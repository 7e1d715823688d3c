"""Small requests to URLs that other programs supply: their results, and the addresses that are refused."""

from __future__ import annotations

import gzip
import socket
from collections.abc import AsyncIterator, Mapping, Sequence
from contextlib import asynccontextmanager
from typing import Any

import pytest
import trio

from mcptrio.abc import FetchRequest, FetchResponse
from mcptrio.errors import RequestFailed
from mcptrio.http.client.address_policy import AddressPolicy
from mcptrio.http.client.endpoint import HTTPEndpoint
from mcptrio.http.client.fetcher import Fetcher

from .web import Handler, ReceivedRequest, Web, Wire, serving

__all__: list[str] = []

HERE = AddressPolicy(loopback=True)


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for variable in ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY"):
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)
    return monkeypatch


class Names(trio.abc.HostnameResolver):
    """A resolver whose answers change: it returns the answers for a name one after another, and repeats the last."""

    def __init__(self, names: Mapping[str, Sequence[Sequence[str]]]) -> None:
        self.names = {name: list(answers) for name, answers in names.items()}
        self.asked: list[str] = []

    async def getaddrinfo(
        self, host: Any, port: Any, family: int = 0, type: int = 0, proto: int = 0, flags: int = 0
    ) -> Any:
        name = host.decode() if isinstance(host, bytes) else host
        self.asked.append(name)
        if name not in self.names:
            raise socket.gaierror(socket.EAI_NONAME, "Name or service not known")
        answers = self.names[name]
        addresses = answers.pop(0) if len(answers) > 1 else answers[0]
        return [
            (
                (socket.AF_INET6, socket.SOCK_STREAM, 6, "", (each, port, 0, 0))
                if ":" in each
                else (socket.AF_INET, socket.SOCK_STREAM, 6, "", (each, port))
            )
            for each in addresses
        ]

    async def getnameinfo(self, sockaddr: Any, flags: int) -> Any:
        raise AssertionError("not asked")


@pytest.fixture
async def names() -> Names:
    """Replace the resolver during the test."""
    resolver = Names({})
    trio.socket.set_custom_hostname_resolver(resolver)
    return resolver


@asynccontextmanager
async def fetching(handler: Handler, **options: Any) -> AsyncIterator[tuple[Web, Fetcher]]:
    with trio.fail_after(30):
        async with serving(handler) as web:
            yield web, Fetcher(options.pop("reach", HERE), **options)


async def get(fetch: Fetcher, url: str) -> FetchResponse:
    return await fetch(FetchRequest(url=url))


async def refused(url: str, reach: AddressPolicy = AddressPolicy(), **options: Any) -> str:  # noqa: B008 - a value
    with trio.fail_after(30), pytest.raises(RequestFailed) as caught:
        await get(Fetcher(reach, **options), url)
    assert not caught.value.delivered
    return str(caught.value)


# Results


async def test_request_returns_status_headers_and_body() -> None:
    async def echo(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply({"got": seen.body.decode()}, 201, x_twice="1", X_Twice="2", set_cookie="a=b")

    async with fetching(echo) as (web, fetch):
        request = FetchRequest(
            url=f"http://localhost:{web.port}/a%20b?c=d", method="POST", headers={"accept": "x/y"}, body=b"form=1"
        )
        first = await fetch(request)
        await fetch(request)

    assert (first.status, first.body) == (201, b'{"got": "form=1"}')
    assert first.headers["x-twice"] == "1, 2"
    assert [seen.target for seen in web.seen] == ["/a%20b?c=d"] * 2
    assert web.connections == 2
    for seen in web.seen:
        assert set(seen.headers) == {"host", "accept", "user-agent", "content-length"}
        assert seen.headers["host"] == f"localhost:{web.port}"


@pytest.mark.parametrize("status", [301, 302, 303, 307, 308])
async def test_redirect_is_returned_and_not_followed(status: int) -> None:
    async def away(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply(None, status, location="http://169.254.169.254/latest/meta-data/")

    async with fetching(away) as (web, fetch):
        response = await get(fetch, web.url)

    assert (response.status, response.body) == (status, b"")
    assert len(web.seen) == 1


async def test_response_over_the_size_limit_fails() -> None:
    async def huge(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        while True:
            await wire.chunk(b"x" * 65536)

    async with fetching(huge) as (web, fetch):
        with pytest.raises(RequestFailed, match=r"expected at most 262144 bytes from .*/mcp, got more"):
            await get(fetch, web.url)


@pytest.mark.parametrize(("size", "good"), [(1000, True), (1001, False)])
async def test_response_size_limit_counts_bytes(size: int, good: bool) -> None:
    async def reply(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply(b"x" * size)

    async with fetching(reply, max_bytes=1000) as (web, fetch):
        if good:
            assert len((await get(fetch, web.url)).body) == size
        else:
            with pytest.raises(RequestFailed, match="at most 1000 bytes"):
                await get(fetch, web.url)


async def test_response_head_over_the_size_limit_fails() -> None:
    async def huge(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.send(b"HTTP/1.1 200 OK\r\n")
        while True:
            await wire.send(b"X: " + b"y" * 8192 + b"\r\n")

    async with fetching(huge) as (web, fetch):
        with pytest.raises(RequestFailed):
            await get(fetch, web.url)


async def test_slow_response_fails_after_the_total_timeout() -> None:
    """Every byte arrives in time, but the complete response does not."""

    async def drip(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        while True:
            await wire.chunk(b"x")
            await trio.sleep(0.01)

    async with fetching(drip, seconds=1) as (web, fetch):
        with pytest.raises(RequestFailed, match=r"expected an answer from .* within 1 seconds") as caught:
            await get(fetch, web.url)
    assert caught.value.delivered


async def test_compressed_response_is_not_decompressed() -> None:
    async def packed(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply(gzip.compress(b"x" * 10_000_000), content_encoding="gzip")

    async with fetching(packed) as (web, fetch):
        with pytest.raises(RequestFailed, match=r"without Content-Encoding .* got 'gzip'"):
            await get(fetch, web.url)


async def test_incomplete_response_fails() -> None:
    async def half(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.head(content_length="100")
        await wire.send(b"half")
        wire.hang_up()

    async with fetching(half) as (web, fetch):
        with pytest.raises(RequestFailed):
            await get(fetch, web.url)


async def test_header_value_with_a_line_break_is_refused() -> None:
    async def never(seen: ReceivedRequest, wire: Wire) -> None:
        raise AssertionError("it came")

    async with fetching(never) as (web, fetch):
        with pytest.raises(RequestFailed, match="cannot be written as HTTP"):
            await fetch(FetchRequest(url=web.url, headers={"x": "a\r\ny: b"}))


# Refused addresses


@pytest.mark.parametrize(
    ("url", "expected"),
    [
        ("http://127.0.0.1/", "expected an https URL"),
        ("http://93.184.215.14/", "expected an https URL"),
        ("ftp://example.com/", "expected http"),
        ("file:///etc/passwd", "expected http"),
        ("https://user:secret@example.com/", "without credentials"),
        ("https://@example.com/", "without credentials"),
        ("https://exa mple.com/", "no spaces"),
        ("https://example.com\\@10.0.0.1/", "backslashes"),
        ("https://127.0.0.1/", "one of this machine"),
        ("https://127.1/", "one of this machine"),
        ("https://2130706433/", "one of this machine"),
        ("https://0x7f.1/", "one of this machine"),
        ("https://0/", "a reserved one"),
        ("https://10.0.0.1/", "private network"),
        ("https://172.31.0.1/", "private network"),
        ("https://192.168.1.1/", "private network"),
        ("https://100.64.0.1/", "private network"),
        ("https://169.254.0.1/", "link-local"),
        ("https://169.254.169.254/", "metadata service"),
        ("https://168.63.129.16/", "metadata service"),
        ("https://224.0.0.1/", "multicast"),
        ("https://255.255.255.255/", "a reserved one"),
        ("https://[::1]/", "one of this machine"),
        ("https://[::]/", "a reserved one"),
        ("https://[::ffff:127.0.0.1]/", "one of this machine"),
        ("https://[::ffff:a00:1]/", "private network"),
        ("https://[::ffff:169.254.169.254]/", "metadata service"),
        ("https://[::10.0.0.1]/", "a reserved one"),
        ("https://[64:ff9b::10.0.0.1]/", "private network"),
        ("https://[64:ff9b::a9fe:a9fe]/", "metadata service"),
        ("https://[2002:a00:1::]/", "a reserved one"),
        ("https://[fd00::1]/", "private network"),
        ("https://[fd00:ec2::254]/", "metadata service"),
        ("https://[fe80::1]/", "link-local"),
        ("https://[fe80::1%25eth0]/", "expected http"),
        ("https://[ff02::1]/", "multicast"),
        ("https://[2001:db8::1]/", "a reserved one"),
    ],
)
async def test_url_with_a_non_public_address_is_refused(url: str, expected: str) -> None:
    message = await refused(url)

    assert expected in message
    assert "secret" not in message


async def test_name_is_refused_if_any_of_its_addresses_is_not_public(names: Names) -> None:
    names.names = {"evil.example.com": [["10.0.0.1"]], "mixed.example.com": [["93.184.215.14", "::1"]]}

    assert "one of a private network (10.0.0.1)" in await refused("https://evil.example.com/")
    # A public address among them makes no difference.
    assert "one of this machine (::1)" in await refused("https://mixed.example.com/")
    assert "Name or service not known" in await refused("https://none.example.com/")


async def test_name_with_too_many_addresses_is_refused(names: Names) -> None:
    names.names = {"a.example.com": [[f"93.184.215.{number}" for number in range(17)]]}

    assert "expected 1 to 16 addresses, got 17" in await refused("https://a.example.com/")


async def test_rebound_name_is_not_resolved_a_second_time(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    """A second resolution would return this machine, so the address that was checked is dialled."""
    names.names = {"evil.example.com": [["93.184.215.14"], ["127.0.0.1"]]}
    dialled: list[str] = []
    connect = trio.open_tcp_stream

    async def watched(host: Any, port: int, **options: Any) -> trio.SocketStream:
        dialled.append(host)
        if host == "93.184.215.14":
            raise OSError("nobody is there, in these tests")
        return await connect(host, port, **options)

    monkeypatch.setattr(trio, "open_tcp_stream", watched)

    async def never(seen: ReceivedRequest, wire: Wire) -> None:
        raise AssertionError("it was reached")

    async with fetching(never) as (web, _):
        message = await refused(f"https://evil.example.com:{web.port}/")

    assert "cannot connect to evil.example.com" in message
    assert dialled == ["93.184.215.14"]
    assert names.asked == ["evil.example.com"]


async def test_next_address_is_tried_when_the_first_fails(names: Names) -> None:
    async def reply(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply({})

    async with fetching(reply) as (web, fetch):
        names.names = {"two.localhost": [["::1", "127.0.0.1"]]}
        assert (await get(fetch, f"http://two.localhost:{web.port}/")).status == 200

    assert names.asked == ["two.localhost"]


# Allowed addresses


async def test_http_url_of_this_machine_is_reached_if_allowed(names: Names) -> None:
    names.names = {"evil.example.com": [["127.0.0.1"]], "public.example.com": [["93.184.215.14"]]}

    async def reply(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply({})

    async with fetching(reply) as (web, fetch):
        assert (await get(fetch, web.url)).status == 200
    message = await refused("http://public.example.com/", HERE)
    assert "expected an https URL, or http on this machine" in message


@pytest.mark.parametrize(
    "address", ["169.254.169.254", "127.0.0.1", "224.0.0.1", "fe80::1", "0.0.0.0", "fd00:ec2::254"]
)
async def test_private_policy_does_not_allow_other_special_addresses(names: Names, address: str) -> None:
    names.names = {"a.example.com": [[address]]}

    assert "expected a public address" in await refused("https://a.example.com/", AddressPolicy(private=True))


async def test_only_allowed_origins_are_reached_if_any_are_set(names: Names, monkeypatch: pytest.MonkeyPatch) -> None:
    names.names = {"idp.corp": [["127.0.0.1"]], "other.corp": [["127.0.0.1"]]}

    async def reply(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply({"host": seen.headers["host"]})

    async with fetching(reply) as (web, _):
        fetch = Fetcher(AddressPolicy(origins=frozenset({f"http://IDP.corp:{web.port}/realms/x"})))
        assert (await get(fetch, f"http://idp.corp:{web.port}/keys")).status == 200
        for url in (
            f"https://idp.corp:{web.port}/",
            f"http://idp.corp:{web.port + 1}/",
            f"http://other.corp:{web.port}/",
        ):
            with pytest.raises(RequestFailed, match="expected"):
                await get(fetch, url)
        assert len(web.seen) == 1


@pytest.mark.parametrize(
    ("server", "loopback"),
    [
        ("http://localhost:1/mcp", True),
        ("http://a.localhost/mcp", True),
        ("http://127.0.0.2/mcp", True),
        ("http://[::1]/mcp", True),
        ("https://mcp.example.com/mcp", False),
        ("https://localhost.example.com/mcp", False),
        ("https://10.0.0.1/mcp", False),
    ],
)
def test_policy_around_a_server_allows_its_origin(server: str, loopback: bool) -> None:
    reach = AddressPolicy.around(server, origins=["https://as.corp/x"])

    assert reach.loopback is loopback
    assert reach.origins == {HTTPEndpoint.parse(server).origin, "https://as.corp"}
    assert not reach.private


def test_allowed_origin_that_is_not_a_url_is_refused() -> None:
    with pytest.raises(ValueError, match="expected http"):
        AddressPolicy(origins=frozenset({"example.com"}))
    with pytest.raises(TypeError, match="expected a list"):
        AddressPolicy(origins="https://example.com")  # type: ignore[arg-type]


# Through a proxy


@asynccontextmanager
async def proxy(environment: pytest.MonkeyPatch) -> AsyncIterator[Web]:
    async def refuse(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply(None, 502)

    async with serving(refuse) as web:
        environment.setenv("HTTPS_PROXY", f"http://127.0.0.1:{web.port}")
        yield web


async def test_address_policy_applies_to_proxied_requests(environment: pytest.MonkeyPatch, names: Names) -> None:
    names.names = {"evil.example.com": [["10.0.0.1"]], "good.example.com": [["93.184.215.14"]]}
    async with proxy(environment) as web:
        assert "one of a private network" in await refused("https://evil.example.com/")
        assert "one of a private network" in await refused("https://10.0.0.1/")
        assert web.seen == []
        assert "refused to connect to good.example.com:443" in await refused("https://good.example.com/")
        assert "refused to connect to unknown.example.com:443" in await refused("https://unknown.example.com/")
        assert [seen.target for seen in web.seen] == ["good.example.com:443", "unknown.example.com:443"]


async def test_proxies_are_ignored_without_trust_env(environment: pytest.MonkeyPatch, names: Names) -> None:
    async with proxy(environment) as web:
        await refused("https://unknown.example.com/", trust_env=False)
        assert web.seen == []
