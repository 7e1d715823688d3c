"""The client reads any response: the result is a message, one of our errors, or the end.

The responses are nearly valid, in slices, on a real socket. In CI each test tries at most a hundred; for a long run see
CONTRIBUTING.md.
"""

from __future__ import annotations

import gc
import itertools
from typing import Any

import trio
from attrs import define, field
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from mcptrio.errors import ConnectionClosed, RequestFailed
from mcptrio.http.client.connection import HTTPClientConnection
from mcptrio.http.client.responses import AnswerReader, finish, read_refusal
from mcptrio.protocol.messages import ErrorResponse, Request, Response
from mcptrio.serving import MessageLimits
from tests.fuzz.requests import cuts, pieces

__all__: list[str] = []

LIMITS = MessageLimits(bytes=2000)
EXAMPLES = settings().max_examples // 2
"""Each opens four sockets and a run of Trio, which takes two milliseconds."""

ANSWER = b'{"jsonrpc":"2.0","id":7,"result":{"ok":true}}'
bodies = st.one_of(
    st.just(ANSWER),
    st.just(b"data: " + ANSWER + b"\n\n"),
    st.just(b"id: 1\r\ndata: {}\r\n\r\nevent: x\ndata: 1\n\ndata: " + ANSWER + b"\n\n"),
    st.just(b'[{"jsonrpc":"2.0","method":"a"},' + ANSWER + b"]"),
    st.just(b'{"jsonrpc":"2.0","id":8,"result":{}}'),
    st.just(b'{"jsonrpc":"2.0","id":7,"error":{"code":1,"message":"no"}}'),
    st.just(b"x" * 3000),
    st.just(b"data: " + b"x" * 3000),
    st.binary(max_size=60),
)
heads = st.builds(
    lambda status, lines: b"\r\n".join([b"HTTP/1.1 " + status, *lines]),
    st.sampled_from(
        [b"200 OK"] * 6 + [b"202 Accepted", b"404 No", b"500 Oh", b"204 No", b"100 Go on", b"999 x", b"20 x"]
    ),
    st.lists(
        st.sampled_from(
            [
                b"Content-Type: application/json",
                b"Content-Type: text/event-stream; charset=utf-8",
                b"Content-Type: text/html",
                b"Content-Encoding: gzip",
                b"Content-Encoding: identity",
                b"Content-Length: 5",
                b"Content-Length: 999999999999999999999",
                b"Content-Length: -1",
                b"Transfer-Encoding: chunked",
                b"Transfer-Encoding: gzip",
                b"Connection: close",
                b"Location: http://x/",
                b"X: \xff\x00",
            ]
        ),
        max_size=4,
    ),
)


@st.composite
def responses(draw: st.DrawFn) -> bytes:
    head, body = draw(heads), draw(bodies)
    way = draw(st.sampled_from(["sized", "sized", "chunked", "chunked", "none"]))
    if way == "sized":
        head += b"\r\nContent-Length: %d" % len(body)
    elif way == "chunked":
        head += b"\r\nTransfer-Encoding: chunked"
        body = b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in pieces(body, draw(cuts))) + b"0\r\n\r\n"
    data = head + b"\r\n\r\n" + body
    for place, come in draw(
        st.lists(
            st.tuples(st.floats(0, 1, exclude_max=True), st.sampled_from([b"\r\n", b"\n", b"\0", b":", b"9"])),
            max_size=2,
        )
    ):
        at = int(place * len(data))
        data = data[:at] + come + data[at + 1 :]
    return data


@define
class Reading:
    """The outcome of reading a response."""

    outcome: str = ""
    answer: Any = None
    received: list[Any] = field(factory=list)


