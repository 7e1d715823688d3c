"""Edits a text, and makes the diff, without touching a file.

The edit tool calls it in a worker thread. A line without an edit keeps its bytes and its line end; new lines get the
most frequent line end. The text is a list of lines that store their origin. The diff follows from the origins without
a comparison of the two texts, whose time could grow with the square of their length.

Source: the order of attempts (exact, then line by line without surrounding white space) is that of the reference
filesystem server.
"""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterator, Sequence

from msgspec import Struct

from mcptrio.errors import ToolError

from .errors import printable
from .nearest import nearest
from .reading import Checkpoint

__all__ = ["MAX_DIFF", "MAX_EDITS", "Edit", "Edited", "apply_edits", "truncate_diff"]

MAX_EDITS = 1000
"""Maximum number of edits in one call; each one searches the whole file."""

MAX_DIFF = 34_000
"""Maximum number of characters of a diff that are shown."""

_CONTEXT = 3
_COMPARED = 400
"""Maximum number of lines in a changed block whose lines are compared; a larger block is shown whole."""

_SEPARATOR = re.compile(r"\r\n|\n")


class Edit(Struct, frozen=True):
    """Replace one piece of text by another."""

    old: str
    new: str
    expected: int | None = None
    """The required number of occurrences, which are all replaced; None replaces only the first one."""


class Edited(Struct, kw_only=True, frozen=True):
    """The result of an edit."""

    text: str
    diff: str
    """A unified diff."""

    notes: tuple[str, ...]
    """Notes on the edits for the reader, such as a second match."""


class _Line(Struct):
    text: str
    separator: str
    """The line end; empty for the text after the last line end."""

    origin: int | None
    """Index of the line in the original text; None for a line that an edit made."""


def apply_edits(text: str, edits: Sequence[Edit], *, path: str, checkpoint: Checkpoint) -> Edited:
    """Apply edits one after the other.

    Args:
        path: The name of the file in the diff.

    Raises:
        ToolError: There are too many edits, or the old text of an edit is empty or not found; the message names the
            edit.
    """
    if len(edits) > MAX_EDITS:
        raise ToolError(f"expected at most {MAX_EDITS} edits, got {len(edits)}")
    before = _split(text)
    separator = "\r\n" if text.count("\r\n") * 2 > text.count("\n") else "\n"
    lines = [_Line(line.text, line.separator, index) for index, line in enumerate(before)]
    notes = []
    for number, edit in enumerate(edits, 1):
        checkpoint()
        old, new = edit.old.replace("\r\n", "\n"), edit.new.replace("\r\n", "\n")
        change = Edit(old, new, edit.expected)
        places = _replace_exactly(lines, change, number, separator, is_empty=not text and len(lines) == 1)
        if not places:
            places = _replace_loosely(lines, change, number, separator)
        if not places:
            near = nearest([line.text for line in lines], old, checkpoint)
            hint = f"The most similar lines are:\n{near}" if near else f"Expected to find:\n{edit.old[:2000]}"
            raise ToolError(
                f"could not find the text of edit {number} of {len(edits)} in {printable(path)}; nothing was changed. "
                f"{hint}"
            )
        if places > 1 and edit.expected is None:
            notes.append(
                f"edit {number}: the old text is there {places} times; only the first was replaced; "
                f"expected_replacements={places} replaces all"
            )
    diff = "".join(_diff(before, lines, path, checkpoint))
    return Edited(text="".join(line.text + line.separator for line in lines), diff=diff, notes=tuple(notes))


def truncate_diff(diff: str) -> str:
    """Return a diff, cut to ``MAX_DIFF`` characters after a whole line."""
    if len(diff) <= MAX_DIFF:
        return diff
    head = diff[: diff.rfind("\n", 0, MAX_DIFF) + 1 or MAX_DIFF]
    return f"{head}[{len(diff) - len(head)} more characters of diff]\n"


def _split(text: str) -> list[_Line]:
    lines = []
    position = 0
    for match in _SEPARATOR.finditer(text):
        lines.append(_Line(text[position : match.start()], match[0], None))
        position = match.end()
    lines.append(_Line(text[position:], "", None))
    return lines


