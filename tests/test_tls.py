"""HTTPS: certificates from files, reloaded when they change, and certificates of clients."""

from __future__ import annotations

import json
import logging
import os
import ssl
from collections.abc import AsyncIterator, Iterator
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import pytest
import trio
from cryptography import x509
from cryptography.x509.oid import NameOID
from trio.testing import MockClock

from mcptrio import Server, connect
from mcptrio.cli import main
from mcptrio.connecting.targets import Endpoint
from mcptrio.errors import ConfigError, RequestFailed
from mcptrio.http.engine.server import ConnectionLimits
from mcptrio.http.engine.server import serve_asgi as serve
from mcptrio.serve.http import HTTPSockets, serve_http
from mcptrio.serve.tls import Certificates, TLSFiles
from tests.certificate_authority import Authority, client_context, tls_files
from tests.processes import run, serving

__all__: list[str] = []

WAIT_TIMEOUT = 60.0
"""Seconds; only a failing test waits this long."""


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path, "authority")


async def tell_scope(scope: Any, receive: Any, send: Any) -> None:
    """Respond with the scope's TLS values; keep a WebSocket open."""
    if scope["type"] == "websocket":
        await send({"type": "websocket.accept"})
        while (await receive())["type"] != "websocket.disconnect":
            pass
    if scope["type"] == "http":
        body = json.dumps(scope["extensions"]["tls"]).encode()
        await send({"type": "http.response.start", "status": 200, "headers": [(b"content-length", b"%d" % len(body))]})
        await send({"type": "http.response.body", "body": body})


async def get(port: int, context: ssl.SSLContext) -> tuple[str, dict[str, Any]]:
    """Return the name on the server's certificate, and the values of the scope.

    Raises:
        trio.BrokenResourceError: The server refused the connection.
    """
    with trio.fail_after(WAIT_TIMEOUT):
        plain = await trio.open_tcp_stream("127.0.0.1", port)
        stream = trio.SSLStream(plain, context, server_hostname="localhost", https_compatible=True)
        async with stream:
            await stream.do_handshake()
            certificate: Any = stream.getpeercert()
            await stream.send_all(b"GET / HTTP/1.1\r\nhost: localhost\r\nconnection: close\r\n\r\n")
            answer = b""
            while data := await stream.receive_some():
                answer += data
    if not answer:
        # In TLS 1.3 the client learns only now that it was refused.
        raise trio.BrokenResourceError("the connection was closed instead of answered")
    report: dict[str, Any] = json.loads(answer.partition(b"\r\n\r\n")[2])
    return _common_name(certificate), report


def _common_name(certificate: Any) -> str:
    return next(value for part in certificate["subject"] for key, value in part if key == "commonName")


@asynccontextmanager
async def served(certificates: Certificates, **limits: Any) -> AsyncIterator[int]:
    async with trio.open_nursery() as nursery:

        async def start(*, task_status: Any) -> None:
            await serve(
                tell_scope,
                bind="127.0.0.1:0",
                tls=certificates.context,
                limits=ConnectionLimits(**limits),
                task_status=task_status,
            )

        [url] = await nursery.start(start)
        assert url.startswith("https://127.0.0.1:")
        yield int(url.rpartition(":")[2])
        nursery.cancel_scope.cancel()


@pytest.fixture
def delayed_autojump_clock() -> MockClock:
    """A clock that jumps when no data has arrived for a while, so that tests with deadlines pass on a slow machine."""
    return MockClock(autojump_threshold=0.2)


# Serving


async def test_scope_describes_tls(authority: Authority) -> None:
    certificates = Certificates(tls_files(authority.issue("server")))
    async with served(certificates) as port:
        name, response = await get(port, client_context(authority))

    assert name == "server"
    assert (response["tls_version"], response["client_cert_name"], response["client_cert_chain"]) == (0x0304, None, [])
    assert response["cipher_suite"] in {0x1301, 0x1302, 0x1303}


async def test_tls_before_1_2_is_refused(authority: Authority) -> None:
    certificates = Certificates(tls_files(authority.issue("server")))
    context = client_context(authority)
    context.maximum_version = ssl.TLSVersion.TLSv1_2
    old = client_context(authority)
    old.set_ciphers("ALL:@SECLEVEL=0")
    with pytest.warns(DeprecationWarning, match="TLSv1_1"):
        old.minimum_version = old.maximum_version = ssl.TLSVersion.TLSv1_1
    async with served(certificates) as port:
        _, response = await get(port, context)
        with pytest.raises(trio.BrokenResourceError):
            await get(port, old)

    assert response["tls_version"] == 0x0303


