"""The decision about an HTTP request, check by check, without a socket."""

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
from tests.error_codes import HEADER_MISMATCH, INVALID_PARAMS, INVALID_REQUEST, PARSE_ERROR

MODERN = MODERN_VERSIONS[-1]
META = {PROTOCOL_VERSION: MODERN, CLIENT_CAPABILITIES: {}}
SESSION = {"mcp-session-id": "s"}


def headers(values: dict[str, str]) -> Headers:
    return Headers.of([(k.encode(), v.encode()) for k, v in values.items()])


def decide(body: Any, **sent: str) -> Decision:
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
MATCHING = {"mcp_protocol_version": MODERN, "mcp_method": "tools/call", "mcp_name": "t"}


def test_modern_request_needs_no_session() -> None:
    decision = decide(request(name="t", arguments={}, _meta=META), **MATCHING, mcp_session_id="ignored")

    assert isinstance(decision, AnswerMessage)
    assert isinstance(decision.message, Request)


@pytest.mark.parametrize(
    ("body", "sent", "expected"),
    [
        # 1. parse
        (b"{", MATCHING, (400, PARSE_ERROR, None)),
        (b"5", MATCHING, (400, INVALID_REQUEST, None)),
        ({"jsonrpc": "2.0", "id": 7, "method": 5}, MATCHING, (400, INVALID_REQUEST, 7)),
        # 2. the envelope, even if the headers are valid
        (request(name="t"), MATCHING, (400, INVALID_PARAMS, 7)),
        (request(name="t", _meta={PROTOCOL_VERSION: MODERN}), MATCHING, (400, INVALID_PARAMS, 7)),
        (request(name="t", _meta={CLIENT_CAPABILITIES: {}}), MATCHING, (400, INVALID_PARAMS, 7)),
        (request(name="t", _meta={**META, PROTOCOL_VERSION: 5}), MATCHING, (400, INVALID_PARAMS, 7)),
        (request(name="t", _meta={**META, CLIENT_CAPABILITIES: []}), MATCHING, (400, INVALID_PARAMS, 7)),
        (request(name="t", _meta={PROTOCOL_VERSION: MODERN}), {}, (400, INVALID_PARAMS, 7)),
        (request(name="t", _meta={**META, CLIENT_INFO: None}), MATCHING, (400, INVALID_PARAMS, 7)),
        (request(name="t", _meta={**META, LOG_LEVEL: 5}), MATCHING, (400, INVALID_PARAMS, 7)),
        # 3. headers against body
        (request(name="t", _meta=META), {}, (400, HEADER_MISMATCH, 7)),
        (request(name="t", _meta=META), {**MATCHING, "mcp_protocol_version": "x"}, (400, HEADER_MISMATCH, 7)),
        (request(name="t", _meta={**META, PROTOCOL_VERSION: "x"}), MATCHING, (400, HEADER_MISMATCH, 7)),
        (request(name="t", _meta=META), {**MATCHING, "mcp_method": "x"}, (400, HEADER_MISMATCH, 7)),
        (request(name="t", _meta=META), {**MATCHING, "mcp_name": "x"}, (400, HEADER_MISMATCH, 7)),
        # equal as text, but the decoded header value differs or is not legal
        (request(name=ENCODED, _meta=META), {**MATCHING, "mcp_name": ENCODED}, (400, HEADER_MISMATCH, 7)),
        (request(name="Ã©", _meta=META), {**MATCHING, "mcp_name": "é"}, (400, HEADER_MISMATCH, 7)),
        (request(name="a, a", _meta=META), {**MATCHING, "mcp_name": "a, b"}, (400, HEADER_MISMATCH, 7)),
        # 6. parameters
        (request(name="t", arguments={"region": "eu"}, _meta=META), MATCHING, (400, HEADER_MISMATCH, 7)),
        # not for a per-request revision
        ([request(name="t", _meta=META)], MATCHING, (400, INVALID_REQUEST, None)),
        ([request(name="t", _meta=META)], SESSION, (400, INVALID_REQUEST, None)),
        ({"jsonrpc": "2.0", "id": 7, "result": {}}, MATCHING, (400, INVALID_REQUEST, None)),
    ],
)
def test_first_failing_check_determines_the_refusal(
    body: Any, sent: dict[str, str], expected: tuple[int, int, Any]
) -> None:
    assert refused(decide(body, **sent)) == expected


