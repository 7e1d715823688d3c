from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcptrio_fs.media import is_text, media_type
from mcptrio_fs.reading import Text, read_bytes, read_lines, read_tail, read_text
from mcptrio_fs.sandbox import Sandbox

from mcptrio.errors import ToolError


def go_on() -> None:
    """Continue: the call is not cancelled."""


def stop() -> None:
    raise TimeoutError("nobody waits any more")


def head(sandbox: Sandbox, lines: int, *, limit: int = 1_000_000) -> Text:
    return read_lines(sandbox, "f", first=1, count=lines, limit=limit, checkpoint=go_on)


def tail(sandbox: Sandbox, lines: int, *, limit: int = 1_000_000) -> Text:
    return read_tail(sandbox, "f", lines=lines, limit=limit, checkpoint=go_on)


def whole(sandbox: Sandbox, *, offset: int = 0, limit: int = 1_000_000) -> Text:
    return read_text(sandbox, "f", offset=offset, limit=limit, checkpoint=go_on)


def test_whole_file_is_read(sandbox: Sandbox, inside: Path) -> None:
    (inside / "f").write_bytes("höllo\r\n".encode())

    assert whole(sandbox) == Text(text="höllo\r\n", size=8, start=0, end=8, cut=False, replaced=False)


def test_file_of_exactly_the_limit_is_not_truncated(sandbox: Sandbox, inside: Path) -> None:
    (inside / "f").write_bytes(b"abcd")

    assert not whole(sandbox, limit=4).cut
    assert whole(sandbox, limit=3).cut


def test_invalid_utf8_is_replaced_and_reported(sandbox: Sandbox, inside: Path) -> None:
    (inside / "f").write_bytes(b"a\xffb")

    assert whole(sandbox).text == "a\ufffdb"
    assert whole(sandbox).replaced


def test_files_with_a_reported_size_of_zero_are_read(inside: Path) -> None:
    from mcptrio_fs.sandbox import Folder

    sandbox = Sandbox((Folder("/proc"),))

    text = read_text(sandbox, "/proc/version", offset=0, limit=1000, checkpoint=go_on)

    assert "Linux" in text.text
    assert text.size == len(text.text)


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=50, deadline=None)
@given(text=st.text(st.sampled_from("aé€😀\n"), max_size=60), limit=st.integers(4, 20))
def test_pages_of_a_file_join_to_its_text(sandbox: Sandbox, inside: Path, text: str, limit: int) -> None:
    (inside / "f").write_bytes(text.encode())

    pages, offset = [], 0
    while True:
        page = whole(sandbox, offset=offset, limit=limit)
        assert len(page.text.encode()) <= limit
        assert not page.replaced
        pages.append(page.text)
        offset = page.end
        if not page.cut:
            break

    assert "".join(pages) == text


@pytest.mark.parametrize(
    ("content", "lines", "expected"),
    [
        (b"", 3, ""),
        (b"a", 1, "a"),
        (b"a\nb\nc\n", 2, "a\nb"),
        (b"a\nb\nc\n", 3, "a\nb\nc"),
        (b"a\nb\nc", 9, "a\nb\nc"),
        (b"a\nb\nc\n", 9, "a\nb\nc\n"),
        (b"a\r\nb\r\n", 1, "a\r"),
        (b"\n\nx", 2, "\n"),
    ],
)
def test_head_returns_the_first_lines(
    sandbox: Sandbox, inside: Path, content: bytes, lines: int, expected: str
) -> None:
    (inside / "f").write_bytes(content)

    assert head(sandbox, lines).text == expected


@pytest.mark.parametrize(
    ("content", "lines", "expected"),
    [
        (b"", 3, ""),
        (b"a", 1, "a"),
        (b"a\nb\nc\n", 1, "c"),
        (b"a\nb\nc\n", 2, "b\nc"),
        (b"a\nb\nc", 2, "b\nc"),
        (b"a\nb\nc\n", 9, "a\nb\nc"),
        (b"\n", 1, ""),
        (b"\n\n", 2, "\n"),
        (b"x\n\n", 1, ""),
        (b"x\n\n", 2, "x\n"),
    ],
)
def test_tail_returns_the_last_lines(sandbox: Sandbox, inside: Path, content: bytes, lines: int, expected: str) -> None:
    (inside / "f").write_bytes(content)

    assert tail(sandbox, lines).text == expected
    assert not tail(sandbox, lines).cut


