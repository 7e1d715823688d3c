from __future__ import annotations

import json
import sys
from typing import Any, cast

import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcptrio.errors import LocalProtocolError
from mcptrio.protocol.jsonrpc import decode, encode, encoded_size, require_json
from mcptrio.protocol.limits import DEFAULT, MessageLimits
from mcptrio.protocol.messages import Batch, ErrorResponse, Malformed, Message, Notification, Request, Response
from tests.error_codes import INTERNAL_ERROR, INVALID_REQUEST, PARSE_ERROR

ints = st.integers(-(2**63), 2**64 - 1)
text = st.text(st.characters(exclude_categories=["Cs"]))
ids = text | ints
values = st.recursive(
    st.none() | st.booleans() | ints | st.floats(allow_nan=False, allow_infinity=False) | text,
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(text, inner, max_size=4),
    max_leaves=12,
)
objects = st.dictionaries(text, values, max_size=4)
messages: st.SearchStrategy[Message] = (
    st.builds(Request, ids, text, st.none() | objects)
    | st.builds(Notification, text, st.none() | objects)
    | st.builds(Response, ids, objects)
    | st.builds(ErrorResponse, st.none() | ids, ints, text, values)
)


def line(**members: Any) -> bytes:
    return orjson.dumps({"jsonrpc": "2.0", **members})


def refusal(data: bytes, limits: MessageLimits = DEFAULT) -> ErrorResponse:
    incoming = decode(data, limits)
    assert isinstance(incoming, Malformed), incoming
    return incoming.reply


@given(messages)
def test_encoded_message_is_decoded_unchanged(message: Message) -> None:
    assert decode(encode(message)) == message


@given(st.lists(messages, min_size=1, max_size=5))
def test_sequence_is_a_batch(batch: list[Message]) -> None:
    assert decode(encode(batch)) == Batch(tuple(batch))


@given(messages)
def test_encoded_message_is_one_line(message: Message) -> None:
    assert b"\n" not in encode(message)
    assert b"\r" not in encode(message)


@given(st.binary())
def test_any_bytes_are_decoded_or_refused(data: bytes) -> None:
    assert decode(data) is not None


@given(
    st.dictionaries(st.sampled_from(["jsonrpc", "id", "method", "params", "result", "error"]), values | st.just("2.0"))
)
def test_any_object_is_decoded_or_refused(value: dict[str, Any]) -> None:
    """Every accepted value is a message whose members have the right types."""
    incoming = decode(orjson.dumps(value))

    match incoming:
        case Request(id=id, method=method, params=params):
            assert type(id) in (str, int)
            assert type(method) is str
            assert params is None or type(params) is dict
        case Notification(method=method, params=params):
            assert type(method) is str
            assert params is None or type(params) is dict
        case Response(id=id, result=result):
            assert type(id) in (str, int)
            assert type(result) is dict
        case ErrorResponse(id=id, code=code):
            assert id is None or type(id) in (str, int)
            assert type(code) is int
        case Malformed(reply=reply):
            assert reply.code in (INVALID_REQUEST, PARSE_ERROR)
            assert type(reply.id) in (str, int, type(None))
        case _:
            pytest.fail(f"{incoming!r} of an object")


@pytest.mark.parametrize("kind", [bytes, bytearray, memoryview])
def test_every_buffer_type_is_decoded(kind: Any) -> None:
    deep = b'{"jsonrpc":"2.0","method":"m","params":{"a":%b}}' % (b"[" * 63 + b"]" * 63)

    assert decode(kind(line(id=1, method="ping"))) == Request(1, "ping")
    assert "nested" in refusal(kind(deep)).message
    assert "9 bytes" in refusal(kind(b"[1,2,3,4]"), MessageLimits(bytes=8)).message


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"{",
        b"nonsense",
        b'"\xff"',
        b"NaN",
        b"{} {}",
        b"\x00",
        b"{'a':1}",
        b'"\\ud800"',
        b"1e999",
    ],
)
def test_invalid_json_is_a_parse_error(data: bytes) -> None:
    reply = refusal(data)

    assert (reply.code, reply.id) == (PARSE_ERROR, None)
    assert reply.message.startswith("not JSON: ")


