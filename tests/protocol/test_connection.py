"""One connection without a transport: its events, and its robustness against any input."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from mcptrio.errors import InternalError, InvalidParams, MCPError, MethodNotFound
from mcptrio.protocol.connection import Connection
from mcptrio.protocol.events import (
    CancelReceived,
    MessageRefused,
    NotificationReceived,
    RequestReceived,
    ResponseReceived,
    Unexpected,
)
from mcptrio.protocol.jsonrpc import decode, encode
from mcptrio.protocol.messages import ErrorResponse, Malformed, Message, Notification, Request, Response
from mcptrio.protocol.model.base import EmptyResult, Result
from mcptrio.protocol.model.lifecycle import Implementation, InitializeResult, PingParams, ServerCapabilities
from mcptrio.protocol.model.methods import METHODS, Method, Side
from mcptrio.protocol.revisions.registry import HANDSHAKE_VERSIONS, MODERN_VERSIONS, REVISIONS
from mcptrio.protocol.state import Phase
from tests.error_codes import INVALID_PARAMS, INVALID_REQUEST, METHOD_NOT_FOUND, UNSUPPORTED_PROTOCOL_VERSION

__all__: list[str] = []

_PREFIX = "io.modelcontextprotocol/"
MODERN = MODERN_VERSIONS[-1]
INFO = {"name": "client", "version": "1"}
CUSTOM = {
    "acme/ask": Method("acme/ask", None, Result, Side.SERVER),
    "acme/tell": Method("acme/tell", None, None, Side.SERVER),
}


def connection(**options: Any) -> Connection:
    options.setdefault("serves", lambda capability: True)
    return Connection(custom=CUSTOM, server_info={"name": "s", "version": "1"}, **options)


def initialize(id: Any = 0, version: str = "2025-11-25") -> Request:
    return Request(id, "initialize", {"protocolVersion": version, "capabilities": {}, "clientInfo": INFO})


def modern(id: Any, method: str, params: dict[str, Any] | None = None, **meta: Any) -> Request:
    stamp = {_PREFIX + "protocolVersion": MODERN, _PREFIX + "clientCapabilities": {}, **meta}
    return Request(id, method, {**(params or {}), "_meta": stamp})


def answer_initialize(peer: Connection, request: RequestReceived) -> Message:
    version = request.peer.revision.version
    info = Implementation(name="s", version="1")
    return peer.result(
        request, InitializeResult(protocol_version=version, capabilities=ServerCapabilities(), server_info=info)
    )


def ready(version: str = "2025-11-25") -> Connection:
    peer = connection()
    request = peer.receive(initialize(version=version))
    assert isinstance(request, RequestReceived)
    answer_initialize(peer, request)
    peer.receive(Notification("notifications/initialized"))
    assert peer.phase is Phase.READY
    return peer


def refused(peer: Connection, message: Message) -> ErrorResponse:
    event = peer.receive(message)
    assert isinstance(event, MessageRefused), event
    return event.reply


@pytest.mark.parametrize("version", HANDSHAKE_VERSIONS)
def test_handshake_negotiates_the_revision(version: str) -> None:
    peer = ready(version)

    assert peer.peer is not None
    assert peer.peer.revision is REVISIONS[version]
    assert peer.in_flight == {}


@pytest.mark.parametrize("version", ["1999-01-01", MODERN, "", "2025-11-25 "])
def test_unknown_version_is_answered_with_the_newest_handshake_revision(version: str) -> None:
    request = connection().receive(initialize(version=version))

    assert isinstance(request, RequestReceived)
    assert request.peer.revision.version == HANDSHAKE_VERSIONS[-1]


def test_refused_initialize_can_be_repeated() -> None:
    peer = connection()
    first = peer.receive(initialize(1))
    assert isinstance(first, RequestReceived)
    peer.error(first, InternalError("no"))

    assert peer.phase is Phase.NEW
    assert isinstance(peer.receive(initialize(2)), RequestReceived)


@pytest.mark.parametrize("params", [None, {}, {"protocolVersion": 5}, {"protocolVersion": "2025-11-25"}])
def test_invalid_initialize_changes_nothing(params: Any) -> None:
    peer = connection()

    assert refused(peer, Request(1, "initialize", params)).code == INVALID_PARAMS
    assert (peer.phase, peer.in_flight) == (Phase.NEW, {})


def test_client_info_and_capabilities_over_the_size_limit_are_refused() -> None:
    peer = connection()
    for member in ("clientInfo", "capabilities"):
        request = initialize()
        assert request.params is not None
        request.params[member] = {**request.params[member], "experimental": {"x": {"y": "z" * 100_000}}}
        assert "at most" in refused(peer, request).message
    assert (peer.phase, peer.in_flight) == (Phase.NEW, {})


def test_only_ping_is_accepted_before_initialize() -> None:
    peer = connection()

    assert isinstance(peer.receive(Request(1, "ping")), RequestReceived)
    assert refused(peer, Request(2, "tools/list")).code == INVALID_REQUEST
    assert isinstance(peer.receive(Notification("notifications/initialized")), Unexpected)


def test_second_initialize_is_refused() -> None:
    peer = ready()

    assert refused(peer, initialize(9)).code == INVALID_REQUEST


def test_both_eras_are_accepted_on_one_connection() -> None:
    peer = ready("2025-03-26")
    old, new = peer.receive(Request(1, "tools/list")), peer.receive(modern(2, "tools/list"))

    assert isinstance(old, RequestReceived)
    assert isinstance(new, RequestReceived)
    assert (old.peer.revision.version, new.peer.revision.version) == ("2025-03-26", MODERN)


@pytest.mark.parametrize(
    ("meta", "code"),
    [
        ({_PREFIX + "protocolVersion": "1999-01-01", _PREFIX + "clientCapabilities": {}}, UNSUPPORTED_PROTOCOL_VERSION),
        # A handshake revision is refused in an envelope.
        ({_PREFIX + "protocolVersion": "2025-11-25", _PREFIX + "clientCapabilities": {}}, UNSUPPORTED_PROTOCOL_VERSION),
        ({_PREFIX + "protocolVersion": MODERN}, INVALID_PARAMS),
        ({_PREFIX + "clientCapabilities": {}}, INVALID_PARAMS),
        ({_PREFIX + "protocolVersion": 5, _PREFIX + "clientCapabilities": {}}, INVALID_PARAMS),
        ({_PREFIX + "protocolVersion": MODERN, _PREFIX + "clientCapabilities": []}, INVALID_PARAMS),
        (
            {_PREFIX + "protocolVersion": MODERN, _PREFIX + "clientCapabilities": {}, _PREFIX + "logLevel": "x"},
            INVALID_PARAMS,
        ),
        (
            {_PREFIX + "protocolVersion": MODERN, _PREFIX + "clientCapabilities": {}, _PREFIX + "clientInfo": 1},
            INVALID_PARAMS,
        ),
    ],
)
def test_invalid_envelope_is_refused(meta: Any, code: int) -> None:
    peer = connection()
    reply = refused(peer, Request("x", "tools/list", {"_meta": meta}))

    assert (reply.id, reply.code) == ("x", code)
    assert peer.in_flight == {}


@pytest.mark.parametrize(
    "meta",
    [
        {_PREFIX + "clientInfo": None},
        {_PREFIX + "logLevel": None},
        {_PREFIX + "logLevel": "loud"},
        {_PREFIX + "clientCapabilities": {"roots": 1}},
        {_PREFIX + "clientCapabilities": None},
    ],
)
def test_envelope_similar_to_an_accepted_one_is_checked(meta: Any) -> None:
    peer = connection()
    known = {_PREFIX + "clientInfo": INFO, _PREFIX + "logLevel": "info"}
    for accepted in (modern(1, "tools/list"), modern(2, "tools/list", **known), modern(3, "tools/list", **known)):
        assert isinstance(peer.receive(accepted), RequestReceived)

    assert refused(peer, modern(4, "tools/list", **{**known, **meta})).code == INVALID_PARAMS
    assert refused(peer, modern(5, "tools/list", **meta)).code == INVALID_PARAMS


def test_cached_envelope_has_the_log_level_of_its_request() -> None:
    peer = connection()
    for level in ("info", "info", "error", None, None):
        meta = {_PREFIX + "logLevel": level} if level is not None else {}
        event = peer.receive(modern(level or "none", "tools/list", None, **meta))
        assert isinstance(event, RequestReceived)
        assert event.log_level == level
        peer.drop_response(event)


def test_handshake_notification_with_an_envelope_is_refused() -> None:
    meta = {_PREFIX + "protocolVersion": "2025-11-25", _PREFIX + "clientCapabilities": {}}

    assert isinstance(
        connection().receive(Notification("notifications/roots/list_changed", {"_meta": meta})), Unexpected
    )


@pytest.mark.parametrize(
    "method", ["initialize", "ping", "logging/setLevel", "resources/subscribe", "nope", "acme/tell"]
)
def test_methods_missing_from_the_stateless_revision_are_not_found(method: str) -> None:
    assert refused(connection(), modern(1, method)).code == METHOD_NOT_FOUND


def test_method_of_an_unadvertised_capability_is_not_found() -> None:
    peer = connection(serves=lambda capability: capability != "tools")

    assert refused(peer, modern(1, "tools/list")).code == METHOD_NOT_FOUND
    assert isinstance(peer.receive(modern(2, "prompts/list")), RequestReceived)


def test_id_can_be_reused_only_after_its_response() -> None:
    peer = ready()
    first = peer.receive(Request(1, "ping"))
    assert isinstance(first, RequestReceived)

    assert refused(peer, Request(1, "ping")).code == INVALID_REQUEST
    assert isinstance(peer.receive(Request("1", "ping")), RequestReceived)
    peer.result(first, EmptyResult())
    assert isinstance(peer.receive(Request(1, "ping")), RequestReceived)


@pytest.mark.parametrize("result", [5, "text", [1], None])
def test_result_that_is_not_an_object_is_refused(result: Any) -> None:
    peer = ready()
    request = peer.receive(Request(1, "acme/ask"))
    assert isinstance(request, RequestReceived)

    with pytest.raises((TypeError, AttributeError)):
        peer.result(request, result)
    assert isinstance(peer.error(request, InternalError("no")), ErrorResponse)
    assert peer.in_flight == {}


def test_result_in_wire_form_is_not_changed() -> None:
    """The result may be a constant of the plugin's author."""
    peer = connection()
    request = peer.receive(modern(1, "acme/ask"))
    assert isinstance(request, RequestReceived)
    constant = {"answer": 42}
    response = peer.result(request, constant)

    assert constant == {"answer": 42}
    assert isinstance(response, Response)
    assert response.result["_meta"][_PREFIX + "serverInfo"]["name"] == "s"