async def test_invalid_request_is_refused_over_tls_too(authority: Authority) -> None:
    with trio.fail_after(WAIT_TIMEOUT):
        async with served(Certificates(tls_files(authority.issue("one")))) as port:
            plain = await trio.open_tcp_stream("127.0.0.1", port)
            async with trio.SSLStream(
                plain, client_context(authority), server_hostname="localhost", https_compatible=True
            ) as stream:
                await stream.send_all(b"nonsense\r\n\r\n")
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 ")


async def test_websocket_over_tls_stays_open_while_pings_are_answered(
    authority: Authority, delayed_autojump_clock: MockClock
) -> None:
    ping, pong = b"\x89\x00", b"\x8a\x80\0\0\0\0"
    with trio.fail_after(WAIT_TIMEOUT):
        async with served(Certificates(tls_files(authority.issue("one"))), ping_interval=1) as port:
            plain = await trio.open_tcp_stream("127.0.0.1", port)
            async with trio.SSLStream(
                plain, client_context(authority), server_hostname="localhost", https_compatible=True
            ) as stream:
                await stream.send_all(
                    b"GET / HTTP/1.1\r\nhost: localhost\r\nupgrade: websocket\r\nconnection: upgrade\r\n"
                    b"sec-websocket-version: 13\r\nsec-websocket-key: AAAAAAAAAAAAAAAAAAAAAA==\r\n\r\n"
                )
                assert (await stream.receive_some()).startswith(b"HTTP/1.1 101 ")
                for _ in range(4):
                    assert await stream.receive_some() == ping
                    await stream.send_all(pong)
                assert await stream.receive_some() == ping
                assert await stream.receive_some() == b"", "this time there was no answer"


async def test_client_certificate_is_required_and_in_the_scope(authority: Authority, tmp_path: Path) -> None:
    unit = x509.NameAttribute(NameOID.ORGANIZATION_NAME, "Analytical, Ltd")
    ada = authority.issue("ada", unit)
    other = Authority(tmp_path, "other")
    certificates = Certificates(tls_files(authority.issue("server"), client_ca=authority.path))
    async with served(certificates) as port:
        _, response = await get(port, client_context(authority, ada))
        for shows in (None, other.issue("eve")):
            with pytest.raises(trio.BrokenResourceError):
                await get(port, client_context(authority, shows))

    assert response["client_cert_name"] == r"CN=ada,O=Analytical\, Ltd"
    assert response["client_cert_chain"] == [ada[0].read_text()]


