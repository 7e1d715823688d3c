"""The redirect of a browser to a real loopback port, and hostile requests to that port."""

from __future__ import annotations

import socket
import sys
import webbrowser
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

import pytest
import trio
from attrs import define, field

from mcptrio.auth.client.loopback import LoopbackRedirects
from mcptrio.auth.client.redirects import OwnRedirects, Redirect
from mcptrio.errors import AuthorizationError
from tests.http.web import eventually

__all__: list[str] = []

URL = "https://login.example.com/authorize?client_id=a&state=st%2Dte"


async def get(uri: str, query: str, *, method: str = "GET", host: str | None = None) -> tuple[int, str]:
    """Request the page like a browser, and return status and text."""
    parsed_url = urlsplit(uri)
    stream = await trio.open_tcp_stream(parsed_url.hostname or "", parsed_url.port or 0)
    async with stream:
        head = f"{method} {parsed_url.path}{query} HTTP/1.1\r\nHost: {host or parsed_url.netloc}\r\n\r\n"
        await stream.send_all(head.encode())
        data = b""
        while part := await stream.receive_some():
            data += part
    head, _, body = data.decode().partition("\r\n\r\n")
    if "Content-Security-Policy: default-src 'none'" not in head:
        assert "400" in head.split("\r\n")[0]
    return int(head.split(" ")[1]), body


@define
class RecordedRedirects:
    """Redirects whose address is recorded instead of printed."""

    shown: list[str] = field(factory=list)
    ready: trio.Event = field(factory=trio.Event)

    def show(self, url: str) -> None:
        self.shown.append(url)
        self.ready.set()


async def test_redirect_is_received_and_the_port_closed() -> None:
    browser = RecordedRedirects()
    result: list[str] = []
    async with LoopbackRedirects(show=browser.show, program="<Notes>").open((), None) as redirect:
        assert urlsplit(redirect.uri).hostname == "127.0.0.1"

        async def authorize() -> None:
            result.append(await redirect.authorize(URL))

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(authorize)
                await browser.ready.wait()
                status, page = await get(redirect.uri, "?state=st-te&code=abc&iss=https%3A%2F%2Fx")

    assert browser.shown == [URL]
    assert result == [f"{redirect.uri}?state=st-te&code=abc&iss=https%3A%2F%2Fx"]
    assert status == 200
    assert '<html lang="en">' in page
    assert "<title>" in page
    assert "&lt;Notes&gt;" in page
    assert "abc" not in page


@pytest.mark.parametrize(
    ("query", "options", "status"),
    [
        ("?state=other&code=evil", {}, 400),
        ("?code=evil", {}, 400),
        ("?state=st-te&state=st-te&code=evil", {}, 400),
        ("?" + "&".join("state=x" for _ in range(100)), {}, 400),
        ("/other?state=st-te&code=evil", {}, 404),
        ("?state=st-te&code=evil", {"host": "evil.example"}, 404),
        ("?state=st-te&code=evil", {"host": "localhost"}, 404),
        ("?state=st-te&code=evil", {"method": "POST"}, 405),
    ],
)
async def test_foreign_request_to_the_redirect_is_ignored(query: str, options: dict[str, Any], status: int) -> None:
    browser = RecordedRedirects()
    result: list[str] = []
    async with LoopbackRedirects(show=browser.show).open((), None) as redirect:

        async def authorize() -> None:
            result.append(await redirect.authorize(URL))

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(authorize)
                await browser.ready.wait()
                seen, page = await get(redirect.uri, query, **options)
                assert (seen, "evil" in page) == (status, False)
                assert result == []
                await get(redirect.uri, "?state=st-te&error=access_denied")

    assert result == [f"{redirect.uri}?state=st-te&error=access_denied"]


