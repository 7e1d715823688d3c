from __future__ import annotations

import itertools
import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcptrio.errors import LocalProtocolError, RemoteProtocolError
from mcptrio.protocol.sse import Event, SSEDecoder, comment, encode

names = st.text(st.characters(exclude_categories=["Cs"], exclude_characters="\r\n\0"))
datas = st.lists(st.binary().map(lambda data: data.replace(b"\r", b"")), max_size=4).map(b"\n".join)
streams = st.lists(
    st.sampled_from(
        [
            b"data",
            b"id",
            b"event",
            b"retry",
            b"x",
            b":",
            b" ",
            b"\n",
            b"\r",
            b"\r\n",
            b"\n\n",
            b"1",
            b"\0",
            b"\xef\xbb\xbf",
        ]
    ),
    max_size=60,
).map(b"".join)


def events(*chunks: bytes) -> list[Event]:
    decoder = SSEDecoder()
    return [event for chunk in chunks for event in decoder.feed(chunk)]


@given(datas, st.none() | names, st.none() | names, st.none() | st.integers(0, 10**9))
def test_encoded_event_is_decoded_unchanged(data: bytes, event: str | None, id: str | None, retry: int | None) -> None:
    decoder = SSEDecoder()

    assert decoder.feed(encode(data, event=event, id=id, retry=retry)) == [
        Event(data=data, event=event or "message", id=id or "")
    ]
    assert decoder.last_event_id == (id or "")
    assert decoder.retry == retry


@given(st.binary())
def test_every_line_end_in_data_arrives_as_a_line_feed(data: bytes) -> None:
    (event,) = events(encode(data))

    assert event.data == data.replace(b"\r\n", b"\n").replace(b"\r", b"\n")


@given(streams, st.lists(st.integers(0, 200), max_size=20))
def test_chunk_boundaries_do_not_change_the_events(stream: bytes, cuts: list[int]) -> None:
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    chunks = [stream[start:end] for start, end in itertools.pairwise(edges)]

    assert events(*chunks) == events(stream)
    assert events(*(stream[i : i + 1] for i in range(len(stream)))) == events(stream)


@given(st.lists(st.binary()))
def test_any_bytes_are_decoded(chunks: list[bytes]) -> None:
    assert events(*chunks) == events(b"".join(chunks))


def test_examples_of_the_standard_are_decoded() -> None:
    """HTML 9.2.6: three blocks, of which the last is incomplete; and two events with and without a space."""
    assert events(b": test stream\n\ndata: first event\nid: 1\n\ndata:second event\nid\n\ndata:  third event\n") == [
        Event(data=b"first event", id="1"),
        Event(data=b"second event", id=""),
    ]
    assert events(b"data\n\ndata\ndata\n\ndata:") == [Event(data=b""), Event(data=b"\n")]
    assert events(b"data:test\n\ndata: test\n\n") == [Event(data=b"test")] * 2


def test_line_ends_split_over_chunks_are_recognized() -> None:
    assert events(b"data: a\r", b"\ndata: b\r", b"\n", b"\r", b"\n") == [Event(data=b"a\nb")]
    assert events(b"data: a\r", b"\r", b"\n") == [Event(data=b"a")]
    assert events(b"data: a\r", b"", b"\n\n") == [Event(data=b"a")]
    assert events(b"data: a\n", b"\r\ndata: b\r\r") == [Event(data=b"a"), Event(data=b"b")]


def test_only_line_feeds_and_carriage_returns_end_lines() -> None:
    data = "a\x0b\x0c\x1c\x85\u2028\u2029b".encode()

    assert events(encode(data)) == [Event(data=data)]


def test_byte_order_mark_is_dropped_once() -> None:
    assert events(b"\xef", b"\xbb\xbfdata: a\n\n") == [Event(data=b"a")]
    assert events(b"\xef\xbb\xbf\xef\xbb\xbfdata: a\n\n") == []
    assert events(b"data: a\n\n\xef\xbb\xbfdata: b\n\n") == [Event(data=b"a")]


def test_last_event_id_persists_until_replaced() -> None:
    decoder = SSEDecoder()

    assert decoder.feed(b"id: 7\ndata: a\n\ndata: b\n\nid: 8\n") == [Event(data=b"a", id="7"), Event(data=b"b", id="7")]
    assert decoder.last_event_id == "7"
    assert decoder.feed(b"\nid: x\0y\ndata: c\n\n") == [Event(data=b"c", id="8")]
    assert decoder.last_event_id == "8"


def test_event_name_applies_to_one_event() -> None:
    assert events(b"event: endpoint\n\ndata: a\n\nevent: x\nevent: y\ndata: b\n\n") == [
        Event(data=b"a"),
        Event(data=b"b", event="y"),
    ]


@pytest.mark.parametrize(
    ("value", "retry"),
    [("100", 100), ("0", 0), ("-1", None), ("1.5", None), ("", None), ("1 ", None), ("²", None), ("9" * 4000, None)],
)
def test_retry_accepts_digits_only(value: str, retry: int | None) -> None:
    decoder = SSEDecoder()
    decoder.feed(f"retry: {value}\n\n".encode())

    assert decoder.retry == retry


def test_comments_and_unknown_fields_are_ignored() -> None:
    assert events(comment("ping") + comment() + b":\n:x\nfoo: bar\nfoo\n Data: x\ndata: a\n\n") == [Event(data=b"a")]


def test_comment_cannot_become_an_event() -> None:
    assert events(comment("x\ndata: y\r\rdata: z")) == []


@pytest.mark.parametrize(
    ("event", "id", "retry"),
    [("a\nb", None, None), ("a\r", None, None), (None, "1\n", None), (None, "\0", None), (None, None, -1)],
)
def test_fields_that_would_break_the_stream_are_refused(event: str | None, id: str | None, retry: int | None) -> None:
    with pytest.raises(LocalProtocolError, match="expected"):
        encode(b"x", event=event, id=id, retry=retry)


@pytest.mark.parametrize(
    "stream",
    [
        b"data: " + b"x" * 101,
        b"data: " + b"x" * 101 + b"\n\n",
        b": " + b"x" * 101,
        b"data:\n" * 102,
        b"data: 123456789\n" * 11,
    ],
)
@pytest.mark.parametrize("step", [1, 7, 10_000])
def test_event_size_is_bounded(stream: bytes, step: int) -> None:
    decoder = SSEDecoder(max_event_bytes=100)
    chunks = [stream[i : i + step] for i in range(0, len(stream), step)]

    with pytest.raises(RemoteProtocolError, match="more than 100 bytes"):
        list(map(decoder.feed, chunks))


def test_size_limit_applies_to_each_event() -> None:
    decoder = SSEDecoder(max_event_bytes=100)

    assert len(decoder.feed((b"data: " + b"x" * 90 + b"\n\n: comment\n") * 1000)) == 1000


def test_many_small_chunks_take_linear_time() -> None:
    """A decoder that scans the line again for each one-byte chunk would take hours."""
    decoder = SSEDecoder(max_event_bytes=1_000_000)
    start = time.process_time()
    for _ in range(200_000):
        decoder.feed(b"x")

    assert time.process_time() - start < 5
