"""Single messages: ids, malformed messages, and sizes."""

from __future__ import annotations

import json
from typing import Any

import trio

from mcptrio import tool
from tests.error_codes import INVALID_REQUEST, PARSE_ERROR
from tests.interaction.applies import BYTES, HANDSHAKE, only
from tests.interaction.client import Peer
from tests.interaction.serving import Serve
from tests.interaction.wires import HTTPWire


@tool
async def echo(text: str) -> str:
    """Echo."""
    return text


@tool
async def wait() -> str:
    """Wait until cancelled."""
    await trio.sleep(100)
    return "done"


async def _refused(peer: Peer, data: bytes) -> dict[str, Any]:
    """Return the error response to bytes that are not a message."""
    call = await peer.send_bytes(data)
    message = await peer.until(lambda message: "error" in message)
    if call.exchange is not None:
        assert call.exchange.status == 400
    error: dict[str, Any] = message
    return error


async def test_id_is_returned_unchanged(serve: Serve) -> None:
    peer = await serve(echo)

    for id in (0, -7, 2**53, "1", "", "ä😀", "a" * 1000):
        call = await peer.start("tools/list", id=id)
        answer = await call.wait()

        assert answer["id"] == id
        assert type(answer["id"]) is type(id)


@only(transports=BYTES, because="in memory the client sends message objects, whose ids already have a valid type")
async def test_id_of_another_type_is_refused(serve: Serve) -> None:
    peer = await serve(echo)

    ids: list[object] = [None, True, 1.5, [], {}, 2**70]
    for id in ids:
        message = {"jsonrpc": "2.0", "id": id, "method": "tools/list", "params": peer.params({})}
        answer = await _refused(peer, json.dumps(message).encode())

        assert answer["error"]["code"] == INVALID_REQUEST
        assert answer.get("id") is None


async def test_number_and_the_same_number_as_a_string_are_two_ids(serve: Serve) -> None:
    peer = await serve(echo)

    first = await peer.start_call("echo", {"text": "number"}, id=1)
    second = await peer.start_call("echo", {"text": "text"}, id="1")

    assert (await first.result())["content"][0]["text"] == "number"
    assert (await second.result())["content"][0]["text"] == "text"


@only(transports=["memory", "stdio"], because="over HTTP the second one is answered on its own stream")
async def test_duplicate_id_is_refused_and_the_first_request_continues(serve: Serve) -> None:
    peer = await serve(wait)
    first = await peer.start_call("wait", id="same")

    second = await peer.start("tools/list", id="same")

    assert (await second.error())["code"] == INVALID_REQUEST
    assert not first.arrived.is_set()
    assert [r.id for s in serve.server.status.sessions for r in s.requests] == ["same"]


@only(revisions=HANDSHAKE, transports=["http"], because="only a session over HTTP has both streams and shared ids")
async def test_id_that_is_in_flight_is_refused_on_another_stream_of_the_session(serve: Serve) -> None:
    peer = await serve(wait)
    first = await peer.start_call("wait", id="same")
    await peer.eventually(lambda: serve.server.status.in_flight == 1)

    second = await peer.start("tools/list", id="same")

    assert (await second.error())["code"] == INVALID_REQUEST
    assert first.answer is None


async def test_id_can_be_reused_after_its_response(serve: Serve) -> None:
    peer = await serve(echo)

    for _ in range(2):
        assert (await peer.text("echo", {"text": "a"}, id="same")) == "a"


@only(transports=BYTES, because="in memory there are messages, not bytes")
async def test_invalid_json_is_a_parse_error_and_the_session_continues(serve: Serve) -> None:
    peer = await serve(echo)

    for data in (b"{", b"nonsense", b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list"', b"\xff\xfe"):
        message = await _refused(peer, data)

        assert message["error"]["code"] == PARSE_ERROR
        assert "id" not in message
    assert await peer.text("echo", {"text": "a"}) == "a"


NOT_MESSAGES: tuple[object, ...] = (
    3,
    "text",
    None,
    {},
    {"jsonrpc": "1.0", "id": 1, "method": "tools/list"},
    {"jsonrpc": "2.0", "id": 1},
    {"jsonrpc": "2.0", "id": 1, "method": 3},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": []},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "result": {}},
    {"jsonrpc": "2.0", "id": 1, "result": {}, "error": {"code": 1, "message": "x"}},
)


@only(transports=BYTES, because="in memory, only valid messages can be sent")
async def test_json_that_is_not_a_message_is_an_invalid_request(serve: Serve) -> None:
    peer = await serve(echo)

    for value in NOT_MESSAGES:
        message = await _refused(peer, json.dumps(value).encode())

        assert message["error"]["code"] == INVALID_REQUEST, value
    assert await peer.text("echo", {"text": "a"}) == "a"


@only(transports=["stdio"], because="HTTP refuses it by its length, with 413")
async def test_line_over_the_size_limit_is_refused_and_the_next_one_is_read(serve: Serve) -> None:
    peer = await serve(echo)

    async with trio.open_nursery() as nursery:
        nursery.start_soon(peer.send_bytes, b'{"a": "' + b"x" * 5_000_000 + b'"}')
        message = await peer.until(lambda message: "error" in message)

    assert message["error"]["code"] == INVALID_REQUEST
    assert await peer.text("echo", {"text": "a"}) == "a"


@only(transports=["http"], because="only HTTP sends the length before the message")
async def test_body_over_the_size_limit_gets_413(serve: Serve) -> None:
    peer = await serve(echo)
    assert isinstance(peer.wire, HTTPWire)
    head = b"POST /mcp HTTP/1.1\r\nhost: localhost\r\ncontent-type: application/json\r\naccept: */*\r\n"

    with peer.deadline():
        async with await trio.open_tcp_stream("127.0.0.1", peer.wire.port) as socket:
            await socket.send_all(head + b"content-length: 5000000\r\n\r\n")
            answer = await socket.receive_some()

    assert answer.startswith(b"HTTP/1.1 413 ")


@only(transports=BYTES, because="in memory there are messages, not bytes")
async def test_too_deeply_nested_message_is_refused(serve: Serve) -> None:
    peer = await serve(echo)
    deep = "[" * 200 + "]" * 200

    message = await _refused(
        peer, b'{"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {"a": %s}}' % deep.encode()
    )

    assert message["error"]["code"] == INVALID_REQUEST
    assert await peer.text("echo", {"text": "a"}) == "a"


async def test_unknown_members_are_ignored(serve: Serve) -> None:
    peer = await serve(echo)
    params = peer.params({"name": "echo", "arguments": {"text": "a"}, "future": {"a": [1]}})

    call = await peer.send({"jsonrpc": "2.0", "id": 5, "method": "tools/call", "params": params, "more": True})

    assert (await call.result())["content"][0]["text"] == "a"


async def test_concurrent_requests_each_get_their_own_response(serve: Serve) -> None:
    peer = await serve(echo)

    calls = [await peer.start_call("echo", {"text": str(n)}) for n in range(50)]

    for number, call in enumerate(calls):
        assert (await call.result())["content"][0]["text"] == str(number)


async def test_text_beyond_ascii_is_returned_unchanged(serve: Serve) -> None:
    peer = await serve(echo)
    text = "grüße 你好 😀\u2028\u0000\n\t"

    assert await peer.text("echo", {"text": text}) == text
