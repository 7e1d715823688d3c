from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcptrio.protocol.jsonrpc import DEFAULT, Limits
from mcptrio.protocol.messages import Batch, Incoming, Malformed, Notification, Request
from mcptrio.transports.lines import LineFramer, to_lines

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def framed(*chunks: bytes, limits: Limits = DEFAULT) -> list[Incoming]:
    framer = LineFramer(limits)
    return [each for chunk in chunks for each in framer.feed(chunk)] + framer.finish()


def pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    return [stream[start:end] for start, end in pairwise(edges)]


def test_messages_are_lines() -> None:
    lines = to_lines([Notification("a"), [Notification("b"), Notification("c")]])

    assert lines.count(b"\n") == 2
    assert framed(lines) == [Notification("a"), Batch((Notification("b"), Notification("c")))]


def test_every_line_of_a_chunk_is_served() -> None:
    framer = LineFramer()

    assert framer.feed(PING + b"\n" + PING + b"\n" + PING[:10]) == [Request(1, "ping")] * 2
    assert framer.feed(PING[10:]) == []
    assert framer.feed(b"\n") == [Request(1, "ping")]
    assert framer.finish() == []


@pytest.mark.parametrize("blank", [b"", b"\n", b"\r\n", b" \t\r\n", b"\n\n\n"])
def test_line_ends_and_blank_lines(blank: bytes) -> None:
    assert framed(blank + PING + b"\r\n" + blank + PING + b"\n" + blank) == [Request(1, "ping")] * 2


def test_the_last_line_needs_no_line_end() -> None:
    assert framed(PING + b"\n" + PING) == [Request(1, "ping")] * 2
    assert framed(PING[:20]) != []
    assert framed(b"  ") == []


def test_garbage_does_not_spoil_the_next_line() -> None:
    bad, good = framed(b"garbage \xff\x00\n" + PING + b"\n")

    assert isinstance(bad, Malformed)
    assert bad.reply.code == -32700
    assert good == Request(1, "ping")


@pytest.mark.parametrize("step", [1, 7, 64, 10_000])
def test_a_line_over_the_limit_is_reported_once_and_skipped(step: int) -> None:
    limits = Limits(message_bytes=60)
    long = b'"' + b"x" * 500 + b'"'
    stream = PING + b"\n" + long + b"\n" + PING + b"\n" + long + b"\n" + long + b"\n" + PING
    received = framed(*(stream[i : i + step] for i in range(0, len(stream), step)), limits=limits)

    assert [type(each) for each in received] == [Request, Malformed, Request, Malformed, Malformed, Request]
    for each in received:
        if isinstance(each, Malformed):
            assert (each.reply.id, each.reply.code) == (None, -32600)
            assert "60 bytes" in each.reply.message


def test_a_line_over_the_limit_is_reported_as_soon_as_it_is_one() -> None:
    framer = LineFramer(Limits(message_bytes=60))

    assert framer.feed(b"x" * 60) == []
    (report,) = framer.feed(b"x")
    assert isinstance(report, Malformed)
    assert "more than 60 bytes" in report.reply.message
    assert framer.feed(b"x" * 10_000) == []
    assert framer.feed(b"\n" + PING + b"\n") == [Request(1, "ping")]


def test_an_end_inside_a_line_over_the_limit_says_nothing_more() -> None:
    assert len(framed(b"x" * 61, b"x" * 61, limits=Limits(message_bytes=60))) == 1


streams = st.lists(
    st.sampled_from([PING, b"\n", b"\n", b"\r\n", b" ", b"{", b"[1]", b"[" * 70, b"x" * 50, b"\xff", b"\0"]),
    max_size=30,
).map(b"".join)


@given(streams, st.lists(st.integers(0, 500), max_size=20))
def test_chunks_make_no_difference(stream: bytes, cuts: list[int]) -> None:
    """But for the words of the report: a long line seen as a whole has a length."""

    def kinds(received: list[Incoming]) -> list[object]:
        return [each.reply.code if isinstance(each, Malformed) else each for each in received]

    limits = Limits(message_bytes=100)
    assert kinds(framed(*pieces(stream, cuts), limits=limits)) == kinds(framed(stream, limits=limits))


def test_many_small_chunks_take_linear_time() -> None:
    framer = LineFramer()
    start = time.perf_counter()
    for _ in range(200_000):
        framer.feed(b"x")

    assert time.perf_counter() - start < 5
