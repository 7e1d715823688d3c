"""Patterns for single arguments of a command.

The configuration compiles them, and the policy matches them. An argument that starts with a dash is an option. Only a
pattern that starts with a dash matches it, so ``*`` allows every operand but no option.

Source: fnmatch (shell patterns). Dashes follow the shell's rule about leading dots.
"""

from __future__ import annotations

import re
from collections.abc import Callable
from fnmatch import translate

from attrs import field, frozen

__all__ = ["ArgumentPattern"]

_INTEGER = re.compile(r"[0-9]{1,18}")
_REGULAR = "re:"
_PATH = "{path}"
_INTEGERS = "{integer}"


@frozen
class ArgumentPattern:
    """A pattern for one argument. Made by :meth:`parse`."""

    text: str
    expression: re.Pattern[str] | None = field(repr=False, eq=False)
    """Matches the whole argument; ``None`` for a pattern that ends with a path."""

    @classmethod
    def parse(cls, text: str, *, literal: bool = False) -> ArgumentPattern:
        """Compile a pattern.

        Args:
            literal: The pattern is in the fixed part of a rule, where an empty text means an empty argument.

        Raises:
            ValueError: The pattern is invalid.
        """
        if not isinstance(text, str) or "\0" in text or (not text and not literal):
            raise ValueError(f"expected a pattern for an argument, got {text!r}")
        if text.endswith(_PATH) and not text.startswith(_REGULAR):
            return cls(text, None)
        if text == _INTEGERS:
            return cls(text, _INTEGER)
        if text.startswith("{") and text.endswith("}"):
            raise ValueError(f"expected {_PATH} or {_INTEGERS}, got {text!r}")
        try:
            source = text.removeprefix(_REGULAR) if text.startswith(_REGULAR) else translate(text)
            return cls(text, re.compile(source))
        except re.error as error:
            raise ValueError(f"expected a regular expression, got {text!r}: {error}") from error

    def matches(self, argument: str, is_inside: Callable[[str], bool]) -> bool:
        """Return whether an argument matches.

        Args:
            is_inside: Returns whether a path, once resolved, is in an allowed folder.
        """
        source = self.text.removeprefix(_REGULAR)
        if argument.startswith("-") and not source.startswith(("-", r"\-", "[-]")):
            return False
        if self.expression is not None:
            return self.expression.fullmatch(argument) is not None
        before = self.text.removesuffix(_PATH)
        path = argument.removeprefix(before)
        return argument.startswith(before) and _is_path(path) and is_inside(path)


def _is_path(text: str) -> bool:
    """Return whether programs interpret the argument as a plain path."""
    # Many programs give host:file, ext::command, of=file and @file another meaning. A file with such a name can be
    # written as ./of=file.
    first = text.partition("/")[0]
    return bool(text) and not first.startswith("@") and ":" not in first and "=" not in first
