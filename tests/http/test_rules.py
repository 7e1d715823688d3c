"""The decision about a request, check by check, without a socket."""

from __future__ import annotations

import json
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcptrio.http.headers import Headers
from mcptrio.http.server.rules import (
    AnswerMessage,
    Decision,
    Deliver,
    EndSession,
    HTTPRefusal,
    Initialize,
    Listen,
    Resume,
    check_bodiless,
    check_head,
    check_post,
)
from mcptrio.protocol.envelope import CLIENT_CAPABILITIES, CLIENT_INFO, LOG_LEVEL, PROTOCOL_VERSION
from mcptrio.protocol.jsonrpc import decode
from mcptrio.protocol.messages import Batch, Notification, Request
from mcptrio.protocol.revisions.registry import HANDSHAKE_VERSIONS, MODERN_VERSIONS

MODERN = MODERN_VERSIONS[-1]
META = {PROTOCOL_VERSION: MODERN, CLIENT_CAPABILITIES: {}}
SESSION = {"mcp-session-id": "s"}


def headers(values: dict[str, str]) -> Headers:
    return Headers.of([(k.encode(), v.encode()) for k, v in values.items()])


def judge(body: Any, **sent: str) -> Decision:
    data = body if isinstance(body, bytes) else json.dumps(body).encode()
    values = {k.replace("_", "-"): v for k, v in sent.items()}
    return check_post(headers(values), decode(data), lambda tool: {"region": ("region",)} if tool == "t" else {})


def request(method: str = "tools/call", **params: Any) -> dict[str, Any]:
    return {"jsonrpc": "2.0", "id": 7, "method": method, "params": params}


def refused(decision: Decision) -> tuple[int, int | None, Any]:
    assert isinstance(decision, HTTPRefusal)
    assert decision.error is not None
    return decision.status, decision.error.code, decision.error.id


NAME = (b"mcp-name", b"t")
ENCODED = "=?base64?dA==?="
RIGHT = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "t"}


def test_modern_request_is_answered_by_itself() -> None:
    decision = judge(request(name="t", arguments={}, _meta=META), **RIGHT, mcp_session_id="ignored")

    assert isinstance(decision, AnswerMessage)
    assert isinstance(decision.message, Request)


@pytest.mark.parametrize(
    ("body", "sent", "expected"),
    [
        # 1. parse
        (b"{", RIGHT, (400, -32700, None)),
        (b"5", RIGHT, (400, -32600, None)),
        ({"jsonrpc": "2.0", "id": 7, "method": 5}, RIGHT, (400, -32600, 7)),
        # 2. the envelope, even if the headers are right
        (request(name="t"), RIGHT, (400, -32602, 7)),
        (request(name="t", _meta={PROTOCOL_VERSION: MODERN}), RIGHT, (400, -32602, 7)),
        (request(name="t", _meta={CLIENT_CAPABILITIES: {}}), RIGHT, (400, -32602, 7)),
        (request(name="t", _meta={**META, PROTOCOL_VERSION: 5}), RIGHT, (400, -32602, 7)),
        (request(name="t", _meta={**META, CLIENT_CAPABILITIES: []}), RIGHT, (400, -32602, 7)),
        (request(name="t", _meta={PROTOCOL_VERSION: MODERN}), {}, (400, -32602, 7)),
        (request(name="t", _meta={**META, CLIENT_INFO: None}), RIGHT, (400, -32602, 7)),
        (request(name="t", _meta={**META, LOG_LEVEL: 5}), RIGHT, (400, -32602, 7)),
        # 3. headers against body
        (request(name="t", _meta=META), {}, (400, -32020, 7)),
        (request(name="t", _meta=META), {**RIGHT, "mcp_protocol_version": "x"}, (400, -32020, 7)),
        (request(name="t", _meta={**META, PROTOCOL_VERSION: "x"}), RIGHT, (400, -32020, 7)),
        (request(name="t", _meta=META), {**RIGHT, "mcp_method": "x"}, (400, -32020, 7)),
        (request(name="t", _meta=META), {**RIGHT, "mcp_name": "x"}, (400, -32020, 7)),
        # literally equal, but the header's value is another one, or not legal
        (request(name=ENCODED, _meta=META), {**RIGHT, "mcp_name": ENCODED}, (400, -32020, 7)),
        (request(name="Ã©", _meta=META), {**RIGHT, "mcp_name": "é"}, (400, -32020, 7)),
        (request(name="a, a", _meta=META), {**RIGHT, "mcp_name": "a, b"}, (400, -32020, 7)),
        # 6. parameters
        (request(name="t", arguments={"region": "eu"}, _meta=META), RIGHT, (400, -32020, 7)),
        # not for a per-request revision
        ([request(name="t", _meta=META)], RIGHT, (400, -32600, None)),
        ([request(name="t", _meta=META)], SESSION, (400, -32600, None)),
        ({"jsonrpc": "2.0", "id": 7, "result": {}}, RIGHT, (400, -32600, None)),
    ],
)
def test_ladder(body: Any, sent: dict[str, str], expected: tuple[int, int, Any]) -> None:
    assert refused(judge(body, **sent)) == expected


def test_a_repeated_header_is_refused_although_its_values_joined_are_as_in_the_body() -> None:
    sent = headers({name.replace("_", "-"): value for name, value in RIGHT.items()})
    twice = Headers.of([*((name.encode(), sent[name].encode()) for name in sent if name != "mcp-name"), *2 * [NAME]])

    decision = check_post(twice, decode(json.dumps(request(name="t, t", _meta=META)).encode()), lambda tool: {})

    assert refused(decision) == (400, -32020, 7)