async def test_hostile_connections_do_not_block_the_redirect() -> None:
    """Connections that are idle, send invalid data, or send too much: a few more than the limit."""
    browser = RecordedRedirects()
    result: list[str] = []
    async with LoopbackRedirects(show=browser.show).open((), None) as redirect:
        parsed_url = urlsplit(redirect.uri)

        async def authorize() -> None:
            result.append(await redirect.authorize(URL))

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(authorize)
                await browser.ready.wait()
                streams = [await trio.open_tcp_stream("127.0.0.1", parsed_url.port or 0) for _ in range(12)]
                await streams[0].send_all(b"\x16\x03\x01\x00\xff\r\n\r\n")
                await streams[1].send_all(b"GET / HTTP/1.1\r\nHost: x\r\n")
                try:
                    await streams[2].send_all(b"GET /" + b"a" * 100_000)
                except trio.BrokenResourceError:
                    pass
                await streams[3].aclose()
                await get(redirect.uri, "?state=st-te&code=abc")
        for stream in streams:
            await trio.aclose_forcefully(stream)

    assert len(result) == 1


async def test_browser_that_disconnects_before_the_page_is_tolerated() -> None:
    browser = RecordedRedirects()
    result: list[str] = []
    async with LoopbackRedirects(show=browser.show).open((), None) as redirect:
        parsed_url = urlsplit(redirect.uri)

        async def authorize() -> None:
            result.append(await redirect.authorize(URL))

        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(authorize)
                await browser.ready.wait()
                raw = socket.create_connection(("127.0.0.1", parsed_url.port or 0))
                raw.sendall(f"GET /callback?state=st-te&code=a HTTP/1.1\r\nHost: {parsed_url.netloc}\r\n\r\n".encode())
                raw.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, b"\x01\x00\x00\x00\x00\x00\x00\x00")
                raw.close()

    assert len(result) <= 1


async def test_missing_redirect_times_out() -> None:
    async with LoopbackRedirects(show=lambda url: None, timeout=0.05).open((), None) as redirect:
        with pytest.raises(AuthorizationError, match=r"no redirect .* within 0\.05 s; "):
            await redirect.authorize(URL)


async def test_authorization_url_is_printed(capsys: pytest.CaptureFixture[str]) -> None:
    async with LoopbackRedirects(timeout=0.05).open((), None) as redirect:
        with pytest.raises(AuthorizationError):
            await redirect.authorize(URL)
    printed = capsys.readouterr()

    assert printed.out == ""
    assert f"  {URL}\n" in printed.err


@pytest.mark.parametrize("url", ["javascript:alert(1)", "file:///etc/passwd", "http://login.example.com/?state=a"])
async def test_unsafe_authorization_url_is_not_opened(url: str, capsys: pytest.CaptureFixture[str]) -> None:
    async def send(url: str) -> str:
        raise AssertionError("not to be called")

    async with (
        LoopbackRedirects().open((), None) as loopback,
        OwnRedirects(uri="https://a.example/", send=send).open((), None) as own,
    ):
        for redirect in (loopback, own):
            with pytest.raises(AuthorizationError, match="authorization_endpoint: "):
                await redirect.authorize(url)
    assert capsys.readouterr().err == ""


# --- ports


async def uri_of(
    redirects: LoopbackRedirects, registered: tuple[str, ...] = (), issuer: str | None = "https://login.example.com"
) -> str:
    async with redirects.open(registered, issuer) as redirect:
        return redirect.uri


async def test_registered_port_is_used_again() -> None:
    before = await uri_of(LoopbackRedirects())
    rubbish = ("https://app.example.com/callback", "http://10.0.0.1:80/callback", "http://127.0.0.1:1x/callback")

    assert await uri_of(LoopbackRedirects(), ("http://127.0.0.1/callback", before)) == before
    assert await uri_of(LoopbackRedirects(path="/other"), (before,)) != before
    assert (await uri_of(LoopbackRedirects(), rubbish)).startswith("http://127.0.0.1:")


