"""The request parser: equal results for all slices of the input, and it accepts only what h11 accepts.

In CI each test tries a hundred requests; for a long run see CONTRIBUTING.md.
"""

from __future__ import annotations

from typing import Any

import h11
from attrs import define, field
from hypothesis import HealthCheck, example, given, settings

from mcptrio.http.engine.request_parser import Event, MalformedRequest, ParsedHead, RequestEnd, RequestParser, Upgraded
from tests.fuzz.requests import SEEDS, cuts, pieces, requests

__all__: list[str] = []

LIMIT = 8192


@define
class Message:
    """A parsed request."""

    method: bytes
    target: bytes
    version: str
    headers: list[tuple[bytes, bytes]]
    body: bytes = b""
    complete: bool = False


@define
class Reading:
    """The outcome of parsing.

    Attributes:
        refused: Why parsing stopped; empty if the input was valid.
    """

    messages: list[Message] = field(factory=list)
    refused: str = ""
    upgraded: bytes | None = None


def fed(parser: RequestParser, part: bytes) -> list[Event]:
    events = parser.feed(part)
    while parser.unread:
        events += parser.feed(b"")
    return events


def read(parts: list[bytes]) -> Reading:
    parser, reading = RequestParser(LIMIT), Reading()
    for part in parts:
        if reading.upgraded is not None:
            reading.upgraded += part  # the data after an upgrade is not the parser's
            continue
        for event in fed(parser, part):
            assert not reading.refused, "nothing comes after a refusal"
            if isinstance(event, ParsedHead):
                reading.messages.append(
                    Message(event.method.encode(), event.target, event.version, list(event.headers))
                )
            elif isinstance(event, bytes):
                assert not reading.messages[-1].complete
                reading.messages[-1].body += event
            elif isinstance(event, RequestEnd):
                reading.messages[-1].complete = True
            elif isinstance(event, Upgraded):
                reading.upgraded = event.data
            else:
                assert isinstance(event, MalformedRequest)
                assert 400 <= event.status < 600
                reading.refused = event.reason or "?"
    return reading


def read_with_h11(data: bytes) -> Reading:
    connection, reading = h11.Connection(h11.SERVER, max_incomplete_event_size=LIMIT), Reading()
    connection.receive_data(data)
    while True:
        try:
            event: Any = connection.next_event()
        except h11.RemoteProtocolError as error:
            reading.refused = str(error)
            return reading
        if isinstance(event, h11.Request):
            reading.messages.append(
                Message(event.method, event.target, event.http_version.decode(), list(event.headers))
            )
        elif isinstance(event, h11.Data):
            reading.messages[-1].body += bytes(event.data)
        elif isinstance(event, h11.EndOfMessage):
            reading.messages[-1].complete = True
            connection.send(h11.Response(status_code=404, headers=[("content-length", "0")]))
            connection.send(h11.EndOfMessage())
            if connection.our_state is not h11.DONE or connection.their_state is not h11.DONE:
                return reading
            connection.start_next_cycle()
        else:
            return reading


@given(requests, cuts)
@settings(suppress_health_check=[HealthCheck.too_slow])
@example(b"\rDESCRIBE /echo RTSP/1.0\r\nhost: a\r\n\r\n", [])
def test_slices_of_a_request_do_not_change_the_result(data: bytes, cuts: list[float]) -> None:
    whole = read([data])

    assert read(pieces(data, cuts)) == whole
    assert read([data[i : i + 1] for i in range(len(data))]) == whole


@given(requests)
@settings(suppress_health_check=[HealthCheck.too_slow])
def test_accepted_request_is_parsed_as_h11_parses_it(data: bytes) -> None:
    agree(data)


def test_hostile_request_is_parsed_as_h11_parses_it() -> None:
    for seed in SEEDS:
        agree(seed)


def agree(data: bytes) -> None:
    """h11 does not skip empty lines before a request; both are allowed."""
    data = data.lstrip(b"\r\n")
    ours, theirs = read([data]), read_with_h11(data)
    for number, message in enumerate(ours.messages):
        if number >= len(theirs.messages):
            # h11 keeps no HTTP/1.0 connection open.
            is_old = not theirs.refused and theirs.messages[-1].version == "1.0"
            assert not message.complete or is_old or _is_stricter(theirs.refused), f"{theirs.refused}: {data!r}"
            return
        other = theirs.messages[number]
        assert (message.method, message.target, message.version) == (other.method, other.target, other.version), data
        assert _fields(message) == _fields(other), data
        if ours.upgraded is not None and message is ours.messages[-1]:
            return  # frames follow, which h11 does not support
        if message.complete and other.complete:
            assert message.body == other.body, data
        else:
            assert message.body.startswith(other.body) or other.body.startswith(message.body), data
            assert not message.complete or _is_stricter(theirs.refused), f"{theirs.refused}: {data!r}"


def _is_stricter(reason: str) -> bool:
    """Return whether h11 may accept this, which never changes where a request ends.

    These are blanks in the request line, empty lines between requests, and chunk sizes of more than 20 digits.
    """
    return reason.startswith(("illegal request line", "no request line", "illegal chunk header: bytearray(b'00000000"))


def _fields(message: Message) -> list[tuple[bytes, bytes]]:
    """Omit fields that the parsers may report differently.

    These are Host, which a URL in the request line replaces; an upgrade offer, which is dropped if declined; and
    repeated equal lengths.
    """
    fields = [
        (name, value.lower() if name == b"transfer-encoding" else value)
        for name, value in message.headers
        if name not in (b"host", b"upgrade", b"connection")
    ]
    return [each for number, each in enumerate(fields) if each[0] != b"content-length" or each not in fields[:number]]