@pytest.mark.parametrize(
    ("members", "id", "says"),
    [
        ({"jsonrpc": "1.0", "id": 1, "method": "m"}, 1, '"2.0"'),
        ({"jsonrpc": 2.0, "id": "a", "method": "m"}, "a", '"2.0"'),
        ({"jsonrpc": "1.0", "id": 1, "result": {}}, None, '"2.0"'),
        ({"id": None, "method": "m"}, None, "got null"),
        ({"id": True, "method": "m"}, None, "got a boolean"),
        ({"id": 1.0, "method": "m"}, None, "got a number"),
        ({"id": [1], "method": "m"}, None, "got an array"),
        ({"id": 1, "method": None}, 1, "method: expected a string, got null"),
        ({"id": 1, "method": "m", "params": [1]}, 1, "params: expected an object, got an array"),
        ({"id": 1, "method": "m", "params": "x"}, 1, "params: expected an object, got a string"),
        ({"id": True, "method": "m", "params": []}, None, "params"),
        ({"id": 1, "method": "m", "result": {}}, 1, "more than one"),
        ({"method": "m", "error": {"code": 1, "message": ""}}, None, "more than one"),
        ({"id": 7}, 7, "none of them"),
        ({}, None, "none of them"),
        ({"id": 1, "result": {}, "error": {"code": 1, "message": ""}}, None, "got both"),
        ({"id": 1, "result": []}, None, "result: expected an object, got an array"),
        ({"id": 1, "result": None}, None, "result: expected an object, got null"),
        ({"id": None, "result": {}}, None, "id: expected"),
        ({"result": {}}, None, "id: expected"),
        ({"id": True, "error": {"code": 1, "message": ""}}, None, "got a boolean"),
        ({"id": 1, "error": "x"}, None, "error: expected an object"),
        ({"id": 1, "error": None}, None, "error: expected an object"),
        ({"id": 1, "error": {"code": True, "message": ""}}, None, "error.code"),
        ({"id": 1, "error": {"code": 1.5, "message": ""}}, None, "error.code"),
        ({"id": 1, "error": {"code": 1}}, None, "error.message"),
    ],
)
def test_json_that_is_not_a_message_is_an_invalid_request(members: dict[str, Any], id: Any, says: str) -> None:
    reply = refusal(line(**members))

    assert (reply.code, reply.id) == (INVALID_REQUEST, id)
    assert says in reply.message


@pytest.mark.parametrize("data", [b"1", b"null", b'"x"', b"true"])
def test_bare_value_is_an_invalid_request(data: bytes) -> None:
    assert refusal(data).code == INVALID_REQUEST


def test_null_params_count_as_absent() -> None:
    assert decode(line(id=1, method="ping", params=None)) == Request(1, "ping", None)


def test_error_without_an_id_is_a_message() -> None:
    assert decode(line(error={"code": PARSE_ERROR, "message": "what?"})) == ErrorResponse(None, PARSE_ERROR, "what?")
    assert decode(line(id=None, error={"code": PARSE_ERROR, "message": "what?"})) == ErrorResponse(
        None, PARSE_ERROR, "what?"
    )


def test_integers_beyond_64_bits_become_floats_and_are_no_ids() -> None:
    big = 2**64
    assert decode(b'{"jsonrpc":"2.0","method":"m","params":{"n":%d}}' % big) == Notification("m", {"n": float(big)})
    assert decode(b'{"jsonrpc":"2.0","id":%d,"method":"m"}' % (big - 1)) == Request(big - 1, "m")
    assert refusal(b'{"jsonrpc":"2.0","id":%d,"method":"m"}' % big).id is None


def nested(levels: int, opening: bytes = b"[", closing: bytes = b"]") -> bytes:
    """A notification with this nesting depth, counting itself and its params."""
    inner = levels - 2
    return b'{"jsonrpc":"2.0","method":"m","params":{"a":%b}}' % (
        opening * inner + b"1" * (opening != b"[") + closing * inner
    )


@pytest.mark.parametrize(("opening", "closing"), [(b"[", b"]"), (b'{"a":', b"}")])
def test_nesting_depth_is_bounded(opening: bytes, closing: bytes) -> None:
    assert isinstance(decode(nested(64, opening, closing)), Notification)
    for levels in (65, 66, 500, 1000, 49_000):
        reply = refusal(nested(levels, opening, closing))
        assert (reply.code, reply.id) == (INVALID_REQUEST, None)
        assert "64" in reply.message


def test_sequential_brackets_do_not_count_as_depth() -> None:
    assert isinstance(decode(line(method="m", params={"rows": [[{}] for _ in range(500)]})), Notification)
    assert isinstance(decode(line(method="m", params={"text": "[{" * 500})), Notification)
    assert refusal(orjson.dumps("[" * 500)).code == INVALID_REQUEST


def test_message_size_is_bounded() -> None:
    message = line(method="m", params={"text": "x" * 100})

    assert isinstance(decode(message, MessageLimits(bytes=len(message))), Notification)
    reply = refusal(message, MessageLimits(bytes=len(message) - 1))
    assert reply.code == INVALID_REQUEST
    assert f"{len(message)} bytes" in reply.message
    assert f"{len(message) - 1} bytes" in reply.message