@settings(suppress_health_check=[HealthCheck.function_scoped_fixture], max_examples=60, deadline=None)
@given(rows=st.lists(st.text(st.sampled_from("aé"), max_size=5), min_size=1, max_size=12), count=st.integers(1, 14))
def test_head_and_tail_are_the_first_and_last_lines(
    sandbox: Sandbox, inside: Path, rows: list[str], count: int
) -> None:
    (inside / "f").write_bytes("".join(row + "\n" for row in rows).encode())

    assert tail(sandbox, count).text.split("\n") == rows[-count:]
    assert head(sandbox, count).text.removesuffix("\n" if count > len(rows) else "").split("\n") == rows[:count]


def test_head_and_tail_cross_block_boundaries(sandbox: Sandbox, inside: Path) -> None:
    rows = [f"{number} {'x' * 997}" for number in range(1000)]
    (inside / "f").write_text("\n".join(rows))

    assert head(sandbox, 900).text.split("\n") == rows[:900]
    middle = read_lines(sandbox, "f", first=601, count=2, limit=10_000, checkpoint=go_on)
    assert middle.text.split("\n") == rows[600:602]
    assert tail(sandbox, 900).text.split("\n") == rows[100:]


def test_lines_longer_than_the_limit_are_truncated_and_marked(sandbox: Sandbox, inside: Path) -> None:
    (inside / "f").write_bytes(("é" * 100 + "\n").encode() * 2)

    first, last = head(sandbox, 2, limit=51), tail(sandbox, 2, limit=51)

    assert (first.text, first.cut, first.end) == ("é" * 25, True, 50)
    assert (last.text, last.cut, last.start, last.end) == ("é" * 25, True, 351, 401)


def test_tail_that_starts_inside_a_line_has_a_note(sandbox: Sandbox, inside: Path) -> None:
    (inside / "f").write_bytes(b"x" * 300_000 + b"\n")

    assert tail(sandbox, 1, limit=300_000 - 1).cut
    assert not tail(sandbox, 1, limit=300_000).cut


def test_cancelled_read_stops_early(sandbox: Sandbox, inside: Path) -> None:
    (inside / "f").write_bytes(b"x" * 1000)

    with pytest.raises(TimeoutError):
        read_text(sandbox, "f", offset=0, limit=10, checkpoint=stop)
    for first in (1, 2):
        with pytest.raises(TimeoutError):
            read_lines(sandbox, "f", first=first, count=1, limit=10, checkpoint=stop)
    with pytest.raises(TimeoutError):
        read_tail(sandbox, "f", lines=1, limit=10, checkpoint=stop)


def test_file_over_the_read_limit_is_refused(sandbox: Sandbox, inside: Path) -> None:
    (inside / "f").write_bytes(b"x" * 11)

    with pytest.raises(ToolError, match="at most 10 bytes, got 11"):
        read_bytes(sandbox, "f", limit=10, checkpoint=go_on)
    assert read_bytes(sandbox, "f", limit=11, checkpoint=go_on).data == b"x" * 11


@pytest.mark.parametrize(
    ("name", "data", "expected"),
    [
        ("a.png", b"", "image/png"),
        ("a.PNG", b"", "image/png"),
        ("a.svg", b"<svg/>", "image/svg+xml"),
        ("a.ogg", b"", "audio/ogg"),
        ("a.pdf", b"", "application/pdf"),
        ("a.ts", b"", "text/plain"),
        ("a.md", b"", "text/markdown"),
        ("a", b"\x89PNG\r\n\x1a\n\0", "image/png"),
        ("a", b"RIFF\0\0\0\0WEBP", "image/webp"),
        ("a", b"RIFF\0\0\0\0WAVE", "audio/wav"),
        ("a", b"\0\1", "application/octet-stream"),
        ("a", b"BMW is a car", "text/plain"),
        ("Makefile", b"all:\n", "text/plain"),
        ("a.tar.gz", b"\x1f\x8b\x08\0", "application/gzip"),
    ],
)
def test_media_type_is_detected(name: str, data: bytes, expected: str) -> None:
    assert media_type(name, data) == expected


def test_text_sample_may_end_inside_a_character() -> None:
    assert is_text("é".encode()[:1])
    assert not is_text(b"\xe9a")
    assert not is_text(b"a\0")
