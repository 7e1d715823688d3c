"""The address of a client, also behind proxies, and the limits for each address, on both HTTP servers.

Source: RFC 7239; RFC 6585 section 4.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Mapping
from functools import partial
from pathlib import Path
from typing import Any

import httpx2
import pytest
import trio
import trio.testing

from mcptrio import Server
from mcptrio.abc import Principal
from mcptrio.ground.networks import network_of
from mcptrio.http.client_address import Proxies, address_of
from mcptrio.http.server.owner_rates import OwnerRates
from mcptrio.serve.http import HTTPSockets, serve_http
from mcptrio.serving import (
    HTTPLimits,
    HTTPOptions,
)
from tests.function_guard import FunctionGuard

from .conftest import ACCEPT, Starter, call, modern_headers
from .raw_websocket import Refused, Socket, upgrade

__all__: list[str] = []

TRUSTED = ("10.0.0.0/8", "192.0.2.7", "fd00::/8")


def revealed(
    headers: list[tuple[str, str]],
    peer: tuple[str, int | None] | None = ("10.0.0.1", 1234),
    *,
    trusted: tuple[str, ...] = TRUSTED,
    scheme: str = "http",
) -> tuple[str | None, str]:
    """Return the client address and the scheme that the server derives."""
    raw = [(name.encode(), value.encode()) for name, value in headers]
    scope: dict[str, Any] = {"client": peer, "scheme": scheme, "headers": raw}
    Proxies.of(trusted).apply_forwarded(scope)
    return address_of(scope), scope["scheme"]


XFF, FORWARDED, PROTO = "x-forwarded-for", "forwarded", "x-forwarded-proto"


@pytest.mark.parametrize(
    ("headers", "address"),
    [
        pytest.param([], "10.0.0.1", id="nothing-said"),
        pytest.param([(XFF, "203.0.113.9")], "203.0.113.9", id="one"),
        pytest.param([(XFF, "1.1.1.1, 203.0.113.9")], "203.0.113.9", id="entries-to-its-left-are-ignored"),
        pytest.param([(XFF, "1.1.1.1, 203.0.113.9, 10.1.2.3,192.0.2.7")], "203.0.113.9", id="several-proxies"),
        pytest.param([(XFF, "1.1.1.1"), (XFF, "203.0.113.9"), (XFF, "10.1.2.3")], "203.0.113.9", id="several-headers"),
        pytest.param([(XFF, "10.9.9.9, 10.1.2.3")], "10.9.9.9", id="all-trusted"),
        pytest.param([(XFF, "203.0.113.9, unknown")], "10.0.0.1", id="unknown-hop"),
        pytest.param([(XFF, "203.0.113.9, unknown, 10.1.2.3")], "10.1.2.3", id="unknown-before-a-proxy"),
        pytest.param([(XFF, "203.0.113.9:4711")], "203.0.113.9", id="port"),
        pytest.param([(XFF, "[2001:db8::1]:4711")], "2001:db8::1", id="v6-port"),
        pytest.param([(XFF, "2001:db8::1")], "2001:db8::1", id="v6"),
        pytest.param([(XFF, "2001:db8::1, fd00::5")], "2001:db8::1", id="v6-proxy"),
        pytest.param([(XFF, "::ffff:203.0.113.9")], "203.0.113.9", id="v4-in-v6"),
        pytest.param([(XFF, "203.0.113.9, ::ffff:10.1.1.1")], "203.0.113.9", id="v4-in-v6-proxy"),
        pytest.param([(XFF, "fe80::1%eth0")], "fe80::1", id="zone"),
        pytest.param([(XFF, "")], "10.0.0.1", id="empty"),
        pytest.param([(XFF, "203.0.113.9, ")], "10.0.0.1", id="empty-last"),
        pytest.param([(XFF, "203.0.113.9, " + ", ".join(["10.1.1.1"] * 100))], "10.1.1.1", id="too-many"),
        pytest.param([(XFF, "1" * 10_000)], "10.0.0.1", id="long"),
        pytest.param([(FORWARDED, "for=203.0.113.9")], "203.0.113.9", id="forwarded"),
        pytest.param([(FORWARDED, "for=1.1.1.1;by=2.2.2.2, For=203.0.113.9;proto=https")], "203.0.113.9", id="case"),
        pytest.param([(FORWARDED, 'for="[2001:db8::1]:4711"')], "2001:db8::1", id="forwarded-v6"),
        pytest.param([(FORWARDED, 'for=1.1.1.1;x="a,b;c\\"", for=203.0.113.9')], "203.0.113.9", id="quoted"),
        pytest.param([(FORWARDED, 'for="1.1.1.1, for=203.0.113.9')], "10.0.0.1", id="open-quote"),
        pytest.param([(FORWARDED, "for=1.1.1.1;for=203.0.113.9")], "10.0.0.1", id="twice-in-one"),
        pytest.param([(FORWARDED, "for=_hidden")], "10.0.0.1", id="obfuscated"),
        pytest.param([(FORWARDED, "proto=https")], "10.0.0.1", id="no-for"),
        pytest.param([(FORWARDED, "for=203.0.113.9"), (XFF, "203.0.113.9")], "203.0.113.9", id="agree"),
        pytest.param([(FORWARDED, "for=1.1.1.1"), (XFF, "203.0.113.9")], "10.0.0.1", id="contradict"),
        pytest.param([(FORWARDED, "garbage"), (XFF, "203.0.113.9")], "203.0.113.9", id="one-unreadable"),
    ],
)
def test_address_behind_trusted_proxies_is_read_from_headers(headers: list[tuple[str, str]], address: str) -> None:
    assert revealed(headers)[0] == address


def test_proxy_headers_from_untrusted_addresses_are_ignored() -> None:
    messages = [(XFF, "203.0.113.9"), (FORWARDED, "for=203.0.113.9;proto=https"), (PROTO, "https")]
    assert revealed(messages, ("198.51.100.1", 1)) == ("198.51.100.1", "http")
    assert revealed(messages, ("/run/mcp.sock", None)) == (None, "http")
    assert revealed(messages, None) == (None, "http")
    assert revealed(messages, None, trusted=("unix",)) == ("203.0.113.9", "https")
    assert revealed(messages, ("::ffff:10.0.0.1", 1)) == ("203.0.113.9", "https")


@pytest.mark.parametrize(
    ("headers", "scheme", "found"),
    [
        ([(PROTO, "https")], "http", "https"),
        ([(PROTO, "HTTPS")], "ws", "wss"),
        ([(PROTO, "http, https")], "http", "https"),
        ([(PROTO, "gopher")], "http", "http"),
        ([(FORWARDED, "for=1.1.1.1;proto=http, for=2.2.2.2;proto=https")], "http", "https"),
        ([(FORWARDED, "for=1.1.1.1;proto=http"), (PROTO, "https")], "http", "http"),
        ([(PROTO, "http")], "https", "http"),
    ],
)
def test_scheme_behind_a_trusted_proxy_is_read_from_headers(
    headers: list[tuple[str, str]], scheme: str, found: str
) -> None:
    assert revealed(headers, scheme=scheme)[1] == found


@pytest.mark.parametrize("wrong", ["proxy.example.com", "10.0.0.1/8", "*", ""])
def test_invalid_trusted_network_is_refused(wrong: str, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match="expected an address, a network like"):
        HTTPOptions(forwarded=[wrong])

    (tmp_path / "mcptrio.toml").write_text(f"[http]\nport = 0\nforwarded = ['10.0.0.0/8', {wrong!r}]\n")
    if wrong == "*":
        args = [sys.executable, "-m", "mcptrio", "serve", "--http"]
        ended = subprocess.run(args, cwd=tmp_path, capture_output=True, text=True, timeout=60, check=False)
        assert ended.returncode == 2
        assert "mcptrio.toml:3: http.forwarded: expected an address" in ended.stderr


def test_addresses_of_one_ipv6_network_share_a_limit() -> None:
    assert network_of("203.0.113.9") == "203.0.113.9"
    assert network_of("::ffff:203.0.113.9") == "203.0.113.9"
    assert network_of("2001:db8::1") == network_of("2001:db8::ffff:1:2:3") == "2001:db8::/64"
    assert network_of("2001:db8:0:1::1") != network_of("2001:db8::1")
    assert network_of("testclient") == "testclient"


async def test_rate_of_an_address_is_limited(autojump_clock: trio.testing.MockClock) -> None:
    rates = OwnerRates(rate=2, burst=3, max_owners=10)
    assert [rates.wait("192.0.2.1") for _ in range(5)] == [None, None, None, pytest.approx(0.5), pytest.approx(0.5)]
    assert rates.wait("192.0.2.2") is None
    await trio.sleep(0.5)
    assert rates.wait("192.0.2.1") is None
    assert rates.wait("192.0.2.1") == pytest.approx(0.5)
    await trio.sleep(100)
    assert [rates.wait("192.0.2.1") is None for _ in range(4)] == [True, True, True, False]


async def test_number_of_tracked_addresses_is_bounded(autojump_clock: trio.testing.MockClock) -> None:
    rates = OwnerRates(rate=1, burst=1, max_owners=10)
    for number in range(1000):
        assert rates.wait(f"198.51.{number // 256}.{number % 256}") is None
        assert rates.wait("192.0.2.1") is None if number == 0 else rates.wait("192.0.2.1") is not None
    assert len(rates) == 10


async def test_requests_over_the_rate_of_an_address_are_refused(start: Starter) -> None:
    server = await start(limits=HTTPLimits(address_rate=0.01, address_burst=3))
    answers = [await server.client.modern("echo") for _ in range(5)]
    assert [each.status_code for each in answers] == [200, 200, 200, 429, 429]
    assert 50 <= int(answers[-1].headers["retry-after"]) <= 100
    assert answers[-1].json()["error"]["message"] == "too many requests from this address"
    # The rate applies to every path.
    assert (await server.client.http.get("/nothing")).status_code == 429
    assert (await server.client.http.get("/healthz")).status_code == 429
    with pytest.raises(Refused) as refused:
        await Socket.open(server.port, upgrade(server.port, "/ws"))
    assert refused.value.status == 429
    assert server.app.exchanges == 0


async def test_rate_behind_a_proxy_is_limited_per_client_address(start: Starter) -> None:
    guard = FunctionGuard(lambda headers: Principal(subject="someone"))
    proxies = Proxies.of(["127.0.0.1"])
    server = await start(limits=HTTPLimits(address_rate=0.01, address_burst=1), proxies=proxies, guard=guard)

    async def ask(*forwarded: str) -> int:
        message = call("echo", version="2026-07-28")
        headers = [*modern_headers(message).items(), *[(XFF, each) for each in forwarded]]
        return (await server.client.http.post("/mcp", json=message, headers=headers)).status_code

    assert await ask("203.0.113.1") == 200
    assert await ask("203.0.113.1") == 429
    assert await ask("203.0.113.99, 203.0.113.1") == 429, "what the client writes itself helps nothing"
    assert await ask("203.0.113.1", "203.0.113.2") == 200
    assert await ask("2001:db8::1") == 200
    assert await ask("2001:db8::2") == 429
    assert await ask() == 200
    assert [each.address for each in guard.seen] == ["203.0.113.1", "203.0.113.2", "2001:db8::1", "127.0.0.1"]


async def test_scheme_behind_a_proxy_reaches_the_guard(start: Starter) -> None:
    guard = FunctionGuard(lambda headers: Principal(subject="someone"))
    server = await start(proxies=Proxies.of(["127.0.0.1"]), guard=guard)
    await server.client.modern("echo", x_forwarded_proto="https", x_forwarded_for="203.0.113.1")
    await server.client.modern("echo")
    assert [each.url.partition(":")[0] for each in guard.seen] == ["https", "http"]


async def test_forwarded_address_of_an_untrusted_client_is_ignored(start: Starter) -> None:
    server = await start(limits=HTTPLimits(address_rate=0.01, address_burst=1))
    assert (await server.client.modern("echo", x_forwarded_for="203.0.113.1")).status_code == 200
    assert (await server.client.modern("echo", x_forwarded_for="203.0.113.2")).status_code == 429


@pytest.mark.skipif(sys.platform == "win32", reason="no Unix sockets")
async def test_proxy_on_a_unix_socket_is_trusted(tmp_path: Path) -> None:
    seen: list[Mapping[str, str]] = []

    def judge(headers: Mapping[str, str]) -> Principal | None:
        seen.append(headers)
        return None

    guard = FunctionGuard(judge)
    path = tmp_path / "mcp.sock"
    options = HTTPOptions(auth=guard, address_rate=0.01, address_burst=1, forwarded=["unix"])
    shutdown = trio.Event()
    async with trio.open_nursery() as nursery:
        sockets = HTTPSockets(bind=[f"unix:{path}"])
        serve = partial(serve_http, Server(), options=options, sockets=sockets, shutdown=shutdown)
        await nursery.start(serve)
        transport = httpx2.AsyncHTTPTransport(uds=str(path))
        async with httpx2.AsyncClient(transport=transport, base_url="http://localhost", timeout=60) as http:
            message = {"jsonrpc": "2.0", "id": 1, "method": "server/discover", "params": {}}

            async def ask(**headers: str) -> int:
                named = {"accept": ACCEPT} | {name.replace("_", "-"): value for name, value in headers.items()}
                return (await http.post("/mcp", json=message, headers=named)).status_code

            assert await ask(x_forwarded_for="203.0.113.1") != 429
            assert await ask(x_forwarded_for="203.0.113.1") == 429
            # The proxy itself has no address, so no rate applies to it.
            assert {await ask() for _ in range(3)} != {429}
        shutdown.set()
    assert [each.address for each in guard.seen] == ["203.0.113.1", None, None, None]
