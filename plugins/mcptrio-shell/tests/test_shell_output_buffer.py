"""The kept parts of a long output, compared with all of it."""

from __future__ import annotations

import random

import pytest
from mcptrio_shell.output_buffer import OutputBuffer
from mcptrio_shell.results import stream_of


@pytest.mark.parametrize("seed", range(40))
def test_tape_returns_the_written_bytes(seed: int) -> None:
    numbers = random.Random(seed)
    output = OutputBuffer(2 * numbers.randint(4, 64))
    written = b""
    for _ in range(numbers.randint(0, 40)):
        data = bytes(numbers.choices(b"abc\n\xc3\xa9", k=numbers.randint(0, 60)))
        output.write(data)
        written += data

        assert (output.total, output.lines) == (len(written), written.count(b"\n"))
        assert len(output._head) + len(output._tail) <= 3 * (output.limit // 2)
        start, limit = numbers.randint(0, len(written) + 5), numbers.randint(1, 80)
        piece = output.read(start, limit)
        assert piece.data == written[piece.start : piece.end]
        assert len(piece.data) <= limit
        assert piece.start == min(start, len(written)) + piece.skipped_bytes
        assert bool(piece.data) == (start < len(written))
        first, last = output.ends(limit)
        assert first.data + last.data == written[: first.end] + written[last.start :]
        assert len(first.data) + len(last.data) <= limit
        shown = stream_of(output, limit, "read_output")
        assert shown.bytes == len(written)
        assert bool(shown.omitted_bytes) == (first.end < last.start)


def test_last_line_is_readable_text() -> None:
    output = OutputBuffer(100)
    assert output.last_line(20) == ""
    output.write("one\n\x1b[31mzwei é\r\n\n  \n".encode())
    assert output.last_line(20) == "·[31mzwei é"
    output.write(b"x" * 50)
    assert output.last_line(20) == "x" * 19 + "…"