def _replace_exactly(lines: list[_Line], edit: Edit, number: int, separator: str, *, is_empty: bool) -> int:
    """Replace the expected occurrences of the old text, or the first one. Return the number of all occurrences."""
    old, new = edit.old, edit.new
    if not old:
        if not is_empty:
            raise ToolError("old_text: expected a string, got an empty one, which only an empty file matches")
        _splice(lines, 0, 1, new.split("\n"), separator)
        return 1
    whole = "\n".join(line.text for line in lines)
    places = whole.count(old)
    if not places:
        return 0
    _expect(places, edit, number)
    spans: list[tuple[int, int]] = []
    at, first = 0, 0
    for _ in range(edit.expected or 1):
        begin = whole.index(old, at)
        first += whole.count("\n", at, begin)
        spans.append((first, begin - (whole.rfind("\n", 0, begin) + 1)))
        first += old.count("\n")
        at = begin + len(old)
    count = old.count("\n") + 1
    # From the last to the first, so that the line numbers of the earlier ones stay valid.
    for first, begins in reversed(spans):
        after = lines[first + count - 1].text[len(old) - (old.rfind("\n") + 1) + (begins if count == 1 else 0) :]
        replaced = (lines[first].text[:begins] + new + after).split("\n")
        _splice(lines, first, count, replaced, separator)
    return places


def _replace_loosely(lines: list[_Line], edit: Edit, number: int, separator: str) -> int:
    """Replace the first lines that equal those of the old text, ignoring white space around each line."""
    stripped = "\n" + "\n".join(line.text.strip() for line in lines) + "\n"
    old, new = edit.old, edit.new
    for old_text, new_text in ((old, new), (old.removesuffix("\n"), new.removesuffix("\n"))):
        old_lines = old_text.split("\n")
        needle = "\n" + "\n".join(line.strip() for line in old_lines) + "\n"
        if not needle.strip():
            return 0  # blank lines match almost anywhere
        at = stripped.find(needle)
        if at >= 0:
            places = 1 + stripped.count(needle, at + len(needle) - 1)
            _expect(places, edit, number)
            if edit.expected is not None and edit.expected > 1:
                raise ToolError(
                    f"edit {number}: expected {edit.expected} exact occurrences of the old text, got {places} that "
                    "differ from it in white space; nothing was changed"
                )
            first = stripped.count("\n", 0, at)
            here = [line.text for line in lines[first : first + len(old_lines)]]
            _splice(lines, first, len(old_lines), _reindent(old_lines, here, new_text.split("\n")), separator)
            return places
    return 0


def _expect(places: int, edit: Edit, number: int) -> None:
    if edit.expected not in (None, places):
        raise ToolError(
            f"edit {number}: expected the old text {edit.expected} times, got {places}; nothing was changed"
        )


def _reindent(old_lines: Sequence[str], file_lines: Sequence[str], new_lines: Sequence[str]) -> list[str]:
    """Return new lines with the file's indentation in place of the old text's."""
    real: dict[str, str] = {}
    for expected, actual in zip(old_lines, file_lines, strict=True):
        if expected.strip():
            real.setdefault(_indent(expected), _indent(actual))
    first = _indent(file_lines[0])
    if new_lines[0].strip():
        real[_indent(new_lines[0])] = first  # the first line gets the first line's indentation
    result = []
    for line in new_lines:
        if not line.strip():
            result.append(line)
            continue
        indent = _indent(line)
        prefix = max((key for key in real if indent.startswith(key)), key=len, default=None)
        if prefix is not None:
            result.append(real[prefix] + indent[len(prefix) :] + line.lstrip())
        else:  # less indented than any line of the old text
            shift = len(first) - len(_indent(old_lines[0]))
            result.append((first[:shift] + indent if shift >= 0 else indent[-shift:]) + line.lstrip())
    return result


def _indent(line: str) -> str:
    return line[: len(line) - len(line.lstrip())]


