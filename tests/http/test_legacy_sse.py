"""HTTP with SSE, the transport of 2024-11-05, on real sockets around the whole server."""

from __future__ import annotations

import json
from collections.abc import Mapping
from typing import Any

import pytest
import trio
from hypercorn.middleware.dispatcher import TrioDispatcherMiddleware

from mcptrio.abc import ASGIApp, Principal
from mcptrio.errors import AuthorizationError
from mcptrio.http.engine.limits import ConnectionLimits
from mcptrio.serving import HTTPOptions, MessageLimits, ServerLimits, Timeouts
from tests.error_codes import PARSE_ERROR
from tests.function_guard import FunctionGuard
from tests.interaction.applies import HANDSHAKE
from tests.interaction.wires import SSEWire

from .sse_site import PING, call, greet, site, status
from .web import eventually

__all__: list[str] = []

# Sessions


async def test_first_event_contains_the_post_url() -> None:
    async with site() as here, here.wire() as one, here.wire() as other:
        path, _, id = one.endpoint.partition("?session_id=")

        assert path == "/messages"
        assert len(id) == 43  # 256 bits
        assert one.endpoint != other.endpoint
        assert one.head["content-type"] == "text/event-stream"
        assert "no-transform" in one.head["cache-control"]
        assert one.head["x-accel-buffering"] == "no"


@pytest.mark.parametrize("revision", [*HANDSHAKE, "2026-07-28"])
async def test_every_revision_is_served_as_over_a_pipe(revision: str) -> None:
    async with site() as here, here.peer(revision) as peer:
        assert await peer.text("whoami") == "nobody"
        [session] = here.server.status.sessions
        assert session.name == "sse"
        assert session.revision == revision


async def test_messages_are_sent_on_the_session_stream_only() -> None:
    """Responses, notifications and batches arrive on the stream; a POST gets only a status."""
    async with site() as here, here.peer("2025-03-26") as peer:
        batch = await peer.send([{"jsonrpc": "2.0", "id": f"b{n}", "method": "ping"} for n in range(2)])
        await peer.eventually(lambda: isinstance(peer.received[-1], list))

        assert batch.exchange is None
        assert [each["result"] for each in peer.received[-1]] == [{}, {}]


async def test_invalid_message_is_refused_and_the_session_continues() -> None:
    async with site() as here, here.peer() as peer:
        assert isinstance(peer.wire, SSEWire)
        refused, body = await peer.wire.post(b"{")
        empty, _ = await peer.wire.post(b"")

        assert (refused, empty) == (400, 400)
        assert json.loads(body)["error"]["code"] == PARSE_ERROR
        assert await peer.text("whoami") == "nobody"


@pytest.mark.parametrize(
    "query",
    ["", "?", "?session_id=", "?session_id=nobody", "?session_id=%ff", "?other=1", "?{0}&{0}", "?" + "a=1&" * 20],
)
async def test_post_to_an_unknown_session_gets_404(query: str) -> None:
    async with site() as here, here.peer() as peer:
        assert isinstance(peer.wire, SSEWire)
        path, _, own = peer.wire.endpoint.partition("?")

        answered, body = await peer.wire.post(PING, to=path + query.format(own))

        assert answered == 404
        assert "no such session" in json.loads(body)["error"]["message"]


# Ends of sessions


async def test_sse_disconnect_ends_the_session_and_its_requests() -> None:
    async with site() as here:
        async with here.peer() as peer:
            assert isinstance(peer.wire, SSEWire)
            endpoint = peer.wire.endpoint
            await peer.start_call("hold")
            await here.work.begun.wait()

        with trio.fail_after(30):
            await here.work.ended.wait()
        assert here.work.notes == ["cancelled"]
        await eventually(lambda: not here.server.status.sessions)
        async with here.wire() as late:
            assert (await late.post(PING, to=endpoint))[0] == 404


async def test_disconnect_within_a_flood_ends_the_session() -> None:
    """Then nothing is read: the client does not read, and the session does not because its buffer is full."""
    async with site(limits=ServerLimits(outbox=2)) as here:
        async with here.wire() as wire:
            await greet(wire)
            await wire.send(call("hold"))
            await wire.send(call("talk"))
            with trio.move_on_after(0.3) as full:
                for _ in range(10):
                    await wire.post(PING)
            assert full.cancelled_caught

        with trio.fail_after(30):
            await here.work.ended.wait()
        assert here.work.notes == ["cancelled"]


