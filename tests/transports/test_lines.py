from __future__ import annotations

import time
from itertools import pairwise

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcptrio.protocol.limits import DEFAULT, MessageLimits
from mcptrio.protocol.messages import Batch, Incoming, Malformed, Notification, Request, RequestId
from mcptrio.transports.lines import LineFramer, to_lines
from tests.error_codes import INVALID_REQUEST, PARSE_ERROR

PING = b'{"jsonrpc":"2.0","id":1,"method":"ping"}'


def framed(*chunks: bytes, limits: MessageLimits = DEFAULT) -> list[Incoming]:
    framer = LineFramer(limits)
    return [each for chunk in chunks for each in framer.feed(chunk)] + framer.finish()


def pieces(stream: bytes, cuts: list[int]) -> list[bytes]:
    edges = sorted({0, len(stream), *(cut for cut in cuts if cut < len(stream))})
    return [stream[start:end] for start, end in pairwise(edges)]


def test_each_message_is_one_line() -> None:
    lines = to_lines([Notification("a"), [Notification("b"), Notification("c")]])

    assert lines.count(b"\n") == 2
    assert framed(lines) == [Notification("a"), Batch((Notification("b"), Notification("c")))]


def test_every_line_of_a_chunk_is_decoded() -> None:
    framer = LineFramer()

    assert framer.feed(PING + b"\n" + PING + b"\n" + PING[:10]) == [Request(1, "ping")] * 2
    assert framer.feed(PING[10:]) == []
    assert framer.feed(b"\n") == [Request(1, "ping")]
    assert framer.finish() == []


@pytest.mark.parametrize("blank", [b"", b"\n", b"\r\n", b" \t\r\n", b"\n\n\n"])
def test_line_ends_are_stripped_and_blank_lines_skipped(blank: bytes) -> None:
    assert framed(blank + PING + b"\r\n" + blank + PING + b"\n" + blank) == [Request(1, "ping")] * 2


def test_last_line_without_a_line_end_is_decoded() -> None:
    assert framed(PING + b"\n" + PING) == [Request(1, "ping")] * 2
    assert framed(PING[:20]) != []
    assert framed(b"  ") == []


def test_invalid_line_does_not_affect_the_next() -> None:
    bad, good = framed(b"garbage \xff\x00\n" + PING + b"\n")

    assert isinstance(bad, Malformed)
    assert bad.reply.code == PARSE_ERROR
    assert good == Request(1, "ping")


@pytest.mark.parametrize("step", [1, 7, 64, 10_000])
def test_line_over_the_limit_is_reported_once_and_skipped(step: int) -> None:
    limits = MessageLimits(bytes=60)
    long = b'"' + b"x" * 500 + b'"'
    stream = PING + b"\n" + long + b"\n" + PING + b"\n" + long + b"\n" + long + b"\n" + PING
    received = framed(*(stream[i : i + step] for i in range(0, len(stream), step)), limits=limits)

    assert [type(each) for each in received] == [Request, Malformed, Request, Malformed, Malformed, Request]
    for each in received:
        if isinstance(each, Malformed):
            assert (each.reply.id, each.reply.code) == (None, INVALID_REQUEST)
            assert "60 bytes" in each.reply.message


def test_line_over_the_limit_is_reported_before_its_end() -> None:
    framer = LineFramer(MessageLimits(bytes=60))

    assert framer.feed(b"x" * 60) == []
    (report,) = framer.feed(b"x")
    assert isinstance(report, Malformed)
    assert "message too long: the limit is 60 bytes" in report.reply.message
    assert framer.feed(b"x" * 10_000) == []
    assert framer.feed(b"\n" + PING + b"\n") == [Request(1, "ping")]


def test_end_inside_a_line_over_the_limit_is_not_reported_again() -> None:
    assert len(framed(b"x" * 61, b"x" * 61, limits=MessageLimits(bytes=60))) == 1


TEXT = b'"%b"' % (600 * b"x")
NOTHING = (None, None)


