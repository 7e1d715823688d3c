"""Links, tokens and sessions that open the console, and which forms it accepts."""

from __future__ import annotations

import logging
import time
from pathlib import Path

import pytest
import trio

from mcptrio.abc import RequestHead
from mcptrio.serve.auth_config import guard_of
from mcptrio.serve.config import load_config
from tests.auth.server_parts import ISSUER, OTHER_KEY, RESOURCE, Clock, Issuer

from .conftest import Tokens, opened


async def test_link_opens_the_console_once() -> None:
    async with opened() as site:
        first = site.link
        assert (await site.get()).status_code == 401

        done = await site.http.get(first)

        cookie = done.headers["set-cookie"]
        assert done.status_code == 303
        assert {"HttpOnly", "SameSite=Strict", "Path=/console"} <= {part.strip() for part in cookie.split(";")}
        assert (await site.get()).status_code == 200
        # The next one is announced, and the first one is used up.
        assert site.link != first
        site.http.cookies.clear()
        again = await site.http.get(first)
        assert again.status_code == 401
        assert "was used before" in again.text
        assert "set-cookie" not in again.headers


@pytest.mark.parametrize("path", ["", "tree", "sessions", "live/now", "live/tree", "nothing", "?token=", "?token=x"])
async def test_page_needs_a_session(path: str) -> None:
    async with opened() as site:
        for cookie in (None, "x", "é".encode("latin-1").decode("latin-1")):
            headers = {} if cookie is None else {"Cookie": f"mcptrio_console_{site.url.rsplit(':', 1)[1]}={cookie}"}
            answer = await site.get(path, headers={name: value.encode() for name, value in headers.items()})

            assert answer.status_code == 401
            assert answer.headers["content-type"].endswith("; charset=utf-8")
            assert "data-live" not in answer.text
            assert "form_token" not in answer.text


async def test_signing_out_ends_the_session() -> None:
    async with opened() as site:
        await site.enter()
        kept = dict(site.http.cookies)

        assert (await site.act("leave")).status_code == 303

        site.http.cookies.update(kept)
        assert (await site.get()).status_code == 401


@pytest.mark.parametrize(
    "headers",
    [
        {"Origin": "https://evil.example"},
        {"Origin": "null"},
        {"Origin": "http://127.0.0.1:1"},
        {"Sec-Fetch-Site": "cross-site"},
        {"Sec-Fetch-Site": "same-site"},
    ],
)
async def test_form_of_another_origin_is_refused(headers: dict[str, str]) -> None:
    async with opened() as site:
        await site.enter()

        answer = await site.act("end", session="1", headers=headers)

        assert answer.status_code == 403
        assert "Origin" in answer.text


@pytest.mark.parametrize("token", ["", "x", "ü"])
async def test_form_without_its_token_is_refused(token: str) -> None:
    async with opened() as site:
        await site.enter()

        answer = await site.act("end", session="1", form_token=token)

        assert answer.status_code == 403


async def test_form_without_a_session_is_refused() -> None:
    async with opened() as site:
        await site.enter()
        token = await site.form_token()
        site.http.cookies.clear()

        answer = await site.http.post(f"{site.console}actions/end", data={"form_token": token, "session": "1"})

        assert answer.status_code == 401


async def test_unknown_host_is_refused() -> None:
    async with opened(is_host_served=lambda host: host == "shop.example") as site:
        assert (await site.http.get(site.link)).status_code == 421
        assert (await site.http.get(site.link, headers={"Host": "shop.example"})).status_code == 303


async def test_every_response_has_a_strict_policy() -> None:
    async with opened() as site:
        answers = [await site.get(), await site.get("console.js"), await site.get("nothing/at/all")]
        await site.enter()
        answers += [await site.get(path) for path in ("", "tree", "sessions", "nothing")]

        for answer in answers:
            policy = answer.headers["content-security-policy"]
            assert policy.startswith("default-src 'none'; style-src 'self'; script-src 'self';")
            assert "frame-ancestors 'none'" in policy
            assert answer.headers["x-content-type-options"] == "nosniff"
            assert answer.headers["referrer-policy"] == "same-origin"


async def test_read_only_console_shows_everything_and_changes_nothing() -> None:
    async with opened(read_only=True) as site:
        await site.enter()

        page = await site.get("tree")
        answer = await site.act("end", session="1")

        assert page.status_code == 200
        assert "actions/end" not in page.text
        assert answer.status_code == 403


@pytest.mark.parametrize(("token", "status"), [("good", 303), ("weak", 401), ("bad", 401), ("", 401), ("a\nb", 401)])
async def test_access_token_with_the_scope_opens_the_console(
    token: str, status: int, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    async with opened(guard=Tokens(), scope="console") as site:
        assert "access token" in (await site.get()).text

        answer = await site.http.post(f"{site.console}sign_in", data={"token": token}, headers={"Origin": site.url})

        assert answer.status_code == status
        assert ("expected a token with the scope console" in caplog.text) == (token == "weak")
        if status == 303:
            assert await site.note("end", session="999") == "The session had already ended."
            assert "end (by ada): The session had already ended." in caplog.text


async def test_signed_token_of_the_configured_issuer_opens_the_console(
    tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.INFO)
    (tmp_path / "mcptrio.toml").write_text(f'[auth]\nresource = "{RESOURCE}"\nissuers = ["{ISSUER}"]\n')
    issuer = Issuer(Clock(time.time()))
    guard = guard_of(load_config(tmp_path / "mcptrio.toml"), fetch=issuer, environ={})
    scope, now = "read console", int(issuer.clock())
    wrong = [
        issuer.token(),
        issuer.token(scope=scope, exp=now - 600),
        issuer.token(scope=scope, aud="https://other.example/mcp"),
        issuer.token(OTHER_KEY, scope=scope),
    ]
    async with opened(guard=guard, scope="console") as site:

        async def sign_in(token: str) -> int:
            fields, headers = {"token": token}, {"Origin": site.url}
            return (await site.http.post(f"{site.console}sign_in", data=fields, headers=headers)).status_code

        assert [await sign_in(each) for each in wrong] == [401] * 4
        assert (await site.get()).status_code == 401

        token = issuer.token(scope=scope)
        assert await sign_in(token) == 303
        assert await site.note("end", session="999") == "The session had already ended."

    assert "end (by ada): The session had already ended." in caplog.text
    assert token not in caplog.text


async def test_session_ends_with_its_token(autojump_clock: trio.testing.MockClock) -> None:
    from mcptrio_console.access import ConsoleAccess

    tokens = Tokens()
    access = ConsoleAccess(lambda _token: None, tokens, "console")  # type: ignore[arg-type]
    head = RequestHead(method="POST", url="", headers={"authorization": ["Bearer good"]})
    cookie = await access.sign_in("good", head)

    assert await access.visitor_of(cookie) is not None
    await trio.sleep(60)
    assert await access.visitor_of(cookie) is not None, "the token is still accepted"
    tokens.is_revoked = True
    assert await access.visitor_of(cookie) is not None, "it is verified once a minute"
    await trio.sleep(60)
    assert await access.visitor_of(cookie) is None


async def test_oldest_browser_is_signed_out_when_there_are_too_many() -> None:
    from mcptrio_console.access import ConsoleAccess

    tokens: list[str] = []
    access = ConsoleAccess(tokens.append, None, None)
    access.renew_link()
    cookies = [access.redeem(tokens[-1], None) for _ in range(17)]

    assert await access.visitor_of(cookies[0]) is None
    assert all([await access.visitor_of(cookie) for cookie in cookies[1:]])