def test_batch_is_decoded_item_by_item_up_to_its_limit() -> None:
    ping = line(id=1, method="ping")

    assert refusal(b"[]").code == INVALID_REQUEST
    assert decode(b"[%b]" % ping) == Batch((Request(1, "ping"),))
    assert isinstance(decode(b"[%b]" % b",".join([ping] * 100)), Batch)
    assert "101" in refusal(b"[%b]" % b",".join([ping] * 101)).message
    batch = decode(b'[1,[],%b,{"jsonrpc":"2.0","id":2,"method":3}]' % ping)
    assert isinstance(batch, Batch)
    assert [type(each) for each in batch.messages] == [Malformed, Malformed, Request, Malformed]
    assert [each.reply.id for each in batch.messages if isinstance(each, Malformed)] == [None, None, 2]


def test_empty_sequence_is_not_encoded() -> None:
    with pytest.raises(LocalProtocolError, match="at least one"):
        encode([])


circle: dict[str, Any] = {}
circle["a"] = circle["b"] = circle
deep: list[Any] = []
for _ in range(100_000):
    deep = [deep]
UNWRITABLE = [2**64, "\ud800", {1: 2}, {"\ud800": 1}, object(), b"bytes", {1}, circle, deep, [2**64, 1j]]


@pytest.mark.parametrize("value", UNWRITABLE, ids=lambda value: type(value).__name__)
def test_unwritable_result_becomes_an_error_for_the_same_request(value: Any) -> None:
    message = decode(encode(Response(7, {"value": value})))

    assert isinstance(message, ErrorResponse)
    assert (message.id, message.code) == (7, INTERNAL_ERROR)
    assert message.message.startswith("the result cannot be written as JSON: ")


@pytest.mark.parametrize("value", UNWRITABLE, ids=lambda value: type(value).__name__)
def test_message_with_an_unwritable_value_keeps_its_other_values(value: Any) -> None:
    error = decode(encode(ErrorResponse(7, -32001, "broken \ud800", {"value": value})))
    request = decode(encode(Request(8, "sampling/createMessage", {"value": value, "kept": [1, "ü", None, 0.5, True]})))
    notification = decode(encode(Notification("notifications/message", {"value": value})))

    assert error == ErrorResponse(7, -32001, "broken \ufffd")
    assert isinstance(request, Request)
    assert request.params is not None
    assert request.params["kept"] == [1, "ü", None, 0.5, True]
    assert isinstance(notification, Notification)


def test_unwritable_keys_and_values_are_replaced() -> None:
    params: Any = {1: "a", "big": -(2**63) - 1, "half": "x\udc00y", "pair": "\ud83d\ude00", "tuple": (object(), 2)}

    assert decode(encode(Notification("m", params))) == Notification(
        "m", {"1": "a", "big": None, "half": "x\ufffdy", "pair": "\U0001f600", "tuple": [None, 2]}
    )


def test_unwritable_message_does_not_affect_its_batch() -> None:
    batch = decode(encode([Response(1, {"a": object()}), Response(2, {})]))

    assert isinstance(batch, Batch)
    assert [type(each) for each in batch.messages] == [ErrorResponse, Response]


def test_not_a_number_is_written_as_null() -> None:
    assert json.loads(encode(Response(1, {"a": [float("nan"), float("inf")]})))["result"] == {"a": [None, None]}


def test_byte_order_mark_is_ignored() -> None:
    assert decode(b'\xef\xbb\xbf{"jsonrpc":"2.0","method":"ping"}') == Notification("ping")
    assert refusal(b"\xef\xbb\xbf\xef\xbb\xbf{}").code == PARSE_ERROR


FULL = {
    "arrays": (b"[],", "60003 arrays and objects: the limit is 50000"),
    "objects": (b"{},", "60003 arrays and objects: the limit is 50000"),
    "values": (b"0," * 6, "too many values: the limit is 250000"),
    "texts": (b'"a,",' * 6, "too many values: the limit is 250000"),
    "escapes": (b'"\\\\",' * 6, "too many values: the limit is 250000"),
}


@pytest.mark.parametrize("name", FULL)
@pytest.mark.parametrize("answer", [False, True])
def test_message_with_too_many_values_is_refused_before_parsing(name: str, answer: bool) -> None:
    item, problem = FULL[name]
    items = item * 60_000 + b"0"
    if answer:
        received = decode(b'{"jsonrpc":"2.0","id":7,"result":{"a":[%b]}}' % items)
    else:
        received = decode(b'{"jsonrpc":"2.0","id":7,"method":"m","params":{"a":[%b]}}' % items)

    assert isinstance(received, Malformed)
    assert received.reply.code == INVALID_REQUEST
    assert problem in received.reply.message
    assert (received.reply.id, received.answers) == ((None, 7) if answer else (7, None))