async def test_calls_finish_during_a_drain_and_the_stream_ends() -> None:
    async with site(timeouts=Timeouts(shutdown=60)) as here, here.peer() as peer:
        held = await peer.start_call("hold")
        await here.work.begun.wait()
        async with trio.open_nursery() as draining:
            draining.start_soon(here.server.supervisor.drain)
            await eventually(lambda: here.server.supervisor.draining)
            late, headers, _ = await status(here.port, "GET /sse", "host: localhost", "accept: text/event-stream")
            here.work.release.set()

            assert (late, headers["retry-after"]) == (503, "1")
            assert (await held.result())["content"][0]["text"] == "released"
        with trio.fail_after(30):
            await peer.ended.wait()  # the end of the response, in order: else h11 would say


async def test_stream_without_a_first_message_times_out() -> None:
    async with site(HTTPOptions(body_timeout=1.0)) as here, here.peer() as peer:
        async with here.wire() as silent:
            assert len(here.server.status.sessions) == 2

            assert await silent.receive() is None
            assert (await silent.post(PING))[0] == 404
            assert await peer.text("whoami") == "nobody"  # a client may be silent after its first message


async def test_idle_stream_gets_keepalive_comments() -> None:
    async with site(HTTPOptions(keepalive_interval=0.05)) as here, here.peer() as peer:
        assert isinstance(peer.wire, SSEWire)
        wire = peer.wire
        await eventually(lambda: wire.comments >= 3)

        assert await peer.text("whoami") == "nobody"


async def test_client_that_does_not_read_is_disconnected() -> None:
    async with site(connection=ConnectionLimits(write_timeout=0.2)) as here, here.wire() as unread:
        await greet(unread)
        await unread.send(call("hold"))
        await unread.send(call("talk"))

        with trio.fail_after(30):
            await here.work.ended.wait()
        assert here.work.notes == ["cancelled"]
        await eventually(lambda: not here.server.status.sessions)
        assert (await unread.post(PING))[0] == 404


async def test_post_to_a_session_with_a_full_queue_waits() -> None:
    """The wait is bounded; when the client reads again, the session continues."""
    options = HTTPOptions(body_timeout=1.0)
    async with site(options, limits=ServerLimits(outbox=2)) as here, here.wire() as wire:
        await greet(wire)
        await wire.send(call("talk"))
        taken = 0
        while True:
            answered, body = await wire.post(b'{"jsonrpc":"2.0","id":"p%d","method":"ping"}' % taken)
            if answered != 202:
                break
            taken += 1
        assert answered == 503
        assert "behind" in json.loads(body)["error"]["message"]
        assert json.loads(body)["error"]["data"]["retryAfter"] == 1.0

        ids = set()
        while len(ids) < taken + 1:
            for message in await wire.receive() or pytest.fail("ended"):
                ids |= {message["id"]} if "id" in message else set()
        assert ids == {"talk", *(f"p{n}" for n in range(taken))}  # the refused message is not among them
        assert (await wire.post(PING))[0] == 202


# Limits


async def test_open_streams_leave_capacity_for_their_posts() -> None:
    async with site(HTTPOptions(streams=4)) as here, here.peer(), here.peer() as peer:
        async with here.wire() as refused:
            assert (refused.status, refused.head["retry-after"]) == (503, "10")
        assert await peer.text("whoami") == "nobody"


async def test_session_over_the_engine_limit_is_refused() -> None:
    async with site(limits=ServerLimits(sessions=1)) as here, here.peer() as peer:
        async with here.wire() as refused:
            assert (refused.status, refused.head["retry-after"]) == (503, "10")
        assert await peer.text("whoami") == "nobody"


async def test_requests_are_checked_by_the_rules_of_the_endpoint() -> None:
    options = HTTPOptions(message=MessageLimits(bytes=1000), header_bytes=2000, body_timeout=0.3)
    json_type, length, stream = "content-type: application/json", "content-length: 2", "accept: text/event-stream"
    async with site(options) as here:
        for request, headers, expected in (
            ("GET /sse", ["host: evil.example.com", stream], 421),
            ("GET /sse", ["host: localhost", stream, "origin: http://evil.example.com"], 403),
            ("GET /sse", ["host: localhost", "accept: application/json"], 406),
            ("GET /sse", ["host: localhost", stream, "x: " + "y" * 3000], 431),
            ("POST /sse", ["host: localhost", json_type, length], 405),
            ("DELETE /sse", ["host: localhost"], 405),
            ("GET /messages", ["host: localhost", stream], 405),
            ("POST /messages", ["host: evil.example.com", json_type, length], 421),
            ("POST /messages", ["host: localhost", json_type, length, "origin: null"], 403),
            ("POST /messages", ["host: localhost", "content-type: text/plain", length], 415),
            ("POST /messages", ["host: localhost", json_type, "content-length: 2000"], 413),
            ("POST /messages", ["host: localhost", json_type, "content-length: 3"], 408),
            ("POST /messages", ["host: localhost", json_type, length], 404),
        ):
            answered, _, _ = await status(here.port, request, *headers, body=b"{}" if request.startswith("P") else b"")
            assert answered == expected, (request, headers)
        _, headers_405, _ = await status(here.port, "PUT /messages", "host: localhost")
        assert headers_405["allow"] == "POST"


