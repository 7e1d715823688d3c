"""The headers that a link sends: the protocol's, the user's, and credentials."""

from __future__ import annotations

import logging
from base64 import b64encode
from collections.abc import Mapping
from typing import Any

import pytest
import trio
from attrs import define, field

from mcptrio.errors import AuthorizationError, RequestFailed, SessionLost
from mcptrio.http.client.link import open_http_link
from mcptrio.protocol.messages import ErrorResponse, Notification, Request, Response
from tests.error_codes import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND

from .web import (
    HANDSHAKE,
    MODERN,
    SESSION,
    ReceivedRequest,
    Wire,
    answer,
    begin,
    call,
    eventually,
    linked,
    serving,
    with_session,
)

__all__: list[str] = []


async def accept(seen: ReceivedRequest, wire: Wire) -> None:
    """Answer every request, and accept every other message."""
    if seen.method == "GET":
        await wire.reply(None, 405)
    elif "id" in seen.message and "method" in seen.message:
        await wire.reply(answer(seen))
    else:
        await wire.reply(None, 202)


def mcp_headers(seen: ReceivedRequest) -> dict[str, str]:
    return {name: value for name, value in seen.headers.items() if name.startswith("mcp-")}


async def test_each_message_is_sent_in_one_post() -> None:
    async with linked(with_session(accept)) as (link, web, _):
        await begin(link)
        await link.send(Notification("notifications/initialized"), HANDSHAKE)
        await link.exchange(call(), HANDSHAKE)
        await link.send(Response("s1", {"ok": 1}), HANDSHAKE)
        await link.send(ErrorResponse("s2", METHOD_NOT_FOUND, "no"), HANDSHAKE)

        assert [seen.method for seen in web.seen] == ["POST"] * 5
        assert web.seen[3].message == {"jsonrpc": "2.0", "id": "s1", "result": {"ok": 1}}
        for seen in web.seen:
            assert seen.target == "/mcp"
            assert seen.headers["host"] == f"127.0.0.1:{web.port}"
            assert seen.headers["accept"] == "application/json, text/event-stream"
            assert seen.headers["content-type"] == "application/json"
            assert seen.headers["accept-encoding"] == "identity"
            assert seen.headers["user-agent"] == "mcptrio"
            assert "cookie" not in seen.headers
        assert web.connections == 1


async def test_handshake_has_neither_version_nor_session() -> None:
    async with linked(with_session(accept)) as (link, web, _):
        await begin(link)
        await link.exchange(call(), HANDSHAKE)
        await begin(link)

        assert [mcp_headers(seen) for seen in web.of("POST")] == [
            {},
            {"mcp-session-id": SESSION, "mcp-protocol-version": HANDSHAKE.version},
            {},
        ]


async def test_per_request_revision_sends_all_headers_and_no_session_id() -> None:
    """This holds also if the server sends a session id."""

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply(answer(seen), mcp_session_id=SESSION)

    async with linked(handle) as (link, web, _):
        await link.exchange(call("echo"), MODERN)
        await link.exchange(Request(2, "resources/read", {"uri": "file:///ä"}), MODERN)
        await link.exchange(Request(3, "tools/list"), MODERN)
        await begin(link)
        await link.exchange(call("echo"), MODERN)

    version = {"mcp-protocol-version": MODERN.version}
    assert [mcp_headers(seen) for seen in web.of("POST")] == [
        {**version, "mcp-method": "tools/call", "mcp-name": "echo"},
        {
            **version,
            "mcp-method": "resources/read",
            "mcp-name": "=?base64?" + b64encode("file:///ä".encode()).decode() + "?=",
        },
        {**version, "mcp-method": "tools/list"},
        {},
        {**version, "mcp-method": "tools/call", "mcp-name": "echo"},
    ]
    assert len(web.of("DELETE")) == 1