def test_unsupported_version_is_the_engines_to_refuse_before_parameters() -> None:
    meta = {**META, PROTOCOL_VERSION: "v999"}
    body = request(name="t", arguments={"region": "eu"}, _meta=meta)

    assert isinstance(judge(body, **{**RIGHT, "mcp_protocol_version": "v999"}), AnswerMessage)


def test_repeated_and_empty_headers_count_as_they_are_sent() -> None:
    sent = Headers.of([(b"content-type", b"application/json"), *50 * [(b"x", b"")], *50 * [(b"y", b"1")]])
    size = sum(len(name) + len(value) + 4 for name, value in [("content-type", "application/json")])
    size += 50 * 5 + 50 * 6

    assert check_head("POST", sent, header_bytes=size, body_bytes=1) is None
    refusal = check_head("POST", sent, header_bytes=size - 1, body_bytes=1)
    assert isinstance(refusal, HTTPRefusal)
    assert refusal.status == 431


def test_modern_notification_needs_no_more_than_the_version() -> None:
    body = {"jsonrpc": "2.0", "method": "notifications/x"}

    decision = judge(body, mcp_protocol_version=MODERN)
    assert decision == AnswerMessage(Notification("notifications/x"))


def test_handshake_messages_go_to_their_session() -> None:
    decision = judge(request("tools/list"), mcp_session_id="s", mcp_protocol_version=HANDSHAKE_VERSIONS[-1])
    assert isinstance(decision, Deliver)
    assert decision.session == "s"
    batch = judge([request("tools/list")], mcp_session_id="s")
    assert isinstance(batch, Deliver)
    assert isinstance(batch.incoming, Batch)
    assert isinstance(judge({"jsonrpc": "2.0", "id": 1, "result": {}}, mcp_session_id="s"), Deliver)
    assert isinstance(judge(request("initialize")), Initialize)
    # A client may name a version we have never heard of here: that is what the handshake is for.
    assert isinstance(judge(request("initialize"), mcp_protocol_version="2099-01-01"), Initialize)


@pytest.mark.parametrize(
    ("body", "sent"),
    [
        (request("tools/list"), {}),
        (request("tools/list"), {"mcp_session_id": ""}),
        (request("tools/list"), {"mcp_session_id": "s", "mcp_protocol_version": "1999"}),
        (request("tools/list"), {"mcp_session_id": "s", "mcp_protocol_version": ""}),
        (request("initialize"), {"mcp_session_id": "s"}),
    ],
)
def test_handshake_refusals(body: Any, sent: dict[str, str]) -> None:
    assert refused(judge(body, **sent)) == (400, -32600, 7)


def test_get_and_delete() -> None:
    assert check_bodiless("GET", headers(SESSION)) == Listen("s")
    assert check_bodiless("GET", headers({**SESSION, "last-event-id": "e"})) == Resume("s", "e")
    assert check_bodiless("DELETE", headers(SESSION)) == EndSession("s")
    for method in ("GET", "DELETE"):
        assert refused(check_bodiless(method, headers({})))[0] == 400
        assert refused(check_bodiless(method, headers({**SESSION, "mcp-protocol-version": "x"})))[0] == 400
        refusal = check_bodiless(method, headers({**SESSION, "mcp-protocol-version": MODERN}))
        assert isinstance(refusal, HTTPRefusal)
        assert (refusal.status, refusal.headers) == (405, ((b"allow", b"POST"),))


POST = {"content-type": "application/json", "accept": "application/json, text/event-stream"}


@pytest.mark.parametrize(
    ("method", "sent", "status"),
    [
        ("POST", POST, None),
        ("POST", {"content-type": "application/json"}, None),
        ("POST", {**POST, "content-length": "100"}, None),
        ("POST", {**POST, "content-length": "101"}, 413),
        ("POST", {**POST, "content-length": "9" * 5000}, 400),
        ("POST", {**POST, "content-length": "²"}, 400),
        ("POST", {**POST, "content-length": "5", "transfer-encoding": "chunked"}, 400),
        ("POST", {**POST, "content-type": "text/plain"}, 415),
        ("POST", {**POST, "accept": "text/html"}, 406),
        ("POST", {**POST, "x": "y" * 10_000}, 431),
        ("GET", {"accept": "text/event-stream"}, None),
        ("GET", {"accept": "application/json"}, 406),
        ("GET", {}, 406),
        ("DELETE", {}, None),
        ("PUT", POST, 405),
        ("OPTIONS", {}, 405),
        ("X" * 1000, {}, 405),
    ],
)
def test_head(method: str, sent: dict[str, str], status: int | None) -> None:
    refusal = check_head(method, headers(sent), header_bytes=8192, body_bytes=100)

    assert (refusal.status if refusal else None) == status


JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-5, 5) | st.text(max_size=5),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(
            st.sampled_from(["jsonrpc", "id", "method", "params", "_meta", "name", PROTOCOL_VERSION, "arguments"]),
            inner | st.sampled_from(["2.0", "tools/call", "initialize", MODERN]),
            max_size=5,
        )
    ),
    max_leaves=12,
)


@given(JSON, st.dictionaries(st.sampled_from([*RIGHT, "mcp_session_id"]), st.sampled_from(["t", "tools/call", MODERN])))
def test_every_body_gets_a_decision(body: Any, sent: dict[str, str]) -> None:
    """Total: whatever comes, there is an answer, and refusals are 4xx."""
    decision = judge(body, **sent)
    if isinstance(decision, HTTPRefusal):
        assert 400 <= decision.status < 500
        assert decision.error is not None