def _splice(lines: list[_Line], first: int, count: int, texts: Sequence[str], separator: str) -> None:
    """Replace ``count`` lines by ``texts``; existing line ends are kept."""
    old = lines[first : first + count]
    ends = [line.separator for line in old[:-1]][: len(texts) - 1]
    ends += [separator] * (len(texts) - 1 - len(ends)) + [old[-1].separator]
    lines[first : first + count] = [_Line(text, end, None) for text, end in zip(texts, ends, strict=True)]


def _diff(before: list[_Line], after: list[_Line], path: str, checkpoint: Checkpoint) -> Iterator[str]:
    name = printable(path)
    yield f"--- {name}\n+++ {name}\n"
    old, new = _lines(before), _lines(after)
    group: list[tuple[int, int, int, int]] = []
    for change in _changes(before, after, old, new):
        checkpoint()
        if group and change[0] - group[-1][1] > 2 * _CONTEXT:
            yield from _hunk(group, old, new)
            group = []
        group.append(change)
    if group:
        yield from _hunk(group, old, new)


def _lines(lines: list[_Line]) -> list[str]:
    """Return the lines for a diff. The text after the last line end counts as a line only if it is not empty."""
    texts = [line.text + "\n" for line in lines[:-1]]
    if lines[-1].text:
        texts.append(lines[-1].text)
    return texts


def _changes(
    before: list[_Line], after: list[_Line], old: list[str], new: list[str]
) -> Iterator[tuple[int, int, int, int]]:
    """Yield the ranges that differ, as (from, to) before and (from, to) after. Unchanged lines separate them."""
    at_old = at_new = 0
    unchanged_lines = [(line.origin, index) for index, line in enumerate(after) if line.origin is not None]
    for origin, index in [*unchanged_lines, (len(before), len(after))]:
        assert origin is not None
        if origin > at_old or index > at_new:
            yield from _within(old, new, at_old, min(origin, len(old)), at_new, min(index, len(new)))
        at_old, at_new = origin + 1, index + 1


def _within(
    old: list[str], new: list[str], old_from: int, old_to: int, new_from: int, new_to: int
) -> Iterator[tuple[int, int, int, int]]:
    while old_from < old_to and new_from < new_to and old[old_from] == new[new_from]:
        old_from, new_from = old_from + 1, new_from + 1
    while old_from < old_to and new_from < new_to and old[old_to - 1] == new[new_to - 1]:
        old_to, new_to = old_to - 1, new_to - 1
    if old_from >= old_to and new_from >= new_to:
        return
    if max(old_to - old_from, new_to - new_from) > _COMPARED:
        yield old_from, old_to, new_from, new_to
        return
    matcher = difflib.SequenceMatcher(None, old[old_from:old_to], new[new_from:new_to], autojunk=False)
    for tag, a, b, c, d in matcher.get_opcodes():
        if tag != "equal":
            yield old_from + a, old_from + b, new_from + c, new_from + d


def _hunk(group: list[tuple[int, int, int, int]], old: list[str], new: list[str]) -> Iterator[str]:
    begin = max(0, group[0][0] - _CONTEXT)
    end = min(len(old), group[-1][1] + _CONTEXT)
    new_begin = group[0][2] - (group[0][0] - begin)
    new_end = group[-1][3] + (end - group[-1][1])
    yield f"@@ -{_span(begin, end)} +{_span(new_begin, new_end)} @@\n"
    at = begin
    for old_from, old_to, new_from, new_to in group:
        yield from (_mark_line(" ", line) for line in old[at:old_from])
        yield from (_mark_line("-", line) for line in old[old_from:old_to])
        yield from (_mark_line("+", line) for line in new[new_from:new_to])
        at = old_to
    yield from (_mark_line(" ", line) for line in old[at:end])


def _span(begin: int, end: int) -> str:
    count = end - begin
    return f"{begin + 1 if count else begin},{count}"


def _mark_line(mark: str, line: str) -> str:
    return mark + line if line.endswith("\n") else f"{mark}{line}\n\\ No newline at end of file\n"
