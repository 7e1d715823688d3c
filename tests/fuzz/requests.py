"""Requests for testing parsers: well-formed ones, those of tests/hostile, and both with a few changed bytes.

The tests of this directory use it. Most requests are nearly valid, because a parser refuses a plainly wrong one in its
first line.
"""

from __future__ import annotations

from itertools import pairwise
from typing import Final

from hypothesis import strategies as st

from tests.hostile import chunks, conversations, fields, framing, request_lines

__all__ = ["cuts", "pieces", "requests"]

LONGEST: Final = 4096
"""Bytes of the longest hostile case that is used as a seed; the longer ones test only the size."""

SEEDS: Final = tuple(
    says
    for table in (request_lines, fields, framing, chunks, conversations)
    for case in table.CASES
    if (says := b"".join(step for step in case.says if isinstance(step, bytes))) and len(says) <= LONGEST
)

methods = st.sampled_from([b"GET", b"POST", b"PUT", b"DELETE", b"OPTIONS", b"HEAD", b"PATCH"])
targets = st.sampled_from([b"/", b"/mcp", b"/a?b=c", b"*", b"http://b/x", b"/%20", b"//x", b"/a#b"])
versions = st.sampled_from([b"HTTP/1.1"] * 5 + [b"HTTP/1.0", b"HTTP/1.2", b"HTTP/2.0"])
lengths = st.integers(0, 12).map(lambda size: b"Content-Length: %d" % size)
lines = st.one_of(
    lengths,
    st.sampled_from(
        [
            b"Transfer-Encoding: chunked",
            b"Transfer-Encoding: CHUNKED",
            b"Transfer-Encoding: gzip, chunked",
            b"Connection: close",
            b"Connection: keep-alive",
            b"Expect: 100-continue",
            b"Accept: */*",
            b"x:",
            b"x: a\xffb",
            b"X-Y: \t v \t",
            b"Upgrade: websocket",
            b"Connection: upgrade",
        ]
    ),
)
bodies = st.one_of(
    st.binary(max_size=14),
    st.lists(st.binary(min_size=1, max_size=20), max_size=3).map(
        lambda parts: b"".join(b"%x\r\n%b\r\n" % (len(part), part) for part in parts) + b"0\r\n\r\n"
    ),
)


@st.composite
def _request(draw: st.DrawFn) -> bytes:
    first = b" ".join((draw(methods), draw(targets), draw(versions)))
    head = [first, b"Host: a", *draw(st.lists(lines, max_size=4))]
    return b"\r\n".join([*head, b"", draw(bodies)])


_changes = st.lists(
    st.tuples(
        st.floats(0, 1, exclude_max=True),
        st.integers(0, 3),
        st.sampled_from([b"\r", b"\n", b"\r\n", b" ", b"\t", b":", b"\0", b";", b",", b"0", b"5", b"f", b"\x80", b"x"]),
    ),
    max_size=3,
)
"""Position, number of removed bytes, and their replacement."""


def _changed(data: bytes, changes: list[tuple[float, int, bytes]]) -> bytes:
    for place, gone, come in changes:
        at = int(place * (len(data) + 1))
        data = data[:at] + come + data[at + gone :]
    return data


requests: Final = st.builds(
    _changed,
    st.one_of(st.sampled_from(SEEDS), st.lists(_request(), min_size=1, max_size=3).map(b"".join)),
    st.one_of(st.just([]), _changes),
)

cuts: Final = st.lists(st.floats(0, 1, exclude_max=True), max_size=8)


def pieces(data: bytes, cuts: list[float]) -> list[bytes]:
    """Split the data at the cuts."""
    edges = sorted({0, len(data), *(int(cut * len(data)) for cut in cuts)})
    return [data[start:end] for start, end in pairwise(edges)]
