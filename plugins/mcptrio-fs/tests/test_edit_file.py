from __future__ import annotations

import shutil
import subprocess
import time
from pathlib import Path

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from mcptrio_fs.editing import MAX_DIFF, MAX_EDITS, Edit, Edited, apply_edits, truncate_diff

from mcptrio.errors import ToolError


def go_on() -> None:
    """Continue: the call is not cancelled."""


def edit(text: str, *pairs: tuple[str, str]) -> Edited:
    return apply_edits(text, [Edit(old, new) for old, new in pairs], path="/d/f.txt", checkpoint=go_on)


def test_first_exact_match_is_replaced_and_others_reported() -> None:
    edited = edit("one two one\n", ("one", "three"))

    assert edited.text == "three two one\n"
    assert edited.notes == (
        "edit 1: the old text is there 2 times; only the first was replaced; expected_replacements=2 replaces all",
    )


@pytest.mark.parametrize(
    ("text", "old", "new", "count", "expected"),
    [
        ("a b a\na\n", "a", "xyz", 3, "xyz b xyz\nxyz\n"),
        ("a b a\n", "a", "x\ny", 2, "x\ny b x\ny\n"),
        ("1\n2\n1\n2\n", "1\n2\n", "3\n", 2, "3\n3\n"),
        ("1\r\n2\r\n", "\r\n", ";", 2, "1;2;"),
        ("aaa", "aa", "b", 1, "ba"),
        ("<a\nb><a\nb>", "<a\nb>", "x", 2, "xx"),
    ],
)
def test_expected_occurrences_are_all_replaced(text: str, old: str, new: str, count: int, expected: str) -> None:
    edited = apply_edits(text, [Edit(old, new, count)], path="f", checkpoint=go_on)

    assert edited.text == expected
    assert edited.notes == ()


def test_unexpected_number_of_occurrences_is_refused() -> None:
    for text, old, expected, got in (("a a", "a", 1, 2), ("a", "a", 2, 1), (" a\n  a\n", "a ", 1, 2)):
        with pytest.raises(ToolError, match=f"edit 1: expected the old text {expected} times, got {got}"):
            apply_edits(text, [Edit(old, "x", expected)], path="f", checkpoint=go_on)
    with pytest.raises(ToolError, match="expected 2 exact occurrences of the old text, got 2 that differ"):
        apply_edits(" a\n  a\n", [Edit("a ", "x", 2)], path="f", checkpoint=go_on)


def test_edits_are_applied_in_order() -> None:
    assert edit("a\nb\nc\n", ("a\nb", "x"), ("x\nc", "y\nz")).text == "y\nz\n"


def test_special_characters_are_literal() -> None:
    assert edit("a.*$&b", ("a.*$&", "\\1$&")).text == "\\1$&b"


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        # The indentation of the file, whatever that of the old text is.
        ("    if x:\n        y\n", "if x:\n    y", "if z:\n    y\n    w", "    if z:\n        y\n        w\n"),
        ("\tif x:\n\t\ty\n", "  if x:\n    y", "  if x:\n    z\n      deeper", "\tif x:\n\t\tz\n\t\t  deeper\n"),
        ("        y\n", "y ", "    a\n    b", "        a\n        b\n"),
        ("        y\n        z\n", "    y\n    z ", "    a\n  out", "        a\n      out\n"),
        ("  y\n  z\n", "    y\n    z ", "    a\n  out", "  a\nout\n"),
        ("a  \nb\n", "a\nb", "c\n\nd", "c\n\nd\n"),
        ("  a\n", "a\n", "b\n", "  b\n"),
    ],
)
def test_lines_are_matched_without_indentation_which_is_kept(text: str, old: str, new: str, expected: str) -> None:
    if old not in text:
        assert edit(text, (old, new)).text == expected
    else:
        assert edit(text, (old + " ", new)).text == expected


@pytest.mark.parametrize(
    ("text", "old", "new", "expected"),
    [
        ("a\r\nb\r\nc\r\n", "b", "x\ny", "a\r\nx\r\ny\r\nc\r\n"),
        ("a\r\nb\r\nc\r\n", "a\nb\n", "x\n", "x\r\nc\r\n"),
        ("a\nb\r\nc\n", "c", "d", "a\nb\r\nd\n"),
        ("a\r\nb\nc\nd", "c", "x\r\ny", "a\r\nb\nx\ny\nd"),
        ("a\rb\n", "b", "c", "a\rc\n"),
        ("\ufeffa\r\nb", "b", "c\n", "\ufeffa\r\nc\r\n"),
    ],
)
def test_line_ends_are_unchanged(text: str, old: str, new: str, expected: str) -> None:
    assert edit(text, (old, new)).text == expected


