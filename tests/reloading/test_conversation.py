"""The messages that a new worker needs, and those that must not reach the client."""

from __future__ import annotations

from typing import Any

import pytest

from mcptrio.cli.dev.session_state import OWN, SessionState
from mcptrio.protocol.messages import ErrorResponse, Message, Notification, Request, RequestId, Response
from mcptrio.protocol.revisions.registry import HANDSHAKE_VERSIONS, REVISIONS
from tests.error_codes import PARSE_ERROR, RESOURCE_NOT_FOUND

__all__: list[str] = []

SUBSCRIPTION = "io.modelcontextprotocol/subscriptionId"
LISTS = ["tools", "prompts", "resources"]


def exchange(talk: SessionState[str], worker: str, id: RequestId, method: str, **params: Any) -> None:
    talk.add_request(Request(id, method, params), worker)
    result = {"protocolVersion": params["protocolVersion"]} if method == "initialize" else {}
    assert talk.handle_response(Response(id, result), worker)


def introduced(revision: str = "2025-11-25") -> SessionState[str]:
    talk: SessionState[str] = SessionState()
    exchange(talk, "old", 0, "initialize", protocolVersion=revision)
    talk.handle_notification(Notification("notifications/initialized"))
    return talk


def told(messages: list[Message]) -> list[str]:
    return [message.method for message in messages if isinstance(message, Request | Notification)]


def acknowledged(id: RequestId) -> Notification:
    return Notification("notifications/subscriptions/acknowledged", {"_meta": {SUBSCRIPTION: id}})


def test_client_without_requests_has_no_messages_to_replay() -> None:
    talk: SessionState[str] = SessionState()

    assert talk.replay("new") == []
    assert talk.list_changes() == []


def test_accepted_requests_are_replayed_with_other_ids() -> None:
    talk = introduced()
    exchange(talk, "old", 1, "logging/setLevel", level="info")
    exchange(talk, "old", 2, "logging/setLevel", level="debug")
    for id, uri in enumerate(("a:1", "a:2", "a:3"), 3):
        exchange(talk, "old", id, "resources/subscribe", uri=uri)
    exchange(talk, "old", 6, "resources/unsubscribe", uri="a:2")
    replayed = talk.replay("new")

    assert told(replayed) == [
        "initialize",
        "notifications/initialized",
        "logging/setLevel",
        "resources/subscribe",
        "resources/subscribe",
    ]
    requests = [message for message in replayed if isinstance(message, Request)]
    assert [request.params for request in requests[1:]] == [{"level": "debug"}, {"uri": "a:1"}, {"uri": "a:3"}]
    ids = [request.id for request in (*requests, *(each for each in talk.replay("newer") if isinstance(each, Request)))]
    assert len(set(ids)) == 8
    assert all(str(id).startswith(OWN) for id in ids)


def test_refused_requests_are_not_replayed() -> None:
    talk = introduced()
    talk.add_request(Request(1, "resources/subscribe", {"uri": "a:1"}), "old")
    assert talk.handle_response(ErrorResponse(1, RESOURCE_NOT_FOUND, "no"), "old")

    assert told(talk.replay("new")) == ["initialize", "notifications/initialized"]


def test_unanswered_initialize_is_sent_to_the_new_worker() -> None:
    talk: SessionState[str] = SessionState()
    talk.add_request(Request(0, "initialize", {"protocolVersion": "2025-11-25"}), "old")
    [moved] = talk.replay("new")

    assert isinstance(moved, Request)
    assert moved.id == 0
    assert not talk.handle_response(Response(0, {}), "old")
    assert talk.handle_response(Response(0, {}), "new")


@pytest.mark.parametrize("revision", HANDSHAKE_VERSIONS)
def test_every_list_is_notified_in_a_session(revision: str) -> None:
    talk = introduced(revision)

    assert told([*talk.list_changes()]) == [f"notifications/{each}/list_changed" for each in LISTS]
    assert talk.batches == REVISIONS[revision].batches


def test_no_notification_before_the_client_is_ready() -> None:
    talk: SessionState[str] = SessionState()
    exchange(talk, "old", 0, "initialize", protocolVersion="2025-11-25")

    assert talk.list_changes() == []
    assert told(talk.replay("new")) == ["initialize"]


def test_listener_stays_subscribed_after_a_reload() -> None:
    talk: SessionState[str] = SessionState()
    listen = Request("L", "subscriptions/listen", {"notifications": {"toolsListChanged": True}})
    talk.add_request(listen, "old")
    assert not talk.is_repeated(acknowledged("L"))

    assert talk.replay("new") == [listen]
    assert talk.is_repeated(acknowledged("L"))
    assert talk.list_changes() == [Notification("notifications/tools/list_changed", {"_meta": {SUBSCRIPTION: "L"}})]
    assert talk.unanswered() == []
    assert talk.abandon("new") == []
    assert not talk.handle_response(Response("L", {}), "old")
    assert talk.handle_response(Response("L", {}), "new")
    assert talk.list_changes() == []


def test_new_worker_acknowledges_a_pending_listener() -> None:
    talk: SessionState[str] = SessionState()
    talk.add_request(Request("L", "subscriptions/listen", {"notifications": {}}), "old")
    talk.replay("new")

    assert not talk.is_repeated(acknowledged("L"))


def test_each_request_is_answered_once_by_its_worker() -> None:
    talk = introduced()
    for id in (1, "1", 2):
        talk.add_request(Request(id, "tools/call", {}), "old")
    talk.replay("new")

    assert not talk.handle_response(Response(1, {}), "new")
    assert talk.handle_response(Response(1, {}), "old")
    assert not talk.handle_response(Response(1, {}), "old")
    assert not talk.handle_response(ErrorResponse(None, PARSE_ERROR, "?"), "old")
    assert talk.cancel_request(2) == "old"
    assert talk.cancel_request(2) is None
    assert talk.cancel_request(["2"]) is None
    assert talk.abandon("old") == ["1"]
    assert talk.unanswered("old") == []