async def test_annotated_arguments_are_sent_as_headers() -> None:
    arguments = {
        "where": {"region": "eu west"},
        "count": 42,
        "whole": 7.0,
        "half": 0.5,
        "flag": False,
        "nothing": None,
        "odd": " \ud800",
        "huge": 10**5000,
        "list": [1],
        "text": "=?base64?x?=",
    }
    param_headers = {name: (name,) for name in (*arguments, "missing")} | {
        "region": ("where", "region"),
        "deep": ("count", "x"),
    }
    async with linked(accept) as (link, web, _):
        await link.exchange(call("t", arguments), MODERN, param_headers=param_headers)

    params = {name: value for name, value in web.seen[0].headers.items() if name.startswith("mcp-param-")}
    assert params == {
        "mcp-param-region": "eu west",
        "mcp-param-count": "42",
        "mcp-param-whole": "7",
        "mcp-param-flag": "false",
        "mcp-param-odd": "=?base64?" + b64encode(" \ufffd".encode()).decode() + "?=",
        "mcp-param-text": "=?base64?" + b64encode(b"=?base64?x?=").decode() + "?=",
    }


async def test_parameter_header_name_with_a_line_break_is_refused() -> None:
    async with linked(accept) as (link, web, _):
        with pytest.raises(RequestFailed, match="cannot be written as HTTP") as caught:
            await link.exchange(call("t", {"a": "b"}), MODERN, param_headers={"x: y\r\nz": ("a",)})
        assert not caught.value.delivered
        assert web.seen == []
        await link.exchange(call(), MODERN)


# Sessions


@pytest.mark.parametrize("id", ["", "a b", "ä", "x" * 5000])
async def test_invalid_session_id_fails_the_handshake(id: str) -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply(answer(seen), mcp_session_id=id)

    async with linked(handle) as (link, _, _):
        with pytest.raises(RequestFailed, match="Mcp-Session-Id: expected"):
            await begin(link)


async def test_refused_handshake_starts_no_session() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        error = {"jsonrpc": "2.0", "id": seen.message["id"], "error": {"code": INVALID_PARAMS, "message": "no"}}
        await wire.reply(error, mcp_session_id=SESSION)

    async with linked(handle) as (link, web, _):
        await begin(link)
    assert web.of("DELETE") == []


async def test_session_is_deleted_when_the_link_closes() -> None:
    async with linked(with_session(accept)) as (link, web, _):
        await begin(link)
        link.start_listening(HANDSHAKE)

    (delete,) = web.of("DELETE")
    assert mcp_headers(delete) == {"mcp-session-id": SESSION, "mcp-protocol-version": HANDSHAKE.version}


