"""Reads a TOML file and finds the line of each key, for error messages.

:mod:`mcptrio.serve.config` reads ``mcptrio.toml`` with it.
"""

from __future__ import annotations

import re
import tomllib
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from mcptrio.errors import ConfigError
from mcptrio.ground.bounded_file import read_text
from mcptrio.settings.problems import Key

__all__ = ["TOMLSource", "read_toml"]

# A configuration is a few kilobytes; the bound keeps a wrong path, such as a log file, out of memory.
_MAX_FILE_BYTES = 4 * 1024 * 1024
_LONG_STRING = re.compile(r'"""(?:\\.|[^\\])*?"""|\'\'\'.*?\'\'\'', re.DOTALL)
_PART = r"""(?:"[^"]*"|'[^']*'|[A-Za-z0-9_-]+)"""
_HEADER = re.compile(rf"\s*\[+\s*({_PART}(?:\s*\.\s*{_PART})*)\s*\]+")
_ASSIGNMENT = re.compile(rf"\s*({_PART}(?:\s*\.\s*{_PART})*)\s*=")
_UNQUOTED = re.compile(r"(?!True\b|False\b)[\w./~$:@-]")


class TOMLSource:
    """The text of a configuration file, in which it finds the line of a key."""

    def __init__(self, path: Path, text: str) -> None:
        self.path = path
        self.overlay: tuple[Key, Mapping[str, Any]] = ((), {})
        """The key of the selected profile, and its table."""
        # Text inside a multi-line string may look like a key. Only its line breaks are kept, so the lines keep their
        # numbers.
        self._lines = _LONG_STRING.sub(lambda found: '""' + "\n" * found[0].count("\n"), text).splitlines()

    def error(self, key: Key, problem: str) -> ConfigError:
        key = self._with_profile(key)
        return ConfigError(f"{self.where(key)}: {'.'.join(key)}: {problem}")

    def where(self, key: Key) -> str:
        """Return the file and the line of a key: ``mcptrio.toml:3``."""
        line = self._line_of(self._with_profile(key))
        return f"{self.path}:{line}" if line else str(self.path)

    def _with_profile(self, key: Key) -> Key:
        """Return the key at which a value is written: in the selected profile, if the profile sets it."""
        prefix, value = self.overlay
        for part in key:
            if not isinstance(value, dict) or part not in value:
                return key
            value = value[part]
        return (*prefix, *key)

    def _line_of(self, key: Key) -> int | None:
        """Return the line of a key, or of the innermost table or key around it that has a line of its own."""
        nearest: tuple[int, int | None] = (0, None)
        table: Key = ()
        for number, line in enumerate(self._lines, 1):
            if header := _HEADER.match(line):
                line_key = table = _parts(header[1])
            elif assignment := _ASSIGNMENT.match(line):
                line_key = (*table, *_parts(assignment[1]))
            else:
                continue
            if line_key[: len(key)] == key:
                return number
            if line_key == key[: len(line_key)] and len(line_key) > nearest[0]:
                nearest = (len(line_key), number)
        return nearest[1]


def read_toml(path: Path) -> tuple[TOMLSource, dict[str, Any]]:
    """Return a file's text and its tables.

    Raises:
        ConfigError: The file cannot be read, or is not TOML.
    """
    text = read_text(path, _MAX_FILE_BYTES, lambda problem: ConfigError(f"{path}: {problem}"))
    try:
        tables = tomllib.loads(text)
    except tomllib.TOMLDecodeError as error:
        problem, line = _syntax_error(str(error), text)
        raise ConfigError(f"{path}:{line}: expected TOML: {problem}") from error
    except RecursionError as error:
        raise ConfigError(f"{path}: expected TOML: nested too deeply") from error
    return TOMLSource(path, text), tables


def _parts(dotted: str) -> Key:
    return tuple(part.strip("\"'") for part in re.findall(_PART, dotted))


def _syntax_error(message: str, text: str) -> tuple[str, int]:
    """Return the problem and the line of a message of tomllib.

    Before Python 3.14, tomllib names the line only in its message, and the last line as ``end of document``.
    """
    problem, _, place = message.partition(" (at ")
    match = re.match(r"line (\d+), column (\d+)", place)
    lines = text.splitlines()
    if match is None:
        return problem, max(1, len(lines))
    line, column = lines[int(match[1]) - 1], int(match[2])
    # tomllib reads the beginning of 127.0.0.1 as a number, and expects a line break after it.
    assignment = _ASSIGNMENT.match(line) if problem.startswith("Expected newline") else None
    value = (
        line[assignment.end() :].lstrip() if assignment else line[column - 1 :] if problem == "Invalid value" else ""
    )
    if problem.startswith("Illegal character '\\n'"):
        problem += "; put a quote at the end of the string"
    if _UNQUOTED.match(value):
        problem += "; put strings in double quotes"
    return problem, int(match[1])