async def test_every_authorization_server_has_a_separate_redirect() -> None:
    """Otherwise a response of one could be accepted as that of another (RFC 9700 section 4.4.2.2)."""
    paths = [
        urlsplit(await uri_of(LoopbackRedirects(), issuer=issuer)).path
        for issuer in ("https://a.example", "https://b.example", "https://a.example", None)
    ]

    assert paths[0] == paths[2]
    assert len(set(paths)) == 3
    assert paths[3] == "/callback"
    assert len(paths[0].removeprefix("/callback/")) == 16


async def test_occupied_registered_port_is_replaced() -> None:
    async with LoopbackRedirects().open((), None) as first, LoopbackRedirects().open((first.uri,), None) as second:
        assert first.uri != second.uri


async def test_configured_port_is_used_or_refused_if_occupied() -> None:
    async with LoopbackRedirects().open((), None) as taken:
        port = urlsplit(taken.uri).port or 0
        with socket.socket(socket.AF_INET6) if socket.has_ipv6 else socket.socket() as other:
            try:
                other.bind(("::1", port) if socket.has_ipv6 else ("127.0.0.2", port))
                other.listen()
            except OSError:
                pass  # the configured port has no fallback
            with pytest.raises(AuthorizationError, match="expected a free port on the loopback interface"):
                await uri_of(LoopbackRedirects(port=port))
    assert urlsplit(await uri_of(LoopbackRedirects(port=port))).port == port


@pytest.mark.parametrize("options", [{"port": 70000}, {"path": "callback"}, {"path": "/a?b"}, {"timeout": 0}])
def test_invalid_redirect_options_are_refused(options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match=r"'(port|path|timeout)' must"):
        LoopbackRedirects(**options)


# --- browsers


@pytest.fixture
def browser(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A program that ``$BROWSER`` names; it records the URL."""
    script, output = tmp_path / "browser.py", tmp_path / "said"
    script.write_text(f"import os, sys\nopen({str(output)!r} + '~', 'w').write(sys.argv[1])\n")
    with script.open("a") as file:
        file.write(f"os.rename({str(output)!r} + '~', {str(output)!r})\n")
    monkeypatch.setenv("BROWSER", f"{sys.executable} {script} %s")
    monkeypatch.setattr(webbrowser, "_tryorder", None)
    return output


@pytest.mark.parametrize("consents", [True, False])
async def test_browser_is_opened_only_with_consent(browser: Path, consents: bool) -> None:
    asked: list[str] = []

    async def consent(url: str) -> bool:
        asked.append(url)
        await trio.lowlevel.checkpoint()
        return consents

    redirects = LoopbackRedirects(show=lambda url: None, consent=consent)
    async with redirects.open((), None) as redirect:
        with trio.fail_after(60):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(authorize_there, redirect)
                if consents:
                    await eventually(browser.exists)
                else:
                    await trio.testing.wait_all_tasks_blocked(0.05)
                await get(redirect.uri, "?state=st-te")

    assert asked == [URL]
    assert [path.read_text() for path in browser.parent.glob("said")] == [URL] * consents


async def authorize_there(redirect: Redirect) -> None:
    await redirect.authorize(URL)


async def test_redirect_is_accepted_before_the_user_answers_the_consent() -> None:
    async def consent(url: str) -> bool:
        await trio.sleep_forever()
        return True

    async with LoopbackRedirects(show=lambda url: None, consent=consent).open((), None) as redirect:
        with trio.fail_after(30):
            async with trio.open_nursery() as nursery:
                nursery.start_soon(authorize_there, redirect)
                await get(redirect.uri, "?state=x")
                await get(redirect.uri, "?state=st-te")


@pytest.mark.parametrize(
    ("uri", "kind"),
    [
        ("https://app.example.com/back", "web"),
        ("http://127.0.0.1:1/back", "native"),
        ("http://localhost:1/back", "native"),
        ("com.example.app:/back", "native"),
    ],
)
def test_application_type_follows_from_the_redirect_uri(uri: str, kind: str) -> None:
    async def send(url: str) -> str:
        return url

    assert OwnRedirects(uri=uri, send=send).application_type == kind
    assert LoopbackRedirects().application_type == "native"