async def test_pages_of_allowed_origins_pass_the_cors_preflight() -> None:
    async with site(HTTPOptions(allow_origins=["https://app.example.com"])) as here:
        asked = ["host: localhost", "origin: https://app.example.com"]
        for path, method in (("/sse", "GET"), ("/messages", "POST")):
            wanted = [*asked, f"access-control-request-method: {method}", "access-control-request-headers: x-a"]
            answered, headers, _ = await status(here.port, f"OPTIONS {path}", *wanted)
            assert answered == 204
            assert headers["access-control-allow-methods"] == method
            assert headers["access-control-allow-headers"] == "x-a"
        async with here.peer(headers={"origin": "https://app.example.com"}) as peer:
            assert isinstance(peer.wire, SSEWire)
            assert peer.wire.head["access-control-allow-origin"] == "https://app.example.com"


# Principals


def authenticate(headers: Mapping[str, str]) -> Principal | None:
    """Authenticate tokens of the form ``person scope serial``."""
    if "authorization" not in headers:
        raise AuthorizationError("expected a token", challenge="Bearer")
    person, scope, serial = headers["authorization"].split()
    return Principal(subject=person, scopes=frozenset({scope}), claims={"jti": serial})


async def test_session_is_available_to_its_own_principal_only() -> None:
    async with site(HTTPOptions(auth=FunctionGuard(authenticate))) as here:
        async with here.peer(headers={"authorization": "ann read 1"}) as peer:
            wire = peer.wire
            assert isinstance(wire, SSEWire)
            assert await peer.text("whoami") == "ann"

            other, body = await wire.post(PING, headers={"authorization": "bob read 1"})
            unknown, unknown_body = await wire.post(PING, to="/messages?session_id=x")
            more, _ = await wire.post(PING, headers={"authorization": "ann write 1"})
            refreshed, _ = await wire.post(PING, headers={"authorization": "ann read 2"})

            assert (other, body) == (unknown, unknown_body)
            assert (other, more, refreshed) == (404, 404, 202)
            assert await peer.text("whoami") == "ann"
        anonymous, headers, _ = await status(here.port, "GET /sse", "host: localhost", "accept: text/event-stream")
        assert (anonymous, headers["www-authenticate"]) == (401, "Bearer")
        post = ["host: localhost", "content-type: application/json", "content-length: 2"]
        assert (await status(here.port, "POST /messages", *post, body=b"{}"))[0] == 401


# Paths


async def test_post_url_contains_the_mount_prefix() -> None:
    def mounted(app: ASGIApp) -> Any:
        return TrioDispatcherMiddleware({"/ai tools": app})

    async with site(wrap=mounted) as here, here.peer(path="/ai%20tools/sse") as peer:
        assert isinstance(peer.wire, SSEWire)
        assert peer.wire.endpoint.startswith("/ai%20tools/messages?session_id=")
        assert await peer.text("whoami") == "nobody"


async def test_prefix_with_two_slashes_never_becomes_a_host() -> None:
    """Two slashes at the beginning of a reference name a host, to which the client would send every message."""

    def double_slashed(app: ASGIApp) -> Any:
        async def prefixed(scope: Any, receive: Any, send: Any) -> None:
            await app({**scope, "root_path": "//evil.example.com"}, receive, send)

        return prefixed

    async with site(wrap=double_slashed) as here, here.wire() as wire:
        assert wire.endpoint.startswith("/evil.example.com/messages?")


async def test_legacy_sse_can_be_disabled() -> None:
    async with site(HTTPOptions(legacy_sse=False)) as here:
        async with here.wire() as wire:
            assert wire.status == 404
        posted = ["host: localhost", "content-type: application/json", "content-length: 2"]
        assert (await status(here.port, "POST /messages", *posted, body=b"{}"))[0] == 404


@pytest.mark.parametrize("path", ["/sse", "/messages/"])
def test_endpoint_path_that_legacy_sse_uses_is_refused(path: str) -> None:
    with pytest.raises(ValueError, match="path: expected another path than /sse and /messages"):
        HTTPOptions(path=path)
    assert HTTPOptions(path=path, legacy_sse=False).path == path