def test_repeated_header_is_refused_even_if_its_joined_values_match_the_body() -> None:
    sent = headers({name.replace("_", "-"): value for name, value in MATCHING.items()})
    twice = Headers.of([*((name.encode(), sent[name].encode()) for name in sent if name != "mcp-name"), *2 * [NAME]])

    decision = check_post(twice, decode(json.dumps(request(name="t, t", _meta=META)).encode()), lambda tool: {})

    assert refused(decision) == (400, HEADER_MISMATCH, 7)


def test_unsupported_version_is_left_to_the_engine_before_parameters_are_checked() -> None:
    meta = {**META, PROTOCOL_VERSION: "v999"}
    body = request(name="t", arguments={"region": "eu"}, _meta=meta)

    assert isinstance(decide(body, **{**MATCHING, "mcp_protocol_version": "v999"}), AnswerMessage)


def test_repeated_and_empty_headers_are_compared_as_sent() -> None:
    sent = Headers.of([(b"content-type", b"application/json"), *50 * [(b"x", b"")], *50 * [(b"y", b"1")]])
    size = sum(len(name) + len(value) + 4 for name, value in [("content-type", "application/json")])
    size += 50 * 5 + 50 * 6

    assert check_head("POST", sent, header_bytes=size, body_bytes=1) is None
    refusal = check_head("POST", sent, header_bytes=size - 1, body_bytes=1)
    assert isinstance(refusal, HTTPRefusal)
    assert refusal.status == 431


def test_modern_notification_needs_only_the_version_header() -> None:
    body = {"jsonrpc": "2.0", "method": "notifications/x"}

    decision = decide(body, mcp_protocol_version=MODERN)
    assert decision == AnswerMessage(Notification("notifications/x"))


def test_handshake_messages_are_routed_to_their_session() -> None:
    decision = decide(request("tools/list"), mcp_session_id="s", mcp_protocol_version=HANDSHAKE_VERSIONS[-1])
    assert isinstance(decision, Deliver)
    assert decision.session == "s"
    batch = decide([request("tools/list")], mcp_session_id="s")
    assert isinstance(batch, Deliver)
    assert isinstance(batch.incoming, Batch)
    assert isinstance(decide({"jsonrpc": "2.0", "id": 1, "result": {}}, mcp_session_id="s"), Deliver)
    assert isinstance(decide(request("initialize")), Initialize)
    # A client may name an unknown version here: the handshake negotiates it.
    assert isinstance(decide(request("initialize"), mcp_protocol_version="2099-01-01"), Initialize)


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
def test_handshake_message_with_wrong_headers_is_refused(body: Any, sent: dict[str, str]) -> None:
    assert refused(decide(body, **sent)) == (400, INVALID_REQUEST, 7)


def test_get_and_delete_need_a_session_of_a_handshake_revision() -> None:
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
def test_request_head_is_checked(method: str, sent: dict[str, str], status: int | None) -> None:
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


@given(
    JSON, st.dictionaries(st.sampled_from([*MATCHING, "mcp_session_id"]), st.sampled_from(["t", "tools/call", MODERN]))
)
def test_every_body_gets_a_decision(body: Any, sent: dict[str, str]) -> None:
    """Every body leads to a decision, and refusals have a 4xx status."""
    decision = decide(body, **sent)
    if isinstance(decision, HTTPRefusal):
        assert 400 <= decision.status < 500
        assert decision.error is not None
