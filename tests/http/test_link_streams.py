"""Event streams of a link: late answers, broken and resumed streams, and the stream of a session."""

from __future__ import annotations

import json
from itertools import pairwise
from typing import Any

import pytest
import trio
import trio.testing

from mcptrio import connect
from mcptrio.errors import RequestFailed, SessionLost
from mcptrio.http.client.event_stream import StreamPosition
from mcptrio.protocol.messages import Notification, Request, Response
from mcptrio.serving import MessageLimits

from .web import (
    BATCHED,
    HANDSHAKE,
    MODERN,
    SESSION,
    Handler,
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


def note(text: str = "x") -> dict[str, Any]:
    return {"jsonrpc": "2.0", "method": "notifications/message", "params": {"data": text}}


def noted(text: str = "x") -> Notification:
    return Notification("notifications/message", {"data": text})


# The stream of one request


async def test_messages_before_the_answer_are_received_in_order() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        for number in range(100):
            await wire.event(note(str(number)))
        await wire.event({"jsonrpc": "2.0", "id": "s1", "method": "ping"})
        await wire.event(answer(seen, done=True))
        await wire.end()

    async with linked(handle) as (link, _, received):
        assert await link.exchange(call(), HANDSHAKE) == Response(1, {"done": True})

        assert received == [*[noted(str(number)) for number in range(100)], Request("s1", "ping")]


async def test_every_legal_form_of_a_stream_is_parsed() -> None:
    """A byte order mark, comments, CRLF, CR, events without data or of other types, data over several lines."""

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        text = json.dumps(answer(seen, a=1), indent=1)
        data = "".join(f"data: {line}\r\n" for line in text.split("\n"))
        await wire.stream()
        whole = f"\ufeff: hello\r\n\r\nid: 7\rdata:\r\revent: ping\ndata: {{}}\n\nevent: message\r\n{data}\r\n"
        for byte in whole.encode():
            await wire.chunk(bytes([byte]))
        await wire.end()

    async with linked(handle) as (link, _, received):
        assert await link.exchange(call(), HANDSHAKE) == Response(1, {"a": 1})
        assert received == []


async def test_connection_of_a_stream_is_reused(monkeypatch: pytest.MonkeyPatch) -> None:
    """The end of the stream arrives shortly after the answer, which does not wait for it."""
    answered, ended = trio.Event(), trio.Event()

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        nonlocal answered, ended
        await wire.stream()
        await wire.event(answer(seen))
        await answered.wait()
        answered = trio.Event()
        await wire.end()
        ended.set()
        ended = trio.Event()

    # Raise the timeout for busy machines; the next test checks the timeout.
    monkeypatch.setattr("mcptrio.http.client.responses.LINGER_TIMEOUT", 30)
    async with linked(handle) as (link, web, _):
        for id in range(20):
            assert await link.exchange(call(id=id), MODERN) == Response(id, {})
            over = ended
            answered.set()
            await over.wait()
            # The end of the stream is in the loopback buffer; the link reads it before all tasks are idle.
            await trio.testing.wait_all_tasks_blocked(0.02)
        assert web.connections == 1


async def test_stream_left_open_after_the_answer_is_closed(monkeypatch: pytest.MonkeyPatch) -> None:
    gone = trio.Event()

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        await wire.event(answer(seen))
        await wire.wait_closed()
        gone.set()

    monkeypatch.setattr("mcptrio.http.client.responses.LINGER_TIMEOUT", 0.05)
    async with linked(handle) as (link, _, _):
        assert await link.exchange(call(), MODERN) == Response(1, {})
        await gone.wait()


async def test_invalid_messages_in_a_stream_are_skipped() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        await wire.chunk(b"nonsense\n\ndata: {not json\n\ndata: [1]\n\n")
        await wire.event({"jsonrpc": "2.0", "method": "notifications/x", "params": []})
        await wire.event(answer(seen))
        await wire.end()

    async with linked(handle) as (link, _, received):
        assert await link.exchange(call(), BATCHED) == Response(1, {})
        assert received == []


async def test_malformed_answer_fails_at_once() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        await wire.event(answer(seen) | {"result": None}, id="1")
        await wire.end()

    async with linked(handle) as (link, web, _):
        with pytest.raises(RequestFailed, match="result: expected an object, got null"):
            await link.exchange(call(), HANDSHAKE)
        assert len(web.seen) == 1


async def test_answer_with_another_id_fails_the_request() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        await wire.event(answer(seen) | {"id": 77})

    async with linked(handle) as (link, _, _):
        with pytest.raises(RequestFailed, match="expected a response to 1, got one to 77"):
            await link.exchange(call(), HANDSHAKE)


async def test_event_over_the_size_limit_fails_the_request() -> None:
    """The link does not resume, although the event has an id: the event would be as large again."""

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        await wire.event(id="1")
        await wire.chunk(b"data: " + b"x" * 3000)
        await wire.wait_closed()

    async with linked(handle, limits=MessageLimits(bytes=2000)) as (link, web, _):
        with pytest.raises(RequestFailed, match="event of more than 2000 bytes"):
            await link.exchange(call(), HANDSHAKE)
        assert len(web.seen) == 1


async def test_event_of_the_size_limit_is_received() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        await wire.event(answer(seen, text="x" * 3_000_000))
        await wire.end()

    async with linked(handle) as (link, _, _):
        reply = await link.exchange(call(), HANDSHAKE)
        assert isinstance(reply, Response)
        assert len(reply.result["text"]) == 3_000_000


# Resumption


def breaking(*, clean: bool, times: int, retry: int | None = 100) -> Handler:
    """A stream with a notification that ends ``times`` times; then the answer."""

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "POST":
            handle.id = seen.message["id"]  # type: ignore[attr-defined]
        place = int(seen.headers.get("last-event-id", "0"))
        await wire.stream()
        await wire.event(id=str(place + 1), retry=retry)
        if place >= times:
            await wire.event({"jsonrpc": "2.0", "id": handle.id, "result": {"place": place}})  # type: ignore[attr-defined]
        else:
            await wire.event(note(str(place)), id=str(place + 1))
        if clean:
            await wire.end()
        else:
            wire.hang_up()

    return handle


@pytest.mark.parametrize("clean", [True, False])
async def test_stream_is_resumed_after_three_disconnects(clean: bool) -> None:
    async with linked(with_session(breaking(clean=clean, times=3))) as (link, web, received):
        await begin(link)
        assert await link.exchange(call(), HANDSHAKE) == Response(1, {"place": 3})

        assert received == [noted(str(number)) for number in range(3)]
        gets = web.of("GET")
        assert [get.headers["last-event-id"] for get in gets] == ["1", "2", "3"]
        assert all(get.headers["accept"] == "text/event-stream" for get in gets)
        assert all(get.headers["mcp-session-id"] == SESSION for get in gets)
        assert all(get.headers["mcp-protocol-version"] == HANDSHAKE.version for get in gets)
        times = [web.of("POST")[-1].time, *[get.time for get in gets]]
        assert all(later - earlier >= 0.1 for earlier, later in pairwise(times))


async def test_resumption_waits_as_long_as_the_server_requests(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("mcptrio.http.client.event_stream.DEFAULT_RETRY_SECONDS", 60.0)
    async with linked(breaking(clean=True, times=1, retry=400)) as (link, web, _):
        await link.exchange(call(), HANDSHAKE)

        post, get = web.seen
        assert 0.4 <= get.time - post.time < 30


async def test_answer_to_initialize_is_resumed_in_its_session() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream(mcp_session_id=SESSION)
        if seen.method == "POST":
            await wire.event(id="1", retry=10)
        else:
            await wire.event({"jsonrpc": "2.0", "id": 0, "result": {}})
        await wire.end()

    async with linked(handle) as (link, web, _):
        await begin(link)

        assert web.seen[1].headers["mcp-session-id"] == SESSION
        assert "mcp-protocol-version" not in web.seen[1].headers


@pytest.mark.parametrize("revision", [HANDSHAKE, MODERN])
async def test_stream_without_ids_cannot_be_resumed(revision: Any) -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        await wire.event(note(), **({"id": "1"} if revision is MODERN else {}))
        wire.hang_up()

    async with linked(handle) as (link, web, received):
        with pytest.raises(RequestFailed, match="before the answer"):
            await link.exchange(call(), revision)
        assert received == [noted()]
        assert len(web.seen) == 1


async def test_resumption_without_progress_is_given_up(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        if seen.method == "POST":
            await wire.event(id="1", retry=0)
        await wire.end()

    monkeypatch.setattr("mcptrio.http.client.event_stream.DEFAULT_RETRY_SECONDS", 0.05)
    async with linked(handle) as (link, web, _):
        with pytest.raises(RequestFailed, match="6 attempts to resume it"):
            await link.exchange(call(), HANDSHAKE)
        gets = web.of("GET")
        assert len(gets) == 6
        # At least 0.1 seconds, then twice as long each time.
        assert gets[-1].time - gets[0].time > 0.1 + 0.1 + 0.15 + 0.3 + 0.6


@pytest.mark.parametrize("status", [400, 404, 405])
async def test_refused_resumption_fails_the_request_only(status: int) -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "GET":
            await wire.reply("no such event", status)
        elif seen.message["id"] == 1:
            await wire.stream()
            await wire.event(id="1", retry=0)
            wire.hang_up()
        else:
            await wire.reply(answer(seen))

    async with linked(with_session(handle)) as (link, _, _):
        await begin(link)
        with pytest.raises(RequestFailed, match=r"cannot be resumed: HTTP 4.*no such event") as caught:
            await link.exchange(call(), HANDSHAKE)
        assert not isinstance(caught.value, SessionLost)
        assert caught.value.delivered
        assert await link.exchange(call(id=2), HANDSHAKE) == Response(2, {})


async def test_resumption_is_retried_while_the_server_is_unreachable(monkeypatch: pytest.MonkeyPatch) -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "POST":
            await wire.stream()
            await wire.event(id="1", retry=0)
            wire.hang_up()
        elif len(web.of("GET")) < 3:
            await wire.reply(None, 503)
        else:
            await wire.stream()
            await wire.event({"jsonrpc": "2.0", "id": 1, "result": {}})
            await wire.end()

    monkeypatch.setattr("mcptrio.http.client.event_stream.DEFAULT_RETRY_SECONDS", 0.02)
    async with linked(handle) as (link, web, _):
        assert await link.exchange(call(), HANDSHAKE) == Response(1, {})


async def test_cancellation_during_the_wait_sends_no_resumption() -> None:
    async with linked(breaking(clean=True, times=1, retry=60_000)) as (link, web, _):
        async with trio.open_nursery() as nursery:
            nursery.start_soon(link.exchange, call(), HANDSHAKE)
            await eventually(lambda: web.seen)
            await trio.sleep(0.2)
            nursery.cancel_scope.cancel()
        assert nursery.cancel_scope.cancelled_caught
        assert len(web.seen) == 1


async def test_event_id_that_cannot_be_a_header_is_ignored() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        await wire.chunk(b"id: a\x01b\ndata:\n\n")
        await wire.end()

    async with linked(handle) as (link, web, _):
        with pytest.raises(RequestFailed, match="before the answer"):
            await link.exchange(call(), HANDSHAKE)
        assert len(web.seen) == 1


def test_reconnection_pause_is_bounded_and_doubles_after_failures() -> None:
    assert StreamPosition(retry_ms=2500).pause() == 2.5
    assert StreamPosition(retry_ms=0).pause() == 0.1
    assert StreamPosition(retry_ms=10**15).pause() == 30
    assert 0.75 <= StreamPosition().pause() <= 1.25
    assert 6 <= StreamPosition(retry_ms=0, failures=4).pause() <= 10
    assert StreamPosition(failures=1000).pause() <= 30
    assert len({StreamPosition().pause() for _ in range(10)}) > 1


# The stream of the session


async def test_session_stream_delivers_unsolicited_messages() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        await wire.event(id="g/0")
        await wire.event(note("one"), id="g/1")
        await wire.event({"jsonrpc": "2.0", "id": 5, "method": "ping"})
        await wire.event(answer_to_nothing())
        await wire.wait_closed()

    def answer_to_nothing() -> dict[str, Any]:
        return {"jsonrpc": "2.0", "id": 99, "result": {}}

    async with linked(with_session(handle)) as (link, web, received):
        await begin(link)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert web.of("GET") == []
        link.start_listening(HANDSHAKE)
        await eventually(lambda: len(received) == 2)

        assert received == [noted("one"), Request(5, "ping")]
        (get,) = web.of("GET")
        assert get.headers["accept"] == "text/event-stream"
        assert get.headers["mcp-session-id"] == SESSION
        assert get.headers["mcp-protocol-version"] == HANDSHAKE.version
        assert "last-event-id" not in get.headers
        assert "content-length" not in get.headers


async def test_session_stream_resumes_at_its_position() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        number = len(web.of("GET"))
        await wire.stream()
        await wire.event(note(str(number)), id=f"g/{number}", retry=100)
        if number < 3:
            await wire.end()
        else:
            await wire.wait_closed()

    async with linked(with_session(handle)) as (link, web, received):
        await begin(link, settle=True)
        await eventually(lambda: len(received) == 3)

        assert [get.headers.get("last-event-id") for get in web.of("GET")] == [None, "g/1", "g/2"]


async def test_session_stream_backs_off_if_the_server_ends_every_stream(monkeypatch: pytest.MonkeyPatch) -> None:
    """The link backs off also if each stream has ``retry: 0`` and an id."""

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.stream()
        await wire.event(id=str(len(web.seen)), retry=0)
        await wire.end()

    # The pause varies by a quarter.
    monkeypatch.setattr("mcptrio.http.client.event_stream.DEFAULT_RETRY_SECONDS", 0.14)
    async with linked(with_session(handle)) as (link, web, _):
        await begin(link, settle=True)
        await eventually(lambda: len(web.of("GET")) == 4)

        times = [get.time for get in web.of("GET")]
        pauses = [later - earlier for earlier, later in pairwise(times)]
        assert all(pause > least for pause, least in zip(pauses, (0.1, 0.2, 0.4), strict=True)), pauses


@pytest.mark.parametrize("status", [400, 404, 405, 406])
async def test_session_stream_is_not_requested_again_after_405(status: int) -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "GET":
            await wire.reply("no", status)
        elif seen.message.get("method") == "initialize":
            await wire.reply(answer(seen))
        else:
            await wire.reply(answer(seen, ok=True))

    async with linked(handle) as (link, web, _):
        await begin(link, settle=True)
        await eventually(lambda: web.of("GET"))
        await trio.sleep(0.3)
        assert len(web.of("GET")) == 1
        assert await link.exchange(call(), HANDSHAKE) == Response(1, {"ok": True})


async def test_web_page_instead_of_a_session_stream_is_not_requested_again() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply(b"<html>", content_type="text/html")

    async with linked(with_session(handle)) as (link, web, _):
        await begin(link, settle=True)
        await eventually(lambda: web.of("GET"))
        await trio.sleep(0.3)
        assert len(web.of("GET")) == 1


async def test_session_stream_restarts_if_the_server_has_dropped_the_event() -> None:
    """A 404 with Last-Event-ID may concern the event; only without the header does it concern the session."""

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method != "GET":
            await wire.reply(answer(seen))
            return
        if "last-event-id" in seen.headers:
            await wire.reply("which event?", 404)
            return
        await wire.stream()
        await wire.event(note(), id="1", retry=0)
        if len(web.of("GET")) < 2:
            await wire.end()
        else:
            await wire.wait_closed()

    async with linked(with_session(handle)) as (link, web, received):
        await begin(link, settle=True)
        await eventually(lambda: len(received) == 2)

        assert ["last-event-id" in get.headers for get in web.of("GET")] == [False, True, False]
        assert await link.exchange(call(), HANDSHAKE) == Response(1, {})


async def test_404_for_the_session_stream_means_a_lost_session() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply("who are you?", 404)

    async with linked(with_session(handle)) as (link, web, _):
        await begin(link, settle=True)
        await eventually(lambda: web.of("GET"))
        await trio.testing.wait_all_tasks_blocked(0.05)
        with pytest.raises(SessionLost):
            await link.exchange(call(), HANDSHAKE)
        assert len(web.seen) == 2


async def test_second_handshake_opens_the_session_stream_of_the_new_session() -> None:
    closed: list[str] = []

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        if seen.method == "DELETE":
            await wire.reply(status=204)
        elif seen.method == "POST":
            await wire.reply(answer(seen), mcp_session_id=f"s{len(web.of('POST'))}")
        else:
            await wire.stream()
            await wire.event(note(seen.headers["mcp-session-id"]))
            await wire.wait_closed()
            closed.append(seen.headers["mcp-session-id"])

    async with linked(handle) as (link, web, received):
        await begin(link, settle=True)
        await eventually(lambda: len(received) == 1)
        await begin(link, settle=True)
        await eventually(lambda: len(received) == 2)
        await eventually(lambda: closed == ["s1"])

        assert received == [noted("s1"), noted("s2")]
        await eventually(lambda: web.of("DELETE"))
        assert [each.headers["mcp-session-id"] for each in web.of("DELETE")] == ["s1"]


async def test_revision_without_sessions_opens_no_stream() -> None:
    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        await wire.reply(answer(seen))

    async with linked(handle) as (link, web, _):
        await link.exchange(call(), MODERN)
        link.start_listening(MODERN)
        await trio.testing.wait_all_tasks_blocked(0.05)
        assert len(web.seen) == 1


async def test_server_crash_fails_requests_with_open_streams() -> None:
    """The session stream reconnects, and closing the link is quick."""
    open_streams = 0

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        nonlocal open_streams
        await wire.stream()
        open_streams += 1
        await eventually(lambda: open_streams == 3)
        wire.hang_up()

    async def ask(id: int) -> None:
        with pytest.raises(RequestFailed, match="before the answer"):
            await link.exchange(call(id=id), HANDSHAKE)

    async with linked(with_session(handle)) as (link, _, _):
        await begin(link, settle=True)
        async with trio.open_nursery() as nursery:
            nursery.start_soon(ask, 1)
            nursery.start_soon(ask, 2)


async def test_flood_of_server_requests_does_not_block_calls() -> None:
    """The server accepts no responses, and does not get a connection for each of its requests."""
    held = 0

    async def handle(seen: ReceivedRequest, wire: Wire) -> None:
        nonlocal held
        if seen.method == "GET":
            await wire.stream()
            for number in range(1500):
                await wire.event({"jsonrpc": "2.0", "id": f"p{number}", "method": "ping"})
        elif seen.method == "DELETE":
            await wire.reply()
        elif "method" not in seen.message:
            held += 1
            await wire.wait_closed()
        elif seen.message["method"] == "initialize":
            info = {"name": "flood", "version": "1"}
            agreed = {"protocolVersion": HANDSHAKE.version, "capabilities": {"tools": {}}, "serverInfo": info}
            await wire.reply(answer(seen, **agreed), mcp_session_id=SESSION)
        elif seen.message["method"] == "tools/call":
            await wire.reply(answer(seen, content=[]))
        else:
            await wire.reply(status=202)

    with trio.fail_after(60):
        async with serving(handle) as web:
            async with connect(web.url, revision=HANDSHAKE.version) as client:
                await eventually(lambda: held == 256)
                assert (await client.call_tool("work")).content == ()
                await trio.sleep(0.1)
                assert held == 256
