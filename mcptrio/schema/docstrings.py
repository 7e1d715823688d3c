"""Splits docstrings into a description and the descriptions of parameters, for models.

Used when a function is registered. Google, NumPy and reST styles are supported, even mixed. Unrecognized text stays in
the description. Parsing never raises.

Source: Google Python style guide 3.8.3; numpydoc, "Sections"; Sphinx, "Info field lists".
"""

from __future__ import annotations

import inspect
import re
from collections.abc import Callable, Mapping

from attrs import frozen

__all__ = ["Docstring", "parse_docstring"]

# The sections whose entries describe parameters.
_PARAMETER_SECTIONS = frozenset(
    {"args", "arguments", "parameters", "params", "other parameters", "keyword args", "keyword arguments", "attributes"}
)
# The sections that are dropped, because they do not help a model to call the tool.
_OTHER_SECTIONS = frozenset(
    {"returns", "return", "yields", "yield", "raises", "raise", "warns", "see also", "references", "todo"}
)
_ENTRY = re.compile(r"\*{0,2}(?P<names>[A-Za-z_]\w*)\s*(?:\([^()]*(?:\([^()]*\)[^()]*)*\))?\s*:(?:\s+(?P<text>.*)|$)")
_NUMPY_ENTRY = re.compile(r"(?P<names>\*{0,2}[A-Za-z_]\w*(?:\s*,\s*\*{0,2}[A-Za-z_]\w*)*)\s*(?::.*)?$")
_FIELD = re.compile(r":(?P<role>[a-z]+)(?:\s+(?P<argument>[^:]*))?:(?:\s+(?P<text>.*)|$)")
_PARAMETER_ROLES = frozenset({"param", "parameter", "arg", "argument", "key", "keyword", "ivar", "var", "cvar"})
_OTHER_ROLES = frozenset({"type", "return", "returns", "rtype", "raise", "raises", "except", "exception", "vartype"})


@frozen
class Docstring:
    """The parts of a docstring."""

    description: str
    """Summary and body, without the sections on parameters, results and exceptions; may be empty."""
    parameters: Mapping[str, str]
    """The description of each parameter, on one line."""


def parse_docstring(text: str | None) -> Docstring:
    """Split a docstring into the description and the parameters' descriptions."""
    if not text:
        return Docstring("", {})
    lines = inspect.cleandoc(text).splitlines()
    description_lines: list[str] = []
    parameters: dict[str, str] = {}
    index = 0
    while index < len(lines):
        if (title := _underlined_title(lines, index)) is not None:
            end = _end_of_underlined(lines, index + 2)
            if title in _PARAMETER_SECTIONS:
                _read_underlined(lines[index + 2 : end], parameters)
            index = end
        elif (title := _indented_title(lines, index)) is not None:
            end = _end_of_block(lines, index + 1)
            if title in _PARAMETER_SECTIONS:
                _read_indented(lines[index + 1 : end], parameters)
            index = end
        # Only at the first column, because `:param` inside of a text may be part of a sentence.
        elif (field := _FIELD.match(lines[index])) and field["role"] in _PARAMETER_ROLES | _OTHER_ROLES:
            end = _end_of_block(lines, index + 1, blank_ends=True)
            if field["role"] in _PARAMETER_ROLES and field["argument"]:
                # In ":param int after: text", the last word is the name, and a type may precede it.
                name = field["argument"].split()[-1].lstrip("*")
                parameters.setdefault(name, _one_line([field["text"] or "", *lines[index + 1 : end]]))
            index = end
        else:
            description_lines.append(lines[index])
            index += 1
    # Between removed sections, several blank lines are left.
    description = re.sub(r"\n{3,}", "\n\n", "\n".join(line.rstrip() for line in description_lines)).strip()
    return Docstring(description, {name: sentence for name, sentence in parameters.items() if sentence})


def _indent(line: str) -> int:
    return len(line) - len(line.lstrip())


def _one_line(lines: list[str]) -> str:
    return " ".join(" ".join(lines).split())


def _underlined_title(lines: list[str], index: int) -> str | None:
    """Return the lower-cased title of a NumPy section that starts at this line."""
    title = lines[index].strip().lower()
    if title not in _PARAMETER_SECTIONS | _OTHER_SECTIONS or index + 1 >= len(lines):
        return None
    rule = lines[index + 1].strip()
    return title if len(rule) >= 3 and set(rule) == {"-"} else None


def _end_of_underlined(lines: list[str], start: int) -> int:
    """Return the end of a NumPy section: the next underlined title of any name, or the end of the docstring."""
    for index in range(start, len(lines) - 1):
        rule = lines[index + 1].strip()
        if lines[index].strip() and not lines[index].startswith(" ") and len(rule) >= 3 and set(rule) == {"-"}:
            return index
    return len(lines)


def _indented_title(lines: list[str], index: int) -> str | None:
    """Return the lower-cased title of a Google section that starts at this line: ``Args:`` with indented lines
    below."""
    line = lines[index]
    if line.startswith(" ") or not line.rstrip().endswith(":"):
        return None
    title = line.strip()[:-1].lower()
    if title not in _PARAMETER_SECTIONS | _OTHER_SECTIONS:
        return None
    # A line "Returns:" without indented lines below is an ordinary sentence.
    following = next((other for other in lines[index + 1 :] if other.strip()), "")
    return title if _indent(following) > 0 else None


def _end_of_block(lines: list[str], start: int, *, blank_ends: bool = False) -> int:
    """Return the first line from ``start`` on that is not indented. A blank line belongs to the block by default."""
    for index in range(start, len(lines)):
        if not lines[index].strip():
            if blank_ends:
                return index
        elif not lines[index].startswith(" "):
            return index
    return len(lines)


def _read_indented(lines: list[str], parameters: dict[str, str]) -> None:
    # Entries have the smallest indentation; lines with a larger one continue an entry.
    depth = min((_indent(line) for line in lines if line.strip()), default=0)
    _read_entries(lines, parameters, lambda line: _ENTRY.match(line.strip()) if _indent(line) == depth else None)


def _read_underlined(lines: list[str], parameters: dict[str, str]) -> None:
    _read_entries(lines, parameters, lambda line: None if line.startswith(" ") else _NUMPY_ENTRY.match(line))


def _read_entries(lines: list[str], parameters: dict[str, str], match: Callable[[str], re.Match[str] | None]) -> None:
    entries: list[tuple[str, list[str]]] = []
    for line in lines:
        if (entry := match(line)) is not None:
            entries.append((entry["names"], [entry.groupdict().get("text") or ""]))
        elif entries:
            entries[-1][1].append(line)
    for names, text in entries:
        for name in names.split(","):
            # The first description is kept, because a later section may repeat a name for another reason.
            parameters.setdefault(name.strip().lstrip("*"), _one_line(text))
