"""How a client connects: TLS, proxies, and the environment variables that name them."""

from __future__ import annotations

import ipaddress
import ssl
from base64 import b64encode
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pytest
import trio
from cryptography import x509
from cryptography.hazmat.primitives import hashes, serialization
from cryptography.hazmat.primitives.asymmetric import ec
from cryptography.x509.oid import NameOID

from mcptrio.errors import ConfigError, ConnectionClosed, RequestFailed
from mcptrio.http.client.dialer import Dialing, find_proxy
from mcptrio.http.client.endpoint import HTTPEndpoint
from mcptrio.http.client.link import open_http_link
from mcptrio.protocol.messages import Response

from .web import MODERN, ReceivedRequest, Wire, answer, call, serving

__all__: list[str] = []

HOST = "mcp.test"
"""Only the proxy can resolve this name."""

VARIABLES = ("HTTP_PROXY", "HTTPS_PROXY", "ALL_PROXY", "NO_PROXY", "SSL_CERT_FILE", "SSL_CERT_DIR", "REQUEST_METHOD")


@pytest.fixture(autouse=True)
def environment(monkeypatch: pytest.MonkeyPatch) -> pytest.MonkeyPatch:
    for variable in VARIABLES:
        monkeypatch.delenv(variable, raising=False)
        monkeypatch.delenv(variable.lower(), raising=False)
    return monkeypatch


