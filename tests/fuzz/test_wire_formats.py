"""Event streams, lines and JSON-RPC, compared with readers that follow the standards literally.

Each reader's own tests show that slices make no difference; these show the values. In CI each test tries a hundred; for
a long run see CONTRIBUTING.md.
"""

from __future__ import annotations

import json
import re
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from mcptrio.protocol.jsonrpc import decode
from mcptrio.protocol.limits import MessageLimits
from mcptrio.protocol.messages import Batch, ErrorResponse, Malformed, Notification, Request, Response
from mcptrio.protocol.sse import Event, SSEDecoder
from mcptrio.transports.lines import LineFramer
from tests.error_codes import INVALID_REQUEST, PARSE_ERROR
from tests.fuzz.requests import cuts, pieces

__all__: list[str] = []

LIMITS = MessageLimits(bytes=200, depth=8, batch=4)

streams = st.lists(
    st.one_of(
        st.sampled_from(
            [
                *(b"data", b"data:", b"data: {}\n\n", b"id", b"id:", b"id: 1\n", b"event:", b"retry: ", b":", b" "),
                *(b"\n", b"\r", b"\r\n", b"\n\n", b"\r\n\r\n", b"7", b"x"),
                *(b"\0", b"\xef\xbb\xbf", b"\xff", b"\x85", b"\x0b"),
            ]
        ),
        st.binary(max_size=6),
    ),
    max_size=40,
).map(b"".join)


def parse_events_by_standard(stream: bytes) -> tuple[list[Event], str, int | None]:
    """HTML 9.2.5 and 9.2.6, line by line."""
    lines = re.split(rb"\r\n|\r|\n", stream.removeprefix(b"\xef\xbb\xbf"))[:-1]
    events: list[Event] = []
    data: list[bytes] = []
    kind, id, last, retry = "", "", "", None
    for line in lines:
        if not line:
            last = id
            if data:
                events.append(Event(data=b"\n".join(data), event=kind or "message", id=last))
            data, kind = [], ""
            continue
        name, _, value = line.partition(b":")
        value = value.removeprefix(b" ")
        if name == b"data":
            data.append(value)
        elif name == b"event":
            kind = value.decode(errors="replace")
        elif name == b"id" and b"\0" not in value:
            id = value.decode(errors="replace")
        elif name == b"retry" and re.fullmatch(rb"[0-9]{1,18}", value):
            retry = int(value)
    return events, last, retry


@given(streams, cuts)
def test_event_stream_is_parsed_by_the_standard(stream: bytes, cuts: list[float]) -> None:
    decoder = SSEDecoder()

    events = [event for piece in pieces(stream, cuts) for event in decoder.feed(piece)]

    assert (events, decoder.last_event_id, decoder.retry) == parse_events_by_standard(stream)


values = st.recursive(
    st.one_of(st.none(), st.booleans(), st.integers(-(2**64), 2**65), st.floats(allow_nan=False), st.text(max_size=5)),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=8,
)
ids = st.one_of(st.integers(-(2**64), 2**65), st.text(max_size=5), st.none(), st.floats(allow_nan=False), st.booleans())
members = st.fixed_dictionaries(
    {"jsonrpc": st.sampled_from(["2.0"] * 8 + ["1.0", 2.0, None])},
    optional={
        "id": ids,
        "method": st.sampled_from(["ping", "a/b", "", "grüß", None, 1]),
        "params": values,
        "result": values,
        "error": st.fixed_dictionaries({}, optional={"code": values, "message": values, "data": values}) | values,
        "x": values,
    },
)
texts = st.one_of(
    st.one_of(members, st.lists(members, max_size=6), values).map(lambda value: json.dumps(value).encode()),
    st.builds(
        lambda value, place, come: (text := json.dumps(value).encode())[: int(place * len(text))] + come,
        members,
        st.floats(0, 1),
        st.sampled_from([b"", b"\xff", b'"', b"}", b"]", b"[" * 9, b" " * 200, b'"\\ud800"}', b"NaN}", b"\0"]),
    ),
    st.binary(max_size=40),
)


def agrees(message: Any, value: Any) -> bool:
    """Return whether a message has the values of the object, as the standard library parses them."""
    if isinstance(message, Request):
        return (message.id, message.method, message.params) == (value["id"], value["method"], value.get("params"))
    if isinstance(message, Notification):
        return "id" not in value and (message.method, message.params) == (value["method"], value.get("params"))
    if isinstance(message, Response):
        return "error" not in value and (message.id, message.result) == (value["id"], value["result"])
    if isinstance(message, ErrorResponse):
        error = value["error"]
        return (message.id, message.code, message.message, message.data) == (
            value.get("id"),
            error["code"],
            error["message"],
            error.get("data"),
        )
    assert isinstance(message, Malformed)
    return message.reply.code in (PARSE_ERROR, INVALID_REQUEST) and len(message.reply.message) < 500


@given(texts)
def test_message_is_parsed_like_json(text: bytes) -> None:
    """The result is equal to that of the standard library.

    Integers beyond 64 bits become floats here (RFC 8259, section 6), which are compared as equal.
    """
    incoming = decode(text, LIMITS)

    if isinstance(incoming, Malformed):
        assert agrees(incoming, None)
        return
    value = json.loads(text, parse_int=lambda digits: n if -(2**63) <= (n := int(digits)) < 2**64 else float(digits))
    if isinstance(incoming, Batch):
        assert len(incoming.messages) == len(value) <= LIMITS.batch
        assert all(agrees(message, each) for message, each in zip(incoming.messages, value, strict=True))
    else:
        assert agrees(incoming, value)


@given(st.lists(texts.filter(lambda text: b"\n" not in text), max_size=6), st.sampled_from([b"\n", b"\r\n"]), cuts)
def test_lines_are_read_one_by_one(lines: list[bytes], end: bytes, cuts: list[float]) -> None:
    framer = LineFramer(LIMITS)
    stream = b"".join(line + end for line in lines)

    received = [each for piece in pieces(stream, cuts) for each in framer.feed(piece)] + framer.finish()

    whole = [line + end.removesuffix(b"\n") for line in lines]
    expected = [line for line in whole if not (line.isspace() or not line) or len(line) > LIMITS.bytes]
    assert len(received) == len(expected)
    for got, line in zip(received, expected, strict=True):
        if len(line) > LIMITS.bytes:
            assert isinstance(got, Malformed)
            assert got.reply.code == INVALID_REQUEST
        else:
            assert got == decode(line, LIMITS)
