"""Types of options and arguments, with errors that name the expected and the actual value.

The commands use these instead of click's, whose errors do not say which values are accepted.
"""

from __future__ import annotations

from math import inf, isnan
from typing import Any

import click

__all__ = ["PORT", "SECONDS", "IntegerRange", "OneOf", "SecondsRange"]


class IntegerRange(click.IntRange):
    """An integer between two bounds.

    Args:
        expected: The range in words, for errors.
        minimum, maximum: The bounds, both included.
    """

    def __init__(self, expected: str, minimum: int, maximum: int | None = None) -> None:
        super().__init__(minimum, maximum)
        self.expected = expected

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            return super().convert(value, param, ctx)
        except click.BadParameter:
            self.fail(f"expected {self.expected}, got {value!r}", param, ctx)


class SecondsRange(click.FloatRange):
    """A time in seconds.

    Args:
        expected: The range in words, for errors.
        minimum, maximum: The bounds, both included.
        above: The lower bound, not included.
    """

    def __init__(
        self, expected: str, minimum: float = -inf, maximum: float = inf, *, above: float | None = None
    ) -> None:
        super().__init__(minimum if above is None else above, maximum, min_open=above is not None)
        self.expected = expected

    def convert(self, value: Any, param: click.Parameter | None, ctx: click.Context | None) -> Any:
        try:
            seconds = super().convert(value, param, ctx)
        except click.BadParameter:
            seconds = float("nan")
        # A comparison with nan is always false, so click's range lets it pass.
        if isnan(seconds):
            self.fail(f"expected {self.expected}, got {value!r}", param, ctx)
        return seconds


class OneOf(click.Choice[str]):
    """One of several words."""

    def get_invalid_choice_message(self, value: Any, ctx: click.Context | None) -> str:
        return f"expected one of {', '.join(self.choices)}, got {value!r}"


PORT = IntegerRange("a port from 0 to 65535", 0, 65535)
SECONDS = SecondsRange("a number of seconds above 0", above=0)