@pytest.fixture(scope="module")
def certificate(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A key and a self-signed certificate for this machine and :data:`HOST`."""
    key = ec.generate_private_key(ec.SECP256R1())
    name = x509.Name([x509.NameAttribute(NameOID.COMMON_NAME, "mcptrio tests")])
    now = datetime.now(UTC)
    made = (
        x509.CertificateBuilder()
        .subject_name(name)
        .issuer_name(name)
        .public_key(key.public_key())
        .serial_number(x509.random_serial_number())
        .not_valid_before(now - timedelta(days=1))
        .not_valid_after(now + timedelta(days=1))
        .add_extension(
            x509.SubjectAlternativeName(
                [x509.IPAddress(ipaddress.ip_address("127.0.0.1")), x509.DNSName(HOST), x509.DNSName("localhost")]
            ),
            critical=False,
        )
        .add_extension(x509.BasicConstraints(ca=True, path_length=None), critical=True)
        .sign(key, hashes.SHA256())
    )
    path = tmp_path_factory.mktemp("tls") / "both.pem"
    path.write_bytes(
        key.private_bytes(serialization.Encoding.PEM, serialization.PrivateFormat.PKCS8, serialization.NoEncryption())
        + made.public_bytes(serialization.Encoding.PEM)
    )
    return path


@pytest.fixture
def server_tls(certificate: Path) -> ssl.SSLContext:
    context = ssl.SSLContext(ssl.PROTOCOL_TLS_SERVER)
    context.load_cert_chain(certificate)
    return context


async def echo(seen: ReceivedRequest, wire: Wire) -> None:
    await wire.reply(answer(seen, host=seen.headers["host"]))


# TLS


async def test_certificate_of_a_private_authority_is_accepted(certificate: Path, server_tls: ssl.SSLContext) -> None:
    tls = ssl.create_default_context(cafile=certificate)
    async with serving(echo, ssl=server_tls) as web:
        async with open_http_link(f"https://127.0.0.1:{web.port}/", print, dialing=Dialing(tls=tls)) as link:
            for id in range(3):
                reply = await link.exchange(call(id=id), MODERN)
                assert reply == Response(id, {"host": f"127.0.0.1:{web.port}"})
        assert web.connections == 1


async def test_authority_in_ssl_cert_file_is_trusted(
    certificate: Path, server_tls: ssl.SSLContext, environment: pytest.MonkeyPatch
) -> None:
    environment.setenv("SSL_CERT_FILE", str(certificate))
    async with serving(echo, ssl=server_tls) as web:
        url = f"https://127.0.0.1:{web.port}/"
        async with open_http_link(url, print) as link:
            assert isinstance(await link.exchange(call(), MODERN), Response)
        async with open_http_link(url, print, dialing=Dialing(trust_env=False)) as link:
            with pytest.raises(RequestFailed, match=r"no TLS with 127.0.0.1"):
                await link.exchange(call(), MODERN)


async def test_untrusted_certificate_fails_the_request(server_tls: ssl.SSLContext) -> None:
    async with serving(echo, ssl=server_tls) as web:
        async with open_http_link(f"https://127.0.0.1:{web.port}/", print) as link:
            with pytest.raises(RequestFailed, match=r"no TLS with 127.0.0.1:.*: self.signed certificate") as caught:
                await link.exchange(call(), MODERN)
    assert not caught.value.delivered
    assert web.seen == []


async def test_missing_ssl_cert_file_fails_the_request(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("SSL_CERT_FILE", "/no/such/file.pem")
    async with serving(echo) as web:
        async with open_http_link(f"https://127.0.0.1:{web.port}/", print) as link:
            with pytest.raises(RequestFailed, match=r"no certificates can be read from /no/such/file.pem"):
                await link.exchange(call(), MODERN)


async def test_tls_to_a_plain_http_server_fails_the_request() -> None:
    async def answer_in_plain_text(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.send_all(b"HTTP/1.1 400 Bad Request\r\n\r\n")
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, answer_in_plain_text, 0)
        port = listeners[0].socket.getsockname()[1]
        async with open_http_link(f"https://127.0.0.1:{port}/", print) as link:
            with trio.fail_after(30), pytest.raises(RequestFailed, match=r"no TLS with"):
                await link.exchange(call(), MODERN)
        nursery.cancel_scope.cancel()


async def test_closing_the_link_fails_pending_tls_requests(certificate: Path, server_tls: ssl.SSLContext) -> None:
    tls = ssl.create_default_context(cafile=certificate)
    waiting = trio.Event()

    async def never(seen: ReceivedRequest, wire: Wire) -> None:
        waiting.set()
        await wire.wait_closed()

    async def ask() -> None:
        with pytest.raises(ConnectionClosed):
            await link.exchange(call(), MODERN)

    with trio.fail_after(30):
        async with serving(never, ssl=server_tls) as web, trio.open_nursery() as nursery:
            async with open_http_link(f"https://127.0.0.1:{web.port}/", print, dialing=Dialing(tls=tls)) as link:
                nursery.start_soon(ask)
                await waiting.wait()


# Proxies


class Proxy:
    """A proxy that connects to the same server for every requested host."""

    def __init__(self, to: int) -> None:
        self.to = to
        self.port = 0
        self.heads: list[bytes] = []
        self.status = b"200 Fine"

    @property
    def url(self) -> str:
        return f"http://me:p%40ss@127.0.0.1:{self.port}"

    async def handle(self, client: trio.SocketStream) -> None:
        async with client:
            data = await client.receive_some()
            head, _, _ = bytes(data).partition(b"\r\n\r\n")
            self.heads.append(head)
            async with await trio.open_tcp_stream("127.0.0.1", self.to) as server:
                if head.startswith(b"CONNECT"):
                    await client.send_all(b"HTTP/1.1 " + self.status + b"\r\nVia: x\r\n\r\n")
                else:
                    await server.send_all(data)
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self.forward, client, server, nursery)
                    nursery.start_soon(self.forward, server, client, nursery)

    async def forward(self, source: trio.SocketStream, sink: trio.SocketStream, nursery: trio.Nursery) -> None:
        try:
            async for chunk in source:
                await sink.send_all(chunk)
        except trio.BrokenResourceError:
            pass
        nursery.cancel_scope.cancel()


@asynccontextmanager
async def proxied(to: int) -> AsyncIterator[Proxy]:
    proxy = Proxy(to)
    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, proxy.handle, 0)
        proxy.port = listeners[0].socket.getsockname()[1]
        yield proxy
        nursery.cancel_scope.cancel()


async def test_http_request_through_a_proxy_has_an_absolute_target(environment: pytest.MonkeyPatch) -> None:
    async with serving(echo) as web, proxied(web.port) as proxy:
        environment.setenv("http_proxy", proxy.url)
        async with open_http_link(f"http://{HOST}/mcp?x=1", print) as link:
            assert await link.exchange(call(), MODERN) == Response(1, {"host": HOST})

        assert web.seen[0].target == f"http://{HOST}/mcp?x=1"
        credentials = "Basic " + b64encode(b"me:p@ss").decode()
        assert web.seen[0].headers["proxy-authorization"] == credentials


async def test_tls_through_a_proxy_uses_a_tunnel(
    certificate: Path, server_tls: ssl.SSLContext, environment: pytest.MonkeyPatch
) -> None:
    """The proxy sees a tunnel; the server does not see the credentials for the proxy."""
    tls = ssl.create_default_context(cafile=certificate)
    async with serving(echo, ssl=server_tls) as web, proxied(web.port) as proxy:
        environment.setenv("HTTPS_PROXY", proxy.url)
        async with open_http_link(f"https://{HOST}/mcp", print, dialing=Dialing(tls=tls)) as link:
            for id in range(3):
                assert await link.exchange(call(id=id), MODERN) == Response(id, {"host": HOST})

        (head,) = proxy.heads
        assert head.startswith(b"CONNECT mcp.test:443 HTTP/1.1\r\n")
        assert b"Proxy-Authorization: Basic " + b64encode(b"me:p@ss") in head
        assert web.seen[0].target == "/mcp"
        assert "proxy-authorization" not in web.seen[0].headers


async def test_certificate_of_another_host_fails_the_request(
    certificate: Path, server_tls: ssl.SSLContext, environment: pytest.MonkeyPatch
) -> None:
    tls = ssl.create_default_context(cafile=certificate)
    async with serving(echo, ssl=server_tls) as web, proxied(web.port) as proxy:
        environment.setenv("HTTPS_PROXY", proxy.url)
        async with open_http_link("https://other.test/mcp", print, dialing=Dialing(tls=tls)) as link:
            with pytest.raises(RequestFailed, match=r"no TLS with other.test: Hostname mismatch") as caught:
                await link.exchange(call(), MODERN)
    assert not caught.value.delivered
    assert web.seen == []


async def test_refusal_of_a_proxy_fails_the_request(environment: pytest.MonkeyPatch) -> None:
    async with serving(echo) as web, proxied(web.port) as proxy:
        proxy.status = b"407 Proxy Authentication Required"
        environment.setenv("ALL_PROXY", proxy.url)
        async with open_http_link(f"https://{HOST}/mcp", print) as link:
            with pytest.raises(RequestFailed, match=r"refused to connect to mcp.test:443: HTTP 407") as caught:
                await link.exchange(call(), MODERN)
    assert not caught.value.delivered
    assert "p@ss" not in str(caught.value)


async def test_proxy_that_closes_the_connection_fails_the_request(environment: pytest.MonkeyPatch) -> None:
    async def hang_up(stream: trio.SocketStream) -> None:
        await stream.receive_some()
        await stream.aclose()

    async with trio.open_nursery() as nursery:
        listeners = await nursery.start(trio.serve_tcp, hang_up, 0)
        environment.setenv("ALL_PROXY", f"127.0.0.1:{listeners[0].socket.getsockname()[1]}")
        async with open_http_link(f"https://{HOST}/mcp", print) as link:
            with trio.fail_after(30), pytest.raises(RequestFailed, match=r"sent no readable answer"):
                await link.exchange(call(), MODERN)
        nursery.cancel_scope.cancel()


async def test_unsupported_proxy_scheme_is_refused(environment: pytest.MonkeyPatch) -> None:
    environment.setenv("ALL_PROXY", "socks5://me:secret@localhost:1080")
    with pytest.raises(ConfigError, match=r"ALL_PROXY: expected an http or https URL") as caught:
        async with open_http_link(f"https://{HOST}/", print):
            pass
    assert "secret" not in str(caught.value)
    async with open_http_link(f"https://{HOST}/", print, dialing=Dialing(trust_env=False)):
        pass


@pytest.mark.parametrize(
    ("url", "environment", "expected"),
    [
        ("http://a.example/", {"HTTP_PROXY": "http://p:1"}, "p:1"),
        ("http://a.example/", {"HTTP_PROXY": "p:1"}, "p:1"),
        ("http://a.example/", {"http_proxy": "http://p:1", "HTTP_PROXY": "http://q:1"}, "p:1"),
        ("http://a.example/", {"HTTPS_PROXY": "http://p:1"}, None),
        ("https://a.example/", {"HTTPS_PROXY": "https://p"}, "p"),
        ("https://a.example/", {"ALL_PROXY": "http://p:1"}, "p:1"),
        ("https://a.example/", {"HTTPS_PROXY": "  "}, None),
        ("http://a.example/", {"HTTP_PROXY": "http://p:1", "REQUEST_METHOD": "GET"}, None),
        ("http://a.example/", {"http_proxy": "http://p:1", "REQUEST_METHOD": "GET"}, "p:1"),
        ("http://localhost:8000/", {"ALL_PROXY": "http://p:1"}, None),
        ("http://127.8.8.8/", {"ALL_PROXY": "http://p:1"}, None),
        ("http://[::1]/", {"ALL_PROXY": "http://p:1"}, None),
        ("http://a.example/", {"ALL_PROXY": "http://p:1", "NO_PROXY": "*"}, None),
        ("http://a.example/", {"ALL_PROXY": "http://p:1", "NO_PROXY": "b.example, a.example"}, None),
        ("http://x.a.example/", {"ALL_PROXY": "http://p:1", "NO_PROXY": ".a.example"}, None),
        ("http://x.a.example/", {"ALL_PROXY": "http://p:1", "no_proxy": "*.A.example"}, None),
        ("http://xa.example/", {"ALL_PROXY": "http://p:1", "NO_PROXY": "a.example"}, "p:1"),
        ("http://a.example:81/", {"ALL_PROXY": "http://p:1", "NO_PROXY": "a.example:80"}, "p:1"),
        ("http://a.example/", {"ALL_PROXY": "http://p:1", "NO_PROXY": "a.example:80"}, None),
        ("http://10.1.2.3/", {"ALL_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, None),
        ("http://11.1.2.3/", {"ALL_PROXY": "http://p:1", "NO_PROXY": "10.0.0.0/8"}, "p:1"),
        ("http://[fd00::5]/", {"ALL_PROXY": "http://p:1", "NO_PROXY": "[fd00::5]"}, None),
        ("http://[fd00::5]/", {"ALL_PROXY": "http://p:1", "NO_PROXY": "fd00::/16"}, None),
        ("http://a.example/", {"ALL_PROXY": "http://p:1", "NO_PROXY": ",,  ,"}, "p:1"),
    ],
)
def test_proxy_is_chosen_from_the_environment(url: str, environment: dict[str, str], expected: str | None) -> None:
    proxy = find_proxy(HTTPEndpoint.parse(url), environment)

    assert (None if proxy is None else proxy.authority) == expected
