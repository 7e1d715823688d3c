"""The measured figures by group, server and row, one or more for each round.

Failed measurements are kept with their reason.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field
from statistics import median
from typing import TypeAlias

__all__ = ["KIB", "MIB", "Figures", "Results", "digits"]

KIB = 1 << 10
MIB = 1 << 20

Figures: TypeAlias = dict[str, list[float]]
"""Row to figures. The name of a row ends with its unit."""


@dataclass
class Results:
    groups: dict[str, dict[str, Figures]] = field(default_factory=dict)
    """Group to server to row to figures."""
    failures: list[tuple[str, str, str]] = field(default_factory=list)
    """Group, server, and why it could not be measured."""

    def add(self, group: str, server: str, figures: Figures) -> None:
        kept = self.groups.setdefault(group, {}).setdefault(server, {})
        for row, values in figures.items():
            kept.setdefault(row, []).extend(values)

    def rows(self, group: str) -> list[str]:
        """Return the names in the order of measurement."""
        return list(dict.fromkeys(row for figures in self.groups.get(group, {}).values() for row in figures))

    def values(self, server: str, row: str) -> Sequence[float]:
        """Return all figures of a row; its name is unique among the groups."""
        for servers in self.groups.values():
            if row in servers.get(server, {}):
                return servers[server][row]
        return ()

    def figure(self, server: str, row: str) -> float | None:
        """Return the median of a row; ``None`` if it was not measured."""
        values = self.values(server, row)
        return median(values) if values else None


def digits(value: float) -> str:
    """Return a figure with its significant digits."""
    if value < 0.1:
        return f"{value:.3f}"
    return f"{value:.2f}" if value < 10 else f"{value:.1f}" if value < 100 else f"{value:,.0f}"