@pytest.mark.parametrize(
    ("line", "ids"),
    [
        # The id first, as most write it.
        (b'{"jsonrpc":"2.0","id":7,"method":"a","params":{"t":%b}}', (7, None)),
        (b'{"jsonrpc":"2.0","id":7,"result":{"t":%b}}', (None, 7)),
        (b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":%b}}', (None, 7)),
        (b'{"id":7,"jsonrpc":"2.0","result":{"t":%b}}', (None, 7)),
        (b'{"id":7,"result":{"t":%b},"jsonrpc":"2.0"}', (None, 7)),
        (b' { "jsonrpc" : "2.0" , "id" : -7 , "method" : "a", "params":{"t":%b}}\r', (-7, None)),
        (b'{"jsonrpc":"2.0","id":"a\\"b\xc3\xa4","result":{"t":%b}}', (None, 'a"bä')),
        (b'{"jsonrpc":"2.0","id":"7","result":{"t":%b}}', (None, "7")),
        # The id last, as the TypeScript SDK writes it.
        (b'{"method":"a","params":{"t":%b},"jsonrpc":"2.0","id":7}', (7, None)),
        (b'{"result":{"t":%b},"jsonrpc":"2.0","id":7}', (None, 7)),
        (b'{"jsonrpc":"2.0","result":{"t":%b},"id":7}', (None, 7)),
        (b'{"result":{"t":%b}, "id": "x\\\\", "jsonrpc": "2.0"} \r', (None, "x\\")),
        # No id, or none that is one.
        (b'{"jsonrpc":"2.0","method":"a","params":{"t":%b}}', NOTHING),
        (b'{"jsonrpc":"2.0","id":null,"method":"a","params":{"t":%b}}', NOTHING),
        (b'{"jsonrpc":"2.0","id":1.5,"method":"a","params":{"t":%b}}', NOTHING),
        (b'{"jsonrpc":"2.0","id":07,"method":"a","params":{"t":%b}}', NOTHING),
        (b'{"jsonrpc":"2.0","id":"\xff","method":"a","params":{"t":%b}}', NOTHING),
        (b'{"jsonrpc":"2.0","id":99999999999999999999,"result":{"t":%b}}', NOTHING),
        (b'{"result":{"t":%b},"id":1.5}', NOTHING),
        (b'{"result":{"t":%b},"id":null}', NOTHING),
        # Something that looks like one.
        (b'{"method":"a","params":{"t":%b,"id":7}}', NOTHING),
        (b'{"result":{"t":%b,"u":",\\"id\\":7}"}}', NOTHING),
        (b'{"result":{"t":%b},"u":",\\"id\\":7}"}', NOTHING),
        (b'{"result":{"t":%b},",\\"id":7}', NOTHING),
        (b'{"params":{"id":7,"method":%b}}', NOTHING),
        (b'{"x":1,"id":7,"method":"a","t":%b}', NOTHING),
        (b'{"jsonrpc":"1.0","id":7,"method":"a","t":%b}', NOTHING),
        (b'[{"jsonrpc":"2.0","id":7,"method":"a","t":%b}]', NOTHING),
        (b'"{\\"jsonrpc\\":\\"2.0\\",\\"id\\":7}",%b', NOTHING),
        (b'{"result":%b', NOTHING),
        (b"%b", NOTHING),
    ],
)
@pytest.mark.parametrize("step", [1, 50, 10_000])
def test_report_of_a_long_line_contains_its_request_id(
    line: bytes, ids: tuple[RequestId | None, RequestId | None], step: int
) -> None:
    """A server reports the ids of requests, to answer them; a client reports the ids of responses."""
    stream = line % TEXT + b"\n" + PING
    for answers, id in zip((False, True), ids, strict=True):
        framer = LineFramer(MessageLimits(bytes=500), answers=answers)
        received = [each for i in range(0, len(stream), step) for each in framer.feed(stream[i : i + step])]
        report, ping = received + framer.finish()

        assert isinstance(report, Malformed)
        answered, other = (report.answers, report.reply.id) if answers else (report.reply.id, report.answers)
        assert (answered, type(answered), other, report.reply.code) == (id, type(id), None, INVALID_REQUEST)
        assert ping == Request(1, "ping")


def test_report_waits_for_the_end_only_if_the_id_can_follow() -> None:
    limits = MessageLimits(bytes=60)
    framer = LineFramer(limits, answers=True)

    assert len(framer.feed(b'{"jsonrpc":"2.0","id":7,"result":{"t":"' + 60 * b"x")) == 1
    assert framer.feed(b'"}}\n') == []
    assert framer.feed(b'{"result":{"t":"' + 60 * b"x") == []
    assert framer.feed(1000 * b"x") == []
    assert len(framer.finish()) == 1
    assert len(framer.feed(b'{"method":"a","t":"' + 60 * b"x")) == 1


LONG = [b'{"id":7,"method":"a","t":"%b"}' % (90 * b"x"), b'{"method":"a","t":"%b","id":7}' % (90 * b"x")]
streams = st.lists(
    st.sampled_from([PING, b"\n", b"\n", b"\r\n", b" ", b"{", b"[1]", b"[" * 70, b"x" * 50, b"\xff", b"\0", *LONG]),
    max_size=30,
).map(b"".join)


@given(streams, st.lists(st.integers(0, 500), max_size=20))
def test_chunk_boundaries_do_not_change_the_messages(stream: bytes, cuts: list[int]) -> None:
    """Only the text of the report differs: a long line that arrives in one chunk has a known length."""

    def kinds(received: list[Incoming]) -> list[object]:
        return [(each.reply.id, each.reply.code) if isinstance(each, Malformed) else each for each in received]

    limits = MessageLimits(bytes=100)
    assert kinds(framed(*pieces(stream, cuts), limits=limits)) == kinds(framed(stream, limits=limits))


def test_many_small_chunks_take_linear_time() -> None:
    framer = LineFramer()
    start = time.process_time()  # processor time, because the machine may be busy
    for _ in range(200_000):
        framer.feed(b"x")

    assert time.process_time() - start < 5
