"""subscriptions/listen: acknowledged first, filtered, several streams at once, three ways to end."""

from __future__ import annotations

from typing import Any

import trio

from mcptrio import prompt, resource, tool
from mcptrio.serving import ServerLimits, Timeouts
from tests.error_codes import INTERNAL_ERROR, INVALID_PARAMS
from tests.interaction.applies import MODERN, only
from tests.interaction.client import SUBSCRIPTION_ID, Call, Peer
from tests.interaction.serving import Serve

LISTEN = "subscriptions/listen"
ACKNOWLEDGED = "notifications/subscriptions/acknowledged"
UPDATED = "notifications/resources/updated"
ONLY = "subscriptions/listen is new in 2026-07-28"


@tool
async def echo(text: str) -> str:
    """Echo."""
    return text


@resource("memo://{name}")
async def memo(name: str) -> str:
    """A memo."""
    return name


@prompt
async def greet(name: str) -> str:
    """Greet."""
    return name


async def _another() -> str:
    """Another one."""
    return ""


async def _listen(peer: Peer, *, id: Any = None, **wanted: Any) -> tuple[Call, dict[str, Any]]:
    call = await peer.start(LISTEN, {"notifications": wanted}, id=id)
    acknowledged = await peer.until(ACKNOWLEDGED)
    return call, acknowledged["params"]


@only(revisions=MODERN, because=ONLY)
async def test_acknowledgement_lists_the_supported_subscriptions(serve: Serve) -> None:
    peer = await serve(echo, memo)

    call, acknowledged = await _listen(
        peer, toolsListChanged=True, promptsListChanged=True, resourceSubscriptions=["memo://a"]
    )

    honoured = acknowledged["notifications"]
    assert honoured["toolsListChanged"] is True
    assert not honoured.get("promptsListChanged")
    assert honoured["resourceSubscriptions"] == ["memo://a"]
    assert acknowledged["_meta"][SUBSCRIPTION_ID] == call.id
    assert peer.received[0]["method"] == ACKNOWLEDGED


@only(revisions=MODERN, because=ONLY)
async def test_subscription_id_is_the_request_id_of_the_same_type(serve: Serve) -> None:
    peer = await serve(memo)

    for id in (5, "5", "x"):
        _, acknowledged = await _listen(peer, id=id, resourceSubscriptions=["memo://a"])
        assert acknowledged["_meta"][SUBSCRIPTION_ID] == id
    serve.server.notify_resource_updated("memo://a")
    notes = [await peer.until(UPDATED) for _ in range(3)]

    ids = [note["params"]["_meta"][SUBSCRIPTION_ID] for note in notes]
    assert sorted(ids, key=repr) == ["5", "x", 5]


@only(revisions=MODERN, because=ONLY)
async def test_only_requested_changes_are_notified(serve: Serve) -> None:
    peer = await serve(echo, memo, greet)
    await _listen(peer, toolsListChanged=True, resourceSubscriptions=["memo://a"])

    serve.server.add_prompt(_another, name="another_prompt")
    serve.server.add_resource(_another, "another://one")
    serve.server.notify_resource_updated("memo://b")
    serve.server.add_tool(_another, name="another")
    await peer.until("notifications/tools/list_changed")

    assert [message.get("method") for message in peer.received] == [ACKNOWLEDGED, "notifications/tools/list_changed"]


@only(revisions=MODERN, because=ONLY)
async def test_each_stream_receives_every_change(serve: Serve) -> None:
    peer = await serve(echo, memo)
    first, _ = await _listen(peer, toolsListChanged=True)
    second, _ = await _listen(peer, toolsListChanged=True, resourceSubscriptions=["memo://a"])

    serve.server.notify_resource_updated("memo://a")
    serve.server.add_tool(_another, name="another")
    notes = [await peer.until("notifications/tools/list_changed") for _ in range(2)]

    assert {note["params"]["_meta"][SUBSCRIPTION_ID] for note in notes} == {first.id, second.id}
    (updated,) = peer.notes(UPDATED)
    assert updated["_meta"][SUBSCRIPTION_ID] == second.id
    if first.exchange is not None:
        assert all(message["params"]["_meta"][SUBSCRIPTION_ID] == first.id for message in first.messages)


@only(revisions=MODERN, because=ONLY)
async def test_cancelled_stream_receives_no_more_changes(serve: Serve) -> None:
    peer = await serve(echo)
    call, _ = await _listen(peer, toolsListChanged=True)
    other, _ = await _listen(peer, toolsListChanged=True)

    await call.cancel()
    await peer.eventually(lambda: serve.server.status.in_flight == 1)
    serve.server.add_tool(_another, name="another")
    note = await peer.until("notifications/tools/list_changed")

    assert note["params"]["_meta"][SUBSCRIPTION_ID] == other.id
    assert call.answer is None


@only(revisions=MODERN, because=ONLY)
async def test_shutdown_ends_the_stream_with_a_result(serve: Serve) -> None:
    peer = await serve(echo)
    call, _ = await _listen(peer, toolsListChanged=True)

    serve.shutdown.set()
    result = await call.result()
    with peer.deadline():
        await serve.closed.wait()

    assert result["resultType"] == "complete"
    assert result["_meta"][SUBSCRIPTION_ID] == call.id


@only(revisions=MODERN, because=ONLY)
async def test_timeouts_do_not_apply_to_a_stream(serve: Serve) -> None:
    peer = await serve(echo, timeouts=Timeouts(request=0.5, idle=0.5))
    call, _ = await _listen(peer, toolsListChanged=True)

    await trio.sleep(0.6)
    serve.server.add_tool(_another, name="another")
    await peer.until("notifications/tools/list_changed")

    assert call.answer is None


@only(revisions=MODERN, because=ONLY)
async def test_other_requests_continue_during_a_stream(serve: Serve) -> None:
    peer = await serve(echo)
    await _listen(peer, toolsListChanged=True)

    assert await peer.text("echo", {"text": "a"}) == "a"


@only(revisions=MODERN, because=ONLY)
async def test_streams_over_the_limit_are_refused(serve: Serve) -> None:
    peer = await serve(echo, limits=ServerLimits(listen_streams=2))
    for _ in range(2):
        await _listen(peer, toolsListChanged=True)

    call = await peer.start(LISTEN, {"notifications": {"toolsListChanged": True}})
    error = await call.error()

    assert error["code"] == INTERNAL_ERROR
    assert "2 streams" in error["message"]
    assert error["data"]["retryAfter"] > 0
    if call.exchange is not None:
        assert call.exchange.status == 503
        assert int(call.exchange.headers["retry-after"]) > 0


@only(revisions=MODERN, because=ONLY)
async def test_uris_over_the_limit_are_refused(serve: Serve) -> None:
    peer = await serve(memo, limits=ServerLimits(subscriptions=2))

    wanted = {"resourceSubscriptions": ["memo://a", "memo://b", "memo://c"]}
    error = await peer.error(LISTEN, {"notifications": wanted})

    assert error["code"] == INVALID_PARAMS


@only(revisions=MODERN, because=ONLY)
async def test_filter_of_another_type_is_refused(serve: Serve) -> None:
    peer = await serve(memo)

    for params in (
        {},
        {"notifications": 3},
        {"notifications": {"toolsListChanged": 1}},
        {"notifications": {"resourceSubscriptions": "memo://a"}},
    ):
        assert (await peer.error(LISTEN, params))["code"] == INVALID_PARAMS