@pytest.mark.parametrize("meta", [5, "x", [], None])
def test_meta_of_a_custom_method_must_be_an_object(meta: Any) -> None:
    peer = ready()

    assert refused(peer, Request(1, "acme/ask", {"_meta": meta})).code == INVALID_PARAMS
    assert isinstance(peer.receive(Notification("acme/tell", {"_meta": meta})), Unexpected)


def test_second_response_to_our_request_is_unexpected() -> None:
    peer = ready()
    assert peer.peer is not None
    ping = peer.request("ping", PingParams(), peer=peer.peer)

    assert isinstance(peer.receive(Response(ping.id, {})), ResponseReceived)
    assert isinstance(peer.receive(Response(ping.id, {})), Unexpected)
    assert peer.pending == {}


def test_error_response_answers_our_request() -> None:
    peer = ready()
    assert peer.peer is not None
    ping = peer.request("ping", PingParams(), peer=peer.peer)
    event = peer.receive(ErrorResponse(ping.id, -1, "no", {"a": 1}))

    assert isinstance(event, ResponseReceived)
    assert event.error is not None
    assert (event.error.code, event.error.data) == (-1, {"a": 1})


def test_response_to_an_abandoned_request_is_unexpected() -> None:
    peer = ready()
    assert peer.peer is not None
    ping = peer.request("ping", PingParams(), peer=peer.peer)
    peer.abandon(ping.id)

    assert isinstance(peer.receive(Response(ping.id, {})), Unexpected)