def test_missing_text_error_names_the_edit() -> None:
    with pytest.raises(ToolError, match=r"edit 2 of 2 in /d/f\.txt; nothing was changed"):
        edit("a\n", ("a", "b"), ("nowhere", "c"))
    with pytest.raises(ToolError, match="edit 1 of 1"):
        edit("a\n\n\n\nb\n", ("  \n \n", "c"))


@pytest.mark.parametrize(
    ("text", "old", "shown"),
    [
        (
            "import os\n\ndef run(a):\n    return a\n\nx = 1\n",
            "def run(b):\n    return a\n",
            "3: def run(a):\n4:     return a",
        ),
        ("one\ntotal = price * count\nthree\n", "total = price + count", "2: total = price * count"),
        ("}\n}\nfoo(1)\n}\n", "foo(2)\n}", "3: foo(1)\n4: }"),
        ("x\n", "completely different", "Expected to find:\ncompletely different"),
    ],
)
def test_missing_text_error_shows_the_most_similar_lines(text: str, old: str, shown: str) -> None:
    with pytest.raises(ToolError) as refused:
        edit(text, (old, "new"))

    assert str(refused.value).endswith(shown)


def test_empty_old_text_is_allowed_for_an_empty_file_only() -> None:
    assert edit("", ("", "a\nb\n")).text == "a\nb\n"
    with pytest.raises(ToolError, match="got an empty one"):
        edit("a", ("", "b"))


def test_too_many_edits_are_refused() -> None:
    with pytest.raises(ToolError, match="at most"):
        edit("a", *[("a", "a")] * (MAX_EDITS + 1))


def test_diff_is_unified() -> None:
    text = "".join(f"line {number}\n" for number in range(1, 31))

    diff = edit(text, ("line 5\n", "LINE 5\nmore\n"), ("line 25\n", "")).diff

    assert diff == (
        "--- /d/f.txt\n+++ /d/f.txt\n"
        "@@ -2,7 +2,8 @@\n line 2\n line 3\n line 4\n-line 5\n+LINE 5\n+more\n line 6\n line 7\n line 8\n"
        "@@ -22,7 +23,6 @@\n line 22\n line 23\n line 24\n-line 25\n line 26\n line 27\n line 28\n"
    )


def test_diff_shows_a_missing_final_line_end() -> None:
    assert edit("a", ("a", "b")).diff.endswith("-a\n\\ No newline at end of file\n+b\n\\ No newline at end of file\n")


def test_long_diff_is_truncated_and_marked() -> None:
    assert truncate_diff("x" * (MAX_DIFF + 5)).endswith("x[5 more characters of diff]\n")


def test_large_files_and_hostile_edits_take_little_time() -> None:
    started = time.thread_time()  # Processor time, because the machine may be busy.
    large = "".join(f"line {number}\n" for number in range(200_000))

    edit(large, ("line 5\n", "x\n"), ("line 199999\n", "y\n"), ("  line 100000 ", "z"))
    with pytest.raises(ToolError):
        edit(" a\n" * 200_000, ("a \n" * 1000 + "b", "x"))
    edit("a\n" * 5000, ("a\n" * 5000, "b\n" * 5000))

    assert time.thread_time() - started < 10


LINES = st.lists(st.sampled_from(["a", "b", "  a", "", "c"]), max_size=12)


@settings(max_examples=150, deadline=None, suppress_health_check=[HealthCheck.too_slow])
@given(LINES, st.booleans(), st.lists(st.tuples(LINES, LINES), min_size=1, max_size=3))
@pytest.mark.skipif(shutil.which("patch") is None, reason="needs patch(1)")
def test_applied_diff_yields_the_new_text(
    tmp_path_factory: pytest.TempPathFactory, lines: list[str], closed: bool, pairs: list[tuple[list[str], list[str]]]
) -> None:
    text = "\n".join(lines) + ("\n" if closed else "")
    try:
        edited = edit(text, *(("\n".join(old), "\n".join(new)) for old, new in pairs))
    except ToolError:
        return
    if edited.text == text:
        assert "@@" not in edited.diff
        return
    folder = tmp_path_factory.mktemp("patch")
    Path(folder, "f").write_text(text)
    Path(folder, "d").write_text(edited.diff)
    subprocess.run(["patch", "-s", "f", "d"], cwd=folder, check=True, capture_output=True)

    patched = Path(folder, "f").read_text() if Path(folder, "f").exists() else ""
    assert patched == edited.text
