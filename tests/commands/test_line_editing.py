"""Keys and the resulting line: any bytes are handled, and the drawn line always fits into one row."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from mcptrio.cli.shell.words import quote_word, split_line
from mcptrio.cli.terminal.keys import KeyDecoder, TerminalKey
from mcptrio.cli.terminal.line_editor import LineCompletions, LineEditor
from mcptrio.cli.terminal.text_width import columns, cut

__all__: list[str] = []

UP, DOWN, LEFT, RIGHT = "\x1b[A", "\x1b[B", "\x1b[D", "\x1b[C"
STEERING = re.compile(r"\x1b\[[0-9;]*[A-Za-z]")


def typed(text: str, editor: LineEditor | None = None) -> LineEditor:
    editor = editor or LineEditor("> ")
    for key in KeyDecoder().feed(text.encode()):
        editor.feed(key)
    return editor


def joined(keys: list[TerminalKey]) -> list[TerminalKey]:
    """Join texts that were split."""
    results: list[TerminalKey] = []
    for key in keys:
        if key.name == "text" and results and results[-1].name == "text":
            key = TerminalKey("text", results.pop().text + key.text)
        results.append(key)
    return results


@pytest.mark.parametrize(
    ("keys", "text", "cursor"),
    [
        ("abc", "abc", 3),
        ("abc\x7f", "ab", 2),
        ("abc\x01x", "xabc", 1),
        ("abc\x01\x05x", "abcx", 4),
        (f"abc{LEFT}{LEFT}x", "axbc", 2),
        (f"abc{LEFT}\x1b[3~", "ab", 2),
        (f"abc\x1b[H{RIGHT}x", "axbc", 2),
        ("\x1bOHx\x1bOFy", "xy", 2),
        ("one two\x17", "one ", 4),
        ("one two\x1bbx", "one xtwo", 5),
        ("one two\x01\x1bfx", "onex two", 4),
        ("one two\x1b[1;5D\x0b", "one ", 4),
        ("one two\x15", "", 0),
        ("one two\x17\x01\x19", "twoone ", 3),
        ("ab\x01\x04", "b", 0),
        ("日本\x7f語", "日語", 2),
        ("\x1b[200~two\nlines\x1b[201~ more", "two lines more", 14),
        ("\x1b[200~\ttab\r\n\x1b[201~", " tab", 4),
        ("\x1b[99~\x1b[?1;2c\x1b\x1b[Ax", "x", 1),
        ("\x00\x1dx", "x", 1),
    ],
)
def test_keys_edit_the_line(keys: str, text: str, cursor: int) -> None:
    editor = typed(keys)

    assert (editor.text, editor.cursor) == (text, cursor)


def test_control_keys_return_their_action() -> None:
    editor = LineEditor("> ")

    assert editor.feed(TerminalKey("end-of-input")) == "end"
    assert editor.feed(TerminalKey("text", "a")) is None
    assert editor.feed(TerminalKey("end-of-input")) is None
    assert editor.feed(TerminalKey("enter")) == "enter"
    assert editor.feed(TerminalKey("tab")) == "complete"
    assert editor.feed(TerminalKey("interrupt")) == "interrupt"


@given(
    st.lists(
        st.sampled_from(["a", "ö", "日", "\x1b[A", "\x1b[3~", "\x1bb", "\x1b[200~", "\x1b[201~", "\r", "\x03", "\x1b"])
    ),
    st.lists(st.integers(0, 40)),
)
def test_keys_do_not_depend_on_how_their_bytes_are_split(parts: list[str], cuts: list[int]) -> None:
    data = "".join(parts).encode()
    whole = joined(list(KeyDecoder().feed(data)))
    decoder, pieces, at = KeyDecoder(), [], 0
    for end in [*sorted(min(each, len(data)) for each in cuts), len(data)]:
        pieces.extend(decoder.feed(data[at:end]))
        at = end

    assert joined(pieces) == whole


@given(st.binary())
def test_any_bytes_are_handled(data: bytes) -> None:
    editor = LineEditor("> ", history=["one", "two"])
    for key in KeyDecoder().feed(data):
        editor.feed(key)
        assert 0 <= editor.cursor <= len(editor.text)


@given(st.text(), st.lists(st.sampled_from([UP, DOWN, LEFT, RIGHT, "\x01", "\x05", "\x17", "x"])), st.integers(19, 120))
def test_drawn_line_always_fits_one_row(text: str, keys: list[str], width: int) -> None:
    editor = LineEditor("a prompt> ", history=[text[:9], text * 3], hint=lambda _: "a hint that is rather long")
    editor.feed(TerminalKey("text", text))
    typed("".join(keys), editor)
    drawn = editor.draw(width)
    plain = STEERING.sub("", drawn)

    assert columns(plain) <= width
    assert plain.isprintable()
    back = re.search(r"\x1b\[(\d+)D\Z", drawn)
    assert (int(back[1]) if back else 0) <= columns(plain)


def test_long_line_is_scrolled() -> None:
    editor = typed("0123456789" * 10)

    assert editor.draw(40).startswith("> …")
    assert editor.draw(40).endswith("56789")
    typed("\x01", editor)
    assert editor.draw(40) == f"> {('0123456789' * 10)[:38]}\x1b[38D"


def test_history_is_filtered_by_the_typed_prefix() -> None:
    editor = LineEditor("> ", history=["call a", "list", "call b", "call b"])
    seen = []
    typed("ca", editor)
    for key in (UP, UP, UP, DOWN, DOWN, DOWN):
        typed(key, editor)
        seen.append(editor.text)

    assert seen == ["call b", "call a", "call a", "call b", "ca", "ca"]


@pytest.mark.parametrize(
    ("text", "completions", "completed", "inserted"),
    [
        ("ca", LineCompletions(0, ("call",)), "call ", True),
        ("c", LineCompletions(0, ("call", "calm")), "cal", True),
        ("cal", LineCompletions(0, ("call", "calm")), "cal", False),
        ("call a", LineCompletions(5, ("a=",)), "call a=", True),
        ("x", LineCompletions(0), "x", True),
        ("B", LineCompletions(0, ("'a B'",)), "'a B' ", True),
        ("", LineCompletions(0, ("a", "b")), "", False),
    ],
)
def test_completion_inserts_the_common_prefix(
    text: str, completions: LineCompletions, completed: str, inserted: bool
) -> None:
    editor = typed(text)

    assert editor.complete(completions) == inserted
    assert editor.text == completed


@pytest.mark.parametrize(
    ("text", "words", "current", "start"),
    [
        ("", (), "", 0),
        ("ca", (), "ca", 0),
        ("call ", ("call",), "", 5),
        ("call 'a b' c", ("call", "a b"), "c", 11),
        ("call k='a b", ("call",), "k=a b", 5),
        ('call "a\\"b', ("call",), 'a"b', 5),
        ("call a\\ b", ("call",), "a b", 5),
        ("  call  x", ("call",), "x", 8),
        ("call '' ", ("call", ""), "", 8),
    ],
)
def test_typed_line_is_split_into_words(text: str, words: tuple[str, ...], current: str, start: int) -> None:
    found = split_line(text)

    assert (found.words, found.current, found.start) == (words, current, start)


@given(st.lists(st.text(min_size=1)))
def test_quoted_word_is_read_unchanged(words: list[str]) -> None:
    text = "".join(f"{quote_word(word)} " for word in words)

    assert split_line(text).words == tuple(words)


def test_width_of_a_text_is_counted_in_columns() -> None:
    assert [columns(text) for text in ("abc", "日本", "e\u0301", "")] == [3, 4, 1, 0]
    assert cut("日本語", 4) == "日…"
    assert cut("abc", 3) == "abc"