def test_id_after_very_many_values_is_found() -> None:
    received = decode(b'{"method":"m","params":{"a":[%b0]},"jsonrpc":"2.0","id":"x"}' % (b"[]," * 60_000))

    assert isinstance(received, Malformed)
    assert received.reply.id == "x"


@pytest.mark.parametrize("text", ["[" * 60_000, "a, b" * 300_000, '\\"[' * 60_000, "\\" * 60_000 + '","' * 260_000])
def test_brackets_and_commas_inside_a_text_do_not_count(text: str) -> None:
    data = orjson.dumps({"jsonrpc": "2.0", "method": "m", "params": {"a": [text, text[1:], 1]}})

    assert decode(data) == Notification("m", {"a": [text, text[1:], 1]})


def in_memory(value: Any) -> int:
    children = [*value.values(), *value] if isinstance(value, dict) else value if isinstance(value, list) else []
    return sys.getsizeof(value) + sum(in_memory(child) for child in children)


@pytest.mark.parametrize(
    "item",
    [b"{}", b"[]", b'[{"a":{}}]', b"[1,2]", b'{"a":1,"b":[{}]}', b"1e5", b"123456", b'"text"', b'"' + b"x" * 99 + b'"'],
)
def test_weight_of_a_request_is_at_least_its_memory(item: bytes) -> None:
    received = decode(b'{"jsonrpc":"2.0","id":1,"method":"m","params":{"a":[%b]}}' % b",".join([item] * 5000))

    assert isinstance(received, Request)
    assert received.weight > 0.8 * in_memory(received.params)


def test_weight_of_a_long_text_is_its_length() -> None:
    data = orjson.dumps({"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"a": 'if a[i, "j"] {' * 100_000}})
    (one,) = cast(Batch, decode(b"[" + data + b"]")).messages
    received = decode(data)

    assert isinstance(received, Request)
    assert isinstance(one, Request)
    assert len(data) <= received.weight < 1.01 * len(data)
    assert one.weight == pytest.approx(received.weight, rel=0.01)


def test_meta_is_bounded() -> None:
    wire = {"jsonrpc": "2.0", "id": 1, "method": "m", "params": {"_meta": {"a": "x" * 60_000}}}
    assert isinstance(decode(orjson.dumps(wire)), Request)
    wire["params"] = {"_meta": {"a": "x" * 70_000}}

    reply = refusal(orjson.dumps(wire))
    assert (reply.id, reply.code) == (1, INVALID_REQUEST)
    assert reply.message == "params._meta of 70008 bytes: the limit is 65536 bytes"
    assert "the limit is 65536" in refusal(orjson.dumps([wire])).message


@pytest.mark.parametrize(
    "value",
    [None, {"a": [None, "null", 1.5, True, 2**64 - 1, -(2**63)]}, ["é", ("a",)]],
)
def test_json_values_can_be_sent(value: Any) -> None:
    require_json({"value": value}, "tools/call")


@pytest.mark.parametrize(
    ("value", "problem"),
    [
        (2**70, "expected an integer of 64 bits, got one of 71 bits; send it as text at `a.value`"),
        (float("nan"), "expected a finite number, got nan at `a.value`"),
        ([None, -float("inf")], "expected a finite number, got -inf at `a.value[1]`"),
        ("\udcff", "expected a string without lone surrogates at `a.value`"),
        (object(), "expected a JSON value, got object"),
        ({1: "a"}, "expected a string as key, got int at `a.value`"),
    ],
)
def test_value_without_a_json_form_is_refused(value: Any, problem: str) -> None:
    with pytest.raises(LocalProtocolError) as caught:
        require_json({"a": {"value": value}}, "tools/call")
    assert str(caught.value).startswith(f"tools/call: the parameters cannot be sent as JSON: {problem}")


def test_circular_value_is_refused() -> None:
    circle: dict[str, Any] = {}
    circle["a"] = circle
    with pytest.raises(LocalProtocolError, match="at most 200 levels"):
        require_json(circle, "tools/call")


@pytest.mark.parametrize(
    "message", [Response(1, {"a": "é"}), Request(1, "m", {"a": "é"}), Notification("m", {"a": "é"})]
)
def test_encoded_size_is_that_of_the_encoded_params_or_result(message: Message) -> None:
    assert encoded_size(message) == len(orjson.dumps({"a": "é"}))
    assert encoded_size([message, message]) == 2 * encoded_size(message)


def test_encoded_size_of_an_unencodable_message() -> None:
    assert encoded_size(Response(1, {"a": object()})) == 256
    assert encoded_size(ErrorResponse(1, -1, "no", data=[1])) == 5