@pytest.mark.parametrize("method", ["ping", "acme/own", "sampling/createMessage", "roots/list"])
def test_requests_to_the_client_are_refused_in_the_stateless_revision(method: str) -> None:
    peer = connection()
    request = peer.receive(modern(1, "tools/list"))
    assert isinstance(request, RequestReceived)

    with pytest.raises(MethodNotFound):
        peer.request(method, PingParams(), peer=request.peer)
    with pytest.raises(MethodNotFound):
        peer.custom_request(method, {}, peer=request.peer)
    assert peer.pending == {}


def test_before_initialized_a_client_receives_logs_only() -> None:
    peer = connection()
    request = peer.receive(initialize())
    assert isinstance(request, RequestReceived)
    answer_initialize(peer, request)
    from mcptrio.protocol.model.base import EmptyParams
    from mcptrio.protocol.model.logging import LoggingMessageParams

    assert peer.peer is not None
    assert peer.notification("notifications/tools/list_changed", EmptyParams(), peer=peer.peer) is None
    log = LoggingMessageParams(level="info", data="x")
    assert peer.notification("notifications/message", log, peer=peer.peer) is not None


def test_our_request_ids_differ_between_replicas() -> None:
    here, there = ready(), connection(peer=ready().peer, initialized=True, id_prefix="r-")
    assert here.peer is not None
    assert there.peer is not None

    assert here.request("ping", None, peer=here.peer).id == 1
    assert there.request("ping", None, peer=there.peer).id == "r-1"


@pytest.mark.parametrize("batch", [(), (Request(1, "ping"),), (Malformed(ErrorResponse(None, INVALID_REQUEST, "x")),)])
def test_arrays_are_accepted_in_one_revision_only(batch: Any) -> None:
    assert connection().batch_refusal(batch) is not None
    assert ready().batch_refusal(batch) is not None
    assert ready("2025-03-26").batch_refusal(batch) is None
    assert ready("2025-03-26").batch_refusal((*batch, initialize())) is not None
    assert ready("2025-03-26").batch_refusal((*batch, modern(1, "tools/list"))) is not None