async def test_failed_handshake_is_logged_with_its_reason(
    authority: Authority, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    """A few times for one address; and a client of plain HTTP gets an explanation."""
    caplog.set_level(logging.INFO, "mcptrio.http.server")
    certificates = Certificates(tls_files(authority.issue("server"), client_ca=authority.path))
    with trio.fail_after(WAIT_TIMEOUT):
        async with served(certificates) as port:
            for shows in (None, Authority(tmp_path, "other").issue("eve")):
                with pytest.raises(trio.BrokenResourceError):
                    await get(port, client_context(authority, shows))
            for _ in range(20):
                async with await trio.open_tcp_stream("127.0.0.1", port) as plain:
                    await plain.send_all(b"GET / HTTP/1.1\r\nhost: a\r\n\r\n")
                    received = b"".join([chunk async for chunk in plain])
                    assert received.startswith(b"HTTP/1.1 400 ")
                    assert received.endswith(b"this port speaks HTTPS\n")

    lines = [record.getMessage() for record in caplog.records if "TLS handshake" in record.getMessage()]
    assert all(line.startswith("TLS handshake with 127.0.0.1:") for line in lines)
    assert "peer did not return a certificate" in lines[0]
    assert "certificate verify failed: " in lines[1]
    assert "http request" in lines[2]
    assert len(lines) == 10
    assert "12 more lines like these were not logged" in caplog.text


async def test_slow_handshake_times_out(authority: Authority) -> None:
    certificates = Certificates(tls_files(authority.issue("server")))
    async with served(certificates, tls_timeout=0.2) as port:
        with trio.fail_after(WAIT_TIMEOUT):
            async with await trio.open_tcp_stream("127.0.0.1", port) as slow:
                assert await slow.receive_some() == b""


# Reloading


async def test_new_connections_get_the_new_certificate_and_old_ones_continue(authority: Authority) -> None:
    pair = authority.issue("server")
    certificates = Certificates(tls_files(pair))
    async with served(certificates) as port, trio.open_nursery() as nursery:
        nursery.start_soon(certificates.watch)
        plain = await trio.open_tcp_stream("127.0.0.1", port)
        old = trio.SSLStream(plain, client_context(authority), server_hostname="localhost", https_compatible=True)
        await old.do_handshake()
        renew(pair, authority.issue("renewed"))
        with trio.fail_after(WAIT_TIMEOUT):
            while (await get(port, client_context(authority)))[0] != "renewed":  # noqa: ASYNC110 - no event reports it
                await trio.sleep(0.05)
            await old.send_all(b"GET / HTTP/1.1\r\nhost: localhost\r\n\r\n")
            assert (await old.receive_some()).startswith(b"HTTP/1.1 200 ")
        await trio.aclose_forcefully(old)
        nursery.cancel_scope.cancel()


def renew(pair: tuple[Path, Path], new: tuple[Path, Path]) -> None:
    """Replace certificates like other tools do: write new files, then rename them."""
    for old, replacement in zip(pair, new, strict=True):
        os.replace(replacement, old)


async def test_client_authority_is_reloaded(authority: Authority, tmp_path: Path) -> None:
    """This applies also to a client that resumes an earlier TLS session."""
    other = Authority(tmp_path, "other")
    ada, bob = authority.issue("ada"), other.issue("bob")
    accepted = tmp_path / "accepted.pem"
    accepted.write_bytes(authority.path.read_bytes())
    certificates = Certificates(tls_files(authority.issue("server"), client_ca=accepted))
    of_ada, of_bob = client_context(authority, ada), client_context(authority, bob)
    async with served(certificates) as port:
        await get(port, of_ada)
        accepted.write_bytes(other.path.read_bytes())
        assert certificates.reload()
        assert (await get(port, of_bob))[1]["client_cert_name"] == "CN=bob"
        with pytest.raises(trio.BrokenResourceError):
            await get(port, of_ada)


def test_tls_sessions_are_not_resumed_with_client_certificates(authority: Authority) -> None:
    ada = authority.issue("ada")
    context = Certificates(tls_files(authority.issue("server"), client_ca=authority.path)).context
    theirs = client_context(authority, ada)
    first = _shake_hands(context, theirs)

    assert first.session is None or not first.session.has_ticket
    theirs.maximum_version = ssl.TLSVersion.TLSv1_2
    with pytest.raises(ssl.SSLError):
        _shake_hands(context, theirs)


def _shake_hands(server: ssl.SSLContext, theirs: ssl.SSLContext) -> ssl.SSLObject:
    """Perform a TLS handshake in memory, and return the client's side."""
    there, here = ssl.MemoryBIO(), ssl.MemoryBIO()
    ends = [
        theirs.wrap_bio(here, there, server_hostname="localhost"),
        server.wrap_bio(there, here, server_side=True),
    ]
    for _ in range(5):
        for end in ends:
            try:
                end.do_handshake()
            except ssl.SSLWantReadError:
                pass
    try:
        ends[0].read(1)
    except ssl.SSLWantReadError:
        pass
    return ends[0]


async def test_unusable_certificate_pair_is_ignored(authority: Authority, caplog: pytest.LogCaptureFixture) -> None:
    pair = authority.issue("server")
    certificates = Certificates(tls_files(pair))
    async with served(certificates) as port:
        for content in (authority.issue("foreign")[0].read_bytes(), b"half a cert", b""):
            pair[0].write_bytes(content)
            assert not certificates.reload()
            assert (await get(port, client_context(authority)))[0] == "server"

    assert caplog.text.count("certificate reload failed") == 3
    assert "key values mismatch" in caplog.text


async def test_unusable_certificate_pair_is_logged_once(
    authority: Authority, caplog: pytest.LogCaptureFixture, autojump_clock: MockClock
) -> None:
    pair = authority.issue("server")
    certificates = Certificates(tls_files(pair))
    async with trio.open_nursery() as nursery:
        nursery.start_soon(certificates.watch)
        pair[0].write_bytes(b"half a cert")
        await trio.sleep(60)
        nursery.cancel_scope.cancel()

    assert caplog.text.count("certificate reload failed") == 1


# Refusals at the start


def test_error_names_the_unusable_certificate_file(authority: Authority, tmp_path: Path) -> None:
    pair, foreign = authority.issue("server"), authority.issue("foreign")
    locked = authority.issue("locked", passphrase=b"open sesame")
    refused: list[tuple[TLSFiles, str]] = [
        (tls_files((tmp_path / "none.pem", pair[1])), "none.pem: the certificate cannot be read: No such file"),
        (tls_files((pair[0], tmp_path / "none.key")), "none.key: the key cannot be read: No such file"),
        (tls_files((pair[0], foreign[1])), "server.pem: expected a certificate in PEM, and its key in"),
        (tls_files(pair, client_ca=pair[1]), "server.key: expected certificates in PEM"),
        (tls_files(locked), "locked.key: the key is encrypted: expected a passphrase, got none"),
        (tls_files(locked, passphrase=lambda: b"wrong"), "locked.pem: expected a certificate in PEM"),
    ]
    for wrong, message in refused:
        with pytest.raises(ConfigError, match=message.replace(".", r"\.")) as error:
            Certificates(wrong)
        assert "sesame" not in str(error.value)


@contextmanager
def server_files(authority: Authority) -> Iterator[dict[str, str]]:
    certificate, key = authority.issue("server", passphrase=b"open sesame")
    (authority.folder / "pass").write_text("open sesame\n")
    yield {
        "MCPTRIO_HTTP_TLS_CERT": str(certificate),
        "MCPTRIO_HTTP_TLS_KEY": str(key),
        "MCPTRIO_HTTP_TLS_PASSPHRASE_FILE": "pass",
    }


def test_command_serves_https_to_clients_with_a_certificate(authority: Authority) -> None:
    ada, key = authority.issue("ada")
    folder = authority.folder
    (folder / "own.py").write_text("from mcptrio import tool\n\n@tool\ndef hello() -> str:\n    return 'hello'\n")
    with server_files(authority) as env:
        env["MCPTRIO_HTTP_TLS_CLIENT_CA"] = str(authority.path)
        with serving("--http", "--port=0", "--plugin=own.py", cwd=folder, env=env) as served:
            url = served.until(r"(?m)^serving (https://.*)$")[1]
            trust = {"MCPTRIO_CLIENT_TLS_CA": str(authority.path)}
            identity = {"MCPTRIO_CLIENT_TLS_CERT": str(ada), "MCPTRIO_CLIENT_TLS_KEY": str(key)}
            result = run("call", url, "hello", cwd=folder, **trust, **identity)
            without = run("call", url, "hello", cwd=folder, **trust)
            plain = run("list", url.replace("https:", "http:"), cwd=folder)
            untrusted = run("list", url, cwd=folder)

    assert (result.returncode, result.stdout.strip()) == (0, "hello"), result.stderr
    assert without.returncode != 0
    assert plain.stderr == f"mcptrio: HTTP 400: this port speaks HTTPS; use {url}\n"
    assert untrusted.stderr.endswith("set MCPTRIO_CLIENT_TLS_CA to the file with its authority's certificate\n")


@pytest.mark.parametrize(
    ("name", "message"),
    [
        ("MCPTRIO_HTTP_TLS_CERT", "MCPTRIO_HTTP_TLS_CERT: expected both tls_cert and tls_key, got one of them"),
        ("MCPTRIO_HTTP_TLS_CLIENT_CA", "MCPTRIO_HTTP_TLS_CLIENT_CA: expected tls_cert and tls_key with it"),
    ],
    ids=["half", "nothing"],
)
def test_invalid_tls_options_are_refused(
    name: str, message: str, monkeypatch: pytest.MonkeyPatch, capfd: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.setenv(name, "a.pem")
    monkeypatch.setattr("sys.argv", ["mcptrio", "serve", "--http"])
    with pytest.raises(SystemExit) as exited:
        main()

    assert exited.value.code == 2
    assert message in capfd.readouterr().err


# Our client


async def test_client_accepts_an_ssl_context(authority: Authority) -> None:
    certificates = Certificates(tls_files(authority.issue("server"), client_ca=authority.path))
    server = Server("secret")
    sockets = HTTPSockets(bind=["127.0.0.1:0"], tls=certificates.context)
    with trio.fail_after(WAIT_TIMEOUT):
        async with trio.open_nursery() as nursery:

            async def start(*, task_status: Any) -> None:
                await serve_http(server, sockets=sockets, task_status=task_status)

            [url] = await nursery.start(start)
            ada = client_context(authority, authority.issue("ada"))
            async with connect(Endpoint(url=url, tls=ada)) as connected:
                assert connected.server_info is not None
                assert connected.server_info.name == "secret"
            with pytest.raises(RequestFailed, match="no TLS with"):
                async with connect(Endpoint(url=url)):
                    pass
            nursery.cancel_scope.cancel()


async def test_slow_head_gets_408(authority: Authority, delayed_autojump_clock: MockClock) -> None:
    certificates = Certificates(tls_files(authority.issue("server")))
    with trio.fail_after(WAIT_TIMEOUT):
        async with served(certificates, header_timeout=1) as port:
            # Repeated, because a regression would show only in some of the connections.
            for _ in range(5):
                plain = await trio.open_tcp_stream("127.0.0.1", port)
                async with trio.SSLStream(
                    plain, client_context(authority), server_hostname="localhost", https_compatible=True
                ) as stream:
                    await stream.send_all(b"GET / HT")
                    assert (await stream.receive_some()).startswith(b"HTTP/1.1 408 ")