async def test_slow_session_deletion_does_not_delay_closing(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "DELETE":
            await wire.wait_closed()
        else:
            await wire.reply(answer(seen), mcp_session_id=SESSION)

    monkeypatch.setattr("mcptrio.http.client.link.CLOSE_TIMEOUT", 0.1)
    async with serving(handle) as web:
        with trio.CancelScope() as scope:
            async with open_http_link(web.url, print) as link:
                await begin(link)
                scope.cancel()
                left = trio.current_time()
                await trio.sleep_forever()
        assert scope.cancelled_caught
        # The server waits for half a minute.
        assert trio.current_time() < left + 20
        assert len(web.of("DELETE")) == 1


@pytest.mark.parametrize("status", [400, 404, 405, 500])
async def test_refused_session_deletion_is_ignored(status: int) -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "DELETE":
            await wire.reply("no", status)
        else:
            await wire.reply(answer(seen), mcp_session_id=SESSION)

    async with linked(handle) as (link, _, _):
        await begin(link)


@pytest.mark.parametrize("use", ["exchange", "send"])
async def test_lost_session_is_reported_until_a_new_one_starts(use: str) -> None:
    """No request is sent meanwhile.

    The new session starts without the old id, and the old session is not deleted.
    """
    known = "s1"

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "POST" and seen.message["method"] == "initialize":
            await wire.reply(answer(seen), mcp_session_id=known)
        elif seen.headers["mcp-session-id"] != known:
            await wire.reply({"jsonrpc": "2.0", "id": None, "error": {"code": INVALID_REQUEST, "message": "gone"}}, 404)
        else:
            await accept(seen, wire)

    async def again() -> Any:
        if use == "exchange":
            return await link.exchange(call(), HANDSHAKE)
        return await link.send(Notification("notifications/x"), HANDSHAKE)

    async with linked(handle) as (link, web, _):
        await begin(link)
        await again()
        known = "s2"
        for _ in range(3):
            with pytest.raises(SessionLost) as caught:
                await again()
            assert not caught.value.delivered
            assert caught.value.status == 404
        assert len(web.seen) == 3
        await begin(link)
        await again()

    assert "mcp-session-id" not in web.seen[3].headers
    assert [seen.headers["mcp-session-id"] for seen in web.seen[4:]] == ["s2", "s2"]
    assert [seen.headers["mcp-session-id"] for seen in web.of("DELETE")] == ["s2"]


async def test_unknown_method_with_404_does_not_end_the_session() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        error = {
            "jsonrpc": "2.0",
            "id": seen.message["id"],
            "error": {"code": METHOD_NOT_FOUND, "message": "no such method"},
        }
        await wire.reply(error, 404)

    async with linked(with_session(handle)) as (link, _, _):
        await begin(link)
        for _ in range(2):
            with pytest.raises(RequestFailed, match="no such method") as caught:
                await link.exchange(call(), HANDSHAKE)
            assert not isinstance(caught.value, SessionLost)


@pytest.mark.parametrize(
    ("code", "message", "lost"),
    [
        (-32000, "Bad Request: No valid session ID provided", True),
        (-32000, "Bad Request: Server not initialized", False),
        (INVALID_PARAMS, "the session argument is missing", False),
    ],
)
async def test_400_means_a_lost_session_only_if_its_message_says_so(code: int, message: str, lost: bool) -> None:
    """Servers modelled on an example of the first TypeScript SDK respond with 400 instead of 404."""

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply({"jsonrpc": "2.0", "id": None, "error": {"code": code, "message": message}}, 400)

    async with linked(with_session(handle)) as (link, _, _):
        await begin(link)
        with pytest.raises(RequestFailed) as caught:
            await link.exchange(call(), HANDSHAKE)
        assert isinstance(caught.value, SessionLost) is lost


async def test_404_without_a_session_is_a_refusal() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply("nothing here", 404)

    async with linked(handle) as (link, _, _):
        for revision in (HANDSHAKE, MODERN):
            with pytest.raises(RequestFailed, match="HTTP 404") as caught:
                await link.exchange(call(), revision)
            assert not isinstance(caught.value, SessionLost)


async def test_cancellation_by_disconnect_depends_on_the_revision() -> None:
    async with linked(accept) as (link, _, _):
        assert link.cancels_by_closing(MODERN)
        assert not link.cancels_by_closing(HANDSHAKE)
        assert link.sends_param_headers(MODERN)
        assert not link.sends_param_headers(HANDSHAKE)


# The user's headers, and credentials


async def test_user_headers_are_sent_with_every_request() -> None:
    headers = {"X-Tenant": "a", "User-Agent": "mine/1", "Authorization": "Bearer t"}
    async with linked(with_session(accept), headers=headers) as (link, web, _):
        await begin(link, settle=True)
        await link.exchange(call(), MODERN)
        await eventually(lambda: web.of("GET"))

    assert {seen.method for seen in web.seen} == {"POST", "GET", "DELETE"}
    for seen in web.seen:
        assert seen.headers["x-tenant"] == "a"
        assert seen.headers["user-agent"] == "mine/1"
        assert seen.headers["authorization"] == "Bearer t"


@pytest.mark.parametrize(
    "headers",
    [
        {"Mcp-Session-Id": "x"},
        {"mcp-protocol-version": "x"},
        {"Mcp-Param-Region": "x"},
        {"HOST": "x"},
        {"Accept": "*/*"},
        {"Content-Length": "1"},
        {"Transfer-Encoding": "chunked"},
        {"X\r\nY": "x"},
        {"": "x"},
        {"X": "secret\r\nY: z"},
        {"X": " secret"},
        {"X": "sécret"},
    ],
)
async def test_reserved_or_invalid_user_header_is_refused(headers: dict[str, str]) -> None:
    with pytest.raises(ValueError, match="headers: ") as caught:
        async with open_http_link("http://127.0.0.1:1/", print, headers=headers):
            pass
    assert "secret" not in str(caught.value)


async def test_empty_token_is_refused() -> None:
    """A shell expands an unset variable to an empty string."""
    with pytest.raises(ValueError, match=r"^headers: Authorization: expected a token after Bearer, got nothing$"):
        async with open_http_link("http://127.0.0.1:1/", print, headers={"Authorization": "Bearer "}):
            pass


async def test_credentials_in_the_url_are_not_shown(caplog: pytest.LogCaptureFixture) -> None:
    caplog.set_level(logging.DEBUG)

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "POST" and seen.message.get("method") == "initialize":
            await wire.reply(answer(seen), mcp_session_id=SESSION)
        elif seen.method == "POST":
            await wire.reply("no", 500)
        else:
            wire.hang_up()

    async with linked(handle) as (_, web, _):
        url = f"http://us%65r:s%C3%A9cret@127.0.0.1:{web.port}/mcp?key=s%65cret"
        async with open_http_link(url, print) as link:
            await begin(link, settle=True)
            with pytest.raises(RequestFailed) as caught:
                await link.exchange(call(), HANDSHAKE)
            await eventually(lambda: web.of("GET"))

    expected = "Basic " + b64encode("user:sécret".encode()).decode()
    assert {seen.headers["authorization"] for seen in web.seen} == {expected}
    assert {seen.target for seen in web.seen} == {"/mcp?key=s%65cret"}
    assert link.name == f"http://127.0.0.1:{web.port}/mcp"
    for text in (link.name, str(caught.value), repr(link), caplog.text):
        assert "cret" not in text


@define
class Tokens:
    """Credentials that are refreshed when the server refuses them."""

    current: str | None = None
    fresh: list[str] = field(factory=list)
    challenges: list[tuple[str, int, str]] = field(factory=list)
    asked: list[tuple[str, str]] = field(factory=list)

    async def headers(self, method: str, url: str) -> Mapping[str, str]:
        self.asked.append((method, url))
        return {} if self.current is None else {"Authorization": f"Bearer {self.current}"}

    async def challenged(self, url: str, status: int, headers: Mapping[str, str]) -> bool:
        self.challenges.append((url, status, headers.get("www-authenticate", "")))
        if not self.fresh:
            raise AuthorizationError("nobody is logged in")
        before, self.current = self.current, self.fresh.pop(0)
        return before != self.current


async def guarded(seen: ReceivedRequest, wire: Wire) -> None:
    if seen.headers.get("authorization") == "Bearer good":
        await accept(seen, wire)
    else:
        await wire.reply("who?", 401, www_authenticate='Bearer scope="x"')


async def test_refused_credentials_are_renewed_and_the_request_repeated() -> None:
    auth = Tokens("old", ["good"])
    async with linked(with_session(guarded), auth=auth) as (link, web, _):
        assert await link.exchange(call(), MODERN) == Response(1, {})
        assert await link.exchange(call(), MODERN) == Response(1, {})
        await begin(link, settle=True)
        await eventually(lambda: web.of("GET"))

    assert auth.challenges == [(web.url, 401, 'Bearer scope="x"')]
    assert [seen.headers.get("authorization") for seen in web.of("POST")] == ["Bearer old", *["Bearer good"] * 3]
    assert set(auth.asked) == {("POST", web.url), ("GET", web.url), ("DELETE", web.url)}


async def test_renewed_credentials_that_are_refused_are_renewed_again() -> None:
    auth = Tokens("old", ["bad", "good"])
    async with linked(guarded, auth=auth) as (link, web, _):
        assert await link.exchange(call(), MODERN) == Response(1, {})
        assert len(web.seen) == 3


async def test_request_fails_after_repeated_refusals_of_renewed_credentials() -> None:
    auth = Tokens("old", ["bad", "worse", "wrong", "worst", "good"])
    async with linked(guarded, auth=auth) as (link, web, _):
        with pytest.raises(RequestFailed, match=r"HTTP 401: .*who") as caught:
            await link.exchange(call(), MODERN)
        assert caught.value.status == 401
        assert len(web.seen) == 5


async def test_refusal_of_replaced_credentials_requests_no_newer_ones() -> None:
    """The refusal is about the old credentials."""
    auth = Tokens("old", ["newer"])

    async def late(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.headers.get("authorization") == "Bearer old":
            auth.current = "good"
        await (wire.reply(None, 401) if seen.headers["authorization"] == "Bearer old" else accept(seen, wire))

    async with linked(late, auth=auth) as (link, web, _):
        assert await link.exchange(call(), MODERN) == Response(1, {})

    assert [seen.headers["authorization"] for seen in web.seen] == ["Bearer old", "Bearer good"]
    assert auth.challenges == []


async def test_request_fails_if_credentials_cannot_be_renewed() -> None:
    auth = Tokens("old", ["old"])
    async with linked(guarded, auth=auth) as (link, web, _):
        with pytest.raises(RequestFailed, match="HTTP 401"):
            await link.exchange(call(), MODERN)
        assert len(web.seen) == 1
        with pytest.raises(AuthorizationError):
            await link.send(Notification("notifications/x"), MODERN)


async def test_401_without_an_authorization_is_a_refusal() -> None:
    async with linked(guarded) as (link, _, _):
        with pytest.raises(RequestFailed, match="HTTP 401") as caught:
            await link.exchange(call(), MODERN)
        assert caught.value.status == 401


@pytest.mark.parametrize(
    ("url", "options"),
    [
        ("http://u:p@localhost/", {"headers": {"authorization": "x"}}),
        ("http://u:p@localhost/", {"auth": Tokens()}),
        ("http://localhost/", {"headers": {"Authorization": "x"}, "auth": Tokens()}),
    ],
)
async def test_several_sources_of_credentials_are_refused(url: str, options: dict[str, Any]) -> None:
    with pytest.raises(ValueError, match="expected credentials from one of"):
        async with open_http_link(url, print, **options):
            pass


async def test_loss_of_a_session_is_reported_once() -> None:
    """A second request, which the server refuses later, does not affect the new session."""
    refuse = trio.Event()

    async def site(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "POST" and seen.message["method"] == "initialize":
            await wire.reply(answer(seen), mcp_session_id="s")
        elif seen.method == "POST" and seen.message["method"] == "tools/call":
            if seen.message["id"] == 2:
                await refuse.wait()
            await wire.reply("who are you?", 404)
        else:
            await wire.reply(status=405)

    async with linked(site) as (link, _, _), trio.open_nursery() as nursery:
        await begin(link)

        async def late() -> None:
            with pytest.raises(SessionLost):
                await link.exchange(call(id=2), HANDSHAKE)

        nursery.start_soon(late)
        with pytest.raises(SessionLost):
            await link.exchange(call(id=1), HANDSHAKE)
        with pytest.raises(SessionLost):
            await link.wait_closed()
        refuse.set()
        while nursery.child_tasks:
            await trio.lowlevel.checkpoint()
        await begin(link)
        with trio.move_on_after(0.01) as waiting:
            await link.wait_closed()
        assert waiting.cancelled_caught
