"""What mcptrio is expected to reach, row by row, and whether it does.

The one rule: an expectation compares what was measured in the same run; only start-up and memory have an absolute bound
as well.
"""

from __future__ import annotations

from dataclasses import dataclass

__all__ = ["EXPECTATIONS", "Expectation", "expectation_of"]


@dataclass(frozen=True)
class Expectation:
    """For the rows whose name begins with ``row``: against the official SDK, and as such."""

    row: str
    at_least: float | None = None
    """Times the SDK's figure."""
    at_most: float | None = None
    """Times the SDK's figure."""
    bound: float | None = None
    """In the row's own unit."""

    def __str__(self) -> str:
        parts = []
        if self.at_least is not None:
            parts.append(f"≥ {self.at_least:g}× mcp")
        if self.at_most is not None:
            parts.append(f"≤ {self.at_most:g}× mcp")
        if self.bound is not None:
            parts.append(f"≤ {self.bound:g}")
        return ", ".join(parts)

    def is_met(self, ours: float, sdk: float | None) -> bool | None:
        """``None`` where that cannot be said, because the SDK was not measured."""
        if self.bound is not None and ours > self.bound:
            return False
        if sdk is None:
            return None
        if self.at_least is not None and ours < self.at_least * sdk:
            return False
        return self.at_most is None or ours <= self.at_most * sdk


EXPECTATIONS = (
    Expectation("start", at_most=0.4, bound=230),
    Expectation("stdio, 1 in flight", at_least=4),
    Expectation("stdio, 64 in flight", at_least=20),
    Expectation("memory after start", at_most=0.6, bound=40),
    Expectation("memory after load", at_most=0.6, bound=40),
    Expectation("HTTP", at_least=1),
    Expectation("client", at_least=2),
)


def expectation_of(row: str) -> Expectation | None:
    """The one for a row, if there is one."""
    return next((each for each in EXPECTATIONS if row.startswith(each.row)), None)