# Arbitrary input

json_values = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.floats(allow_nan=False) | st.text(max_size=8),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=8), inner, max_size=3),
    max_leaves=6,
)
ids = st.integers(0, 4) | st.sampled_from(["0", "1", "a"])
methods = st.sampled_from([*{row.name for row in METHODS}, "acme/ask", "acme/tell", "nope", ""])
envelopes = st.fixed_dictionaries(
    {},
    optional={
        _PREFIX + "protocolVersion": st.sampled_from([*REVISIONS, "1999-01-01"]) | json_values,
        _PREFIX + "clientCapabilities": st.just({}) | json_values,
        _PREFIX + "clientInfo": st.just(INFO) | json_values,
        _PREFIX + "logLevel": st.sampled_from(["debug", "x"]) | json_values,
        "progressToken": json_values,
    },
)
params = st.none() | st.fixed_dictionaries(
    {},
    optional={
        "_meta": envelopes | json_values,
        "protocolVersion": st.sampled_from(list(REVISIONS)) | json_values,
        "capabilities": st.just({}) | json_values,
        "clientInfo": st.just(INFO) | json_values,
        "requestId": ids | json_values,
        "name": json_values,
        "arguments": json_values,
        "uri": json_values,
        "cursor": json_values,
        "level": json_values,
        "inputResponses": json_values,
        "requestState": json_values,
        "notifications": json_values,
    },
)
messages = st.one_of(
    st.builds(Request, ids, methods, params),
    st.builds(Notification, methods, params),
    st.builds(Response, ids, st.dictionaries(st.text(max_size=4), json_values, max_size=2)),
    st.builds(ErrorResponse, st.none() | ids, st.integers(-40000, 0), st.text(max_size=8), json_values),
    st.just(initialize("a")),
    st.just(Notification("notifications/initialized")),
)
steps = st.lists(
    st.tuples(st.just("receive"), messages)
    | st.tuples(st.sampled_from(["result", "error", "no response", "ask", "give up"]), st.integers(0, 9)),
    max_size=25,
)


@settings(max_examples=200, deadline=None)
@given(steps, st.booleans())
def test_any_sequence_of_messages_leaves_the_connection_consistent(
    sequence: list[tuple[str, Any]], handshake: bool
) -> None:
    """Each request gets at most one response, each response of the peer is accepted once, and no state is left."""
    peer = connection(handshake=handshake)
    requests: dict[Any, RequestReceived] = {}
    asked: set[Any] = set()
    for what, value in sequence:
        if what == "receive":
            event = peer.receive(value)
            encode(event.reply) if isinstance(event, MessageRefused) else None
            if isinstance(event, RequestReceived):
                assert value.id not in requests
                requests[value.id] = event
            elif isinstance(event, ResponseReceived):
                asked.remove(event.id)
            else:
                assert isinstance(event, MessageRefused | NotificationReceived | CancelReceived | Unexpected)
                if isinstance(event, MessageRefused):
                    assert isinstance(value, Request)
                    assert event.reply.id == value.id
        elif what == "ask" and peer.peer is not None and peer.phase is Phase.READY:
            asked.add(peer.request("ping", PingParams(), peer=peer.peer).id)
        elif what == "give up" and asked:
            peer.abandon(asked.pop())
        elif what in {"result", "error", "no response"} and requests:
            request = requests.pop(sorted(requests, key=repr)[value % len(requests)])
            if what == "no response":
                peer.drop_response(request)
            elif what == "error":
                assert peer.error(request, MCPError("no")).id == request.id
            elif request.method.name == "initialize":
                assert isinstance(answer_initialize(peer, request), Response)
            else:
                assert peer.result(request, EmptyResult()).id == request.id
        assert peer.in_flight.keys() == requests.keys()
        assert peer.pending.keys() == asked
        assert (peer.phase in {Phase.NEGOTIATED, Phase.READY}) == (peer.peer is not None)


@settings(max_examples=100, deadline=None)
@given(st.lists(json_values | st.fixed_dictionaries({"jsonrpc": st.just("2.0"), "id": json_values, "method": methods})))
def test_any_decodable_input_leaves_the_connection_consistent(values: list[Any]) -> None:
    import orjson

    peer = ready("2025-03-26")
    for value in values:
        incoming = decode(orjson.dumps(value))
        for message in getattr(incoming, "messages", (incoming,)):
            peer.receive(message)
        assert len(peer.in_flight) <= len(values) * 10


def test_error_message_names_the_place() -> None:
    with pytest.raises(InvalidParams, match=r"expected .* at `name`, got"):
        REVISIONS[MODERN].structure({"name": 5}, REVISIONS[MODERN].server_methods["tools/call"].params)