async def read(parts: list[bytes]) -> Reading:
    """Read as the HTTP link does."""
    ours, theirs = trio.socket.socketpair()
    stream, reading = trio.SocketStream(ours), Reading()
    with trio.fail_after(60), theirs, ours:

        async def answer() -> None:
            for part in parts:
                try:
                    await theirs.send(part)
                except OSError:
                    return
                await trio.lowlevel.checkpoint()
            theirs.shutdown(trio.socket.SHUT_WR)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            connection = HTTPClientConnection(stream, stream)
            try:
                response = await connection.request("POST", "/mcp", [(b"host", b"a")], b"", release=lambda each: None)
                if response.status == 200:
                    reader = AnswerReader(Request(7, "ping"), reading.received.append, batches=True, limits=LIMITS)
                    got = await reader.read(response)
                    reading.outcome = "answer" if isinstance(got, Response | ErrorResponse) else "ended"
                    reading.answer = got
                    await finish(response)
                else:
                    reading.outcome = f"refused: {await read_refusal(response)}"
            except (RequestFailed, ConnectionClosed) as error:
                reading.outcome = f"{type(error).__name__}: {error}"
            finally:
                connection.close()
    return reading


@given(responses(), cuts)
@settings(max_examples=EXAMPLES, suppress_health_check=[HealthCheck.too_slow])
def test_response_yields_a_message_or_an_error_for_all_slices(data: bytes, cuts: list[float]) -> None:
    async def main() -> tuple[Reading, Reading]:
        return await read([data]), await read(pieces(data, cuts))

    whole, sliced = trio.run(main)

    assert whole.outcome
    if whole.outcome == "answer":
        assert whole.answer.id == 7
    # h11 describes an error differently if it sees less of it at first.
    assert whole.outcome.partition(":")[0] == sliced.outcome.partition(":")[0]
    assert (whole.answer, whole.received) == (sliced.answer, sliced.received)


def test_endless_response_ends_at_the_limit() -> None:
    """Heads, lines, chunks and bodies without an end: each uses no more than its limit."""
    head = b"HTTP/1.1 200 OK\r\ncontent-type: application/json\r\n"
    chunked = head + b"transfer-encoding: chunked\r\n\r\n"
    stream = b"HTTP/1.1 200 OK\r\ncontent-type: text/event-stream\r\ntransfer-encoding: chunked\r\n\r\n"
    endless = {
        "head": (b"HTTP/1.1 200 OK\r\n", b"x: y\r\n" * 1000),
        "field": (b"HTTP/1.1 200 OK\r\nx: ", b"y" * 10_000),
        "interim": (b"", b"HTTP/1.1 100 Go on\r\n\r\n" * 100),
        "body": (head + b"\r\n", b" " * 10_000),
        "chunks": (chunked, b"1\r\n \r\n" * 1000),
        "extension": (chunked + b"1;x=", b"y" * 10_000),
        "line": (stream, b"2710\r\n" + b"y" * 10_000 + b"\r\n"),
        "data": (stream, b"2\r\nd\n\r\n7\r\ndata:x\n\r\n" * 1000),
    }

    async def main() -> dict[str, str]:
        return {name: await endless_outcome(first, more) for name, (first, more) in endless.items()}

    outcomes = trio.run(main)

    assert all(outcome for outcome in outcomes.values()), outcomes


async def endless_outcome(first: bytes, more: bytes, most: int = 4000) -> str:
    ours, theirs = trio.socket.socketpair()
    stream, outcome = trio.SocketStream(ours), ""
    with trio.fail_after(60), theirs, ours:

        async def answer() -> None:
            try:
                await theirs.send(first or more)
                for _ in itertools.repeat(None, most):
                    await trio.SocketStream(theirs).send_all(more)
            except (trio.BrokenResourceError, OSError):
                pass

        async with trio.open_nursery() as nursery:
            nursery.start_soon(answer)
            connection = HTTPClientConnection(stream, stream)
            try:
                response = await connection.request("POST", "/mcp", [(b"host", b"a")], b"", release=lambda each: None)
                reader = AnswerReader(Request(7, "ping"), lambda each: None, batches=True, limits=LIMITS)
                await reader.read(response)
            except (RequestFailed, ConnectionClosed) as error:
                outcome = str(error)
            finally:
                connection.close()
            nursery.cancel_scope.cancel()
    gc.collect()
    return outcome
