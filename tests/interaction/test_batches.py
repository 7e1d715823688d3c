"""JSON-RPC batches: legal in 2025-03-26 only."""

from __future__ import annotations

from typing import Any

import trio

from mcptrio import Context, tool
from tests.error_codes import INVALID_REQUEST, METHOD_NOT_FOUND
from tests.interaction.applies import BATCHES, HANDSHAKE, only, without
from tests.interaction.client import CAPABILITIES, INFO, VERSION, Peer
from tests.interaction.serving import Serve


@tool
async def echo(text: str) -> str:
    """Echo."""
    return text


@tool
async def slow(ctx: Context) -> str:
    """Report progress, and take a while."""
    for step in range(3):
        await ctx.report_progress(step + 1, 3)
        await trio.sleep(0.01)
    return "slow"


def _call(id: int, text: str) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": id, "method": "tools/call", "params": {"name": "echo", "arguments": {"text": text}}}


async def _answers(peer: Peer, batch: list[Any]) -> dict[Any, Any]:
    await peer.send(batch)
    array = await peer.until(lambda value: isinstance(value, list))
    return {message["id"]: message for message in array}


@only(revisions=BATCHES, because="only 2025-03-26 has batches")
async def test_batch_is_answered_with_one_array(serve: Serve) -> None:
    peer = await serve(echo)

    answers = await _answers(peer, [_call(1001, "a"), _call(1002, "b")])

    assert {id: answer["result"]["content"][0]["text"] for id, answer in answers.items()} == {1001: "a", 1002: "b"}


@only(revisions=BATCHES, because="only 2025-03-26 has batches")
async def test_errors_and_results_share_an_array(serve: Serve) -> None:
    peer = await serve(echo)

    answers = await _answers(peer, [_call(1001, "a"), {"jsonrpc": "2.0", "id": 1002, "method": "nobody/knows"}])

    assert answers[1001]["result"]["content"][0]["text"] == "a"
    assert answers[1002]["error"]["code"] == METHOD_NOT_FOUND


@only(revisions=BATCHES, because="only 2025-03-26 has batches")
async def test_notifications_in_a_batch_get_no_answer(serve: Serve) -> None:
    peer = await serve(echo)

    answers = await _answers(peer, [{"jsonrpc": "2.0", "method": "notifications/cancelled"}, _call(1001, "a")])

    assert list(answers) == [1001]


@only(revisions=BATCHES, because="only 2025-03-26 has batches")
async def test_batch_of_notifications_is_not_answered(serve: Serve) -> None:
    peer = await serve(echo)

    call = await peer.send([{"jsonrpc": "2.0", "method": "notifications/nobody"}] * 2)

    if call.exchange is not None:
        with peer.deadline():
            await call.exchange.ended.wait()
        assert call.exchange.status == 202
    assert await peer.text("echo", {"text": "a"}) == "a"
    assert [value for value in peer.received if isinstance(value, list) or "error" in value] == []


@only(revisions=BATCHES, because="only 2025-03-26 has batches")
async def test_progress_does_not_wait_for_the_array(serve: Serve) -> None:
    peer = await serve(echo, slow)
    call = {
        "jsonrpc": "2.0",
        "id": 1001,
        "method": "tools/call",
        "params": {"name": "slow", "_meta": {"progressToken": "p"}},
    }

    answers = await _answers(peer, [call, _call(1002, "a")])

    assert set(answers) == {1001, 1002}
    assert isinstance(peer.received[-1], list)
    assert peer.notes("notifications/progress")


@only(revisions=BATCHES, because="only 2025-03-26 has batches")
async def test_cancelled_request_is_left_out_of_the_array(serve: Serve) -> None:
    peer = await serve(echo, slow)
    call = {"jsonrpc": "2.0", "id": 1001, "method": "tools/call", "params": {"name": "slow"}}
    cancel = {"jsonrpc": "2.0", "method": "notifications/cancelled", "params": {"requestId": 1001}}

    answers = await _answers(peer, [call, _call(1002, "a"), cancel])

    assert list(answers) == [1002]


@only(revisions=BATCHES, because="only 2025-03-26 has batches")
async def test_initialize_is_refused_inside_a_batch(serve: Serve) -> None:
    peer = await serve(echo)
    params = {"protocolVersion": "2025-03-26", "capabilities": {}, "clientInfo": INFO}

    await peer.send([{"jsonrpc": "2.0", "id": 1, "method": "initialize", "params": params}, _call(2, "a")])
    refusal = await peer.until(lambda value: "error" in value)

    assert refusal["error"]["code"] == INVALID_REQUEST


@only(revisions=BATCHES, because="only 2025-03-26 has batches")
async def test_same_id_twice_in_a_batch_is_refused_once(serve: Serve) -> None:
    peer = await serve(echo)

    await peer.send([_call(1001, "a"), _call(1001, "b")])
    array = await peer.until(lambda value: isinstance(value, list))

    assert sorted("error" in answer for answer in array) == [False, True]


@only(revisions=BATCHES, transports=["memory", "stdio"], because="HTTP looks for envelopes before the session does")
async def test_request_with_an_envelope_is_refused_inside_a_batch(serve: Serve) -> None:
    peer = await serve(echo)
    modern = {**_call(1001, "a")}
    modern["params"] = {**modern["params"], "_meta": {VERSION: "2026-07-28", CAPABILITIES: {}}}

    await peer.send([modern, _call(1002, "b")])
    refusal = await peer.until(lambda value: "error" in value)

    assert refusal["error"]["code"] == INVALID_REQUEST


@without(revisions=BATCHES, because="2025-03-26 has batches")
async def test_array_is_refused_in_revisions_without_batches(serve: Serve) -> None:
    peer = await serve(echo)

    call = await peer.send([_call(1001, "a"), _call(1002, "b")])
    refusal = await peer.until(lambda value: "error" in value)

    assert refusal["error"]["code"] == INVALID_REQUEST
    assert "id" not in refusal
    assert call.exchange is None or call.exchange.status == 400
    assert await peer.text("echo", {"text": "a"}) == "a"


@only(revisions=HANDSHAKE[1:2], transports=["stdio", "http"], because="in memory, an empty batch cannot be sent")
async def test_empty_array_is_refused(serve: Serve) -> None:
    peer = await serve(echo)

    await peer.send_bytes(b"[]")
    refusal = await peer.until(lambda value: "error" in value)

    assert refusal["error"]["code"] == INVALID_REQUEST


@only(revisions=BATCHES, transports=["stdio", "http"], because="in memory, only valid messages can be sent")
async def test_malformed_batch_item_gets_its_own_error(serve: Serve) -> None:
    peer = await serve(echo)

    await peer.send([3, _call(1001, "a")])
    array = await peer.until(lambda value: isinstance(value, list))

    assert sorted(answer.get("error", {}).get("code", 0) for answer in array) == [INVALID_REQUEST, 0]
