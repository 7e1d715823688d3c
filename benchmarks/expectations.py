"""The targets of mcptrio, row by row, and whether they are met.

The report shows all of them. A ratio compares medians of the same run. A row that was not measured meets no target.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from calls import ERAS
from load_clients import client_row
from load_fanout import fanout_row
from load_flat import flat_row
from load_http import http_row
from load_memory import SESSION, STREAM
from load_set import MEMORY, START
from load_sse import sse_row
from results import Results, digits
from scale import FULL
from servers import OURS, PEERS, REFERENCES

__all__ = ["BEST", "EXPECTATIONS", "FLAT", "Expectation", "Verdict"]

BEST = "the best peer"
FLAT = 1.15
"""Times the cost with one that still counts as flat: neighbouring slices of equal servers differ by less."""


@dataclass(frozen=True)
class Verdict:
    """The outcome of a target.

    Attributes:
        met: ``None`` if it was not measured.
        figure: our figure, and the one that it was compared with.
    """

    met: bool | None
    figure: str


@dataclass(frozen=True)
class Expectation:
    """A target.

    Attributes:
        group: the group of the row.
        row: the name of the row.
        against: the server of the other figure.
        times_at_least: times the other's figure, for rates.
        times_at_most: times the other's figure, for times and sizes.
        at_least: in the unit of the row.
        at_most: in the unit of the row.
    """

    group: str
    row: str
    against: str = ""
    times_at_least: float | None = None
    times_at_most: float | None = None
    at_least: float | None = None
    at_most: float | None = None

    def __str__(self) -> str:
        parts = []
        if self.times_at_least is not None:
            parts.append(f"≥ {self.times_at_least:g} × {self.against}")
        if self.times_at_most is not None:
            parts.append(f"≤ {self.times_at_most:g} × {self.against}")
        if self.at_least is not None:
            parts.append(f"≥ {self.at_least:,g}")
        if self.at_most is not None:
            parts.append(f"≤ {self.at_most:,g}")
        return ", ".join(parts)

    def judge(self, results: Results) -> Verdict:
        ours = results.figure(OURS.name, self.row)
        if ours is None:
            return Verdict(None, "not measured")
        figure = digits(ours)
        met = (self.at_least is None or ours >= self.at_least) and (self.at_most is None or ours <= self.at_most)
        if not self.against:
            return Verdict(met, figure)
        name, theirs = self._other(results)
        if theirs is None:
            # A missed absolute target does not depend on the figures of other servers.
            return Verdict(None if met else False, f"{figure}; {self.against} was not measured")
        times = ours / theirs
        met = met and (self.times_at_least is None or times >= self.times_at_least)
        met = met and (self.times_at_most is None or times <= self.times_at_most)
        return Verdict(met, f"{figure}; {times:.2f} × {name}")

    def _other(self, results: Results) -> tuple[str, float | None]:
        if self.against != BEST:
            return self.against, results.figure(self.against, self.row)
        figures = {peer.name: results.figure(peer.name, self.row) for peer in PEERS}
        known = {name: figure for name, figure in figures.items() if figure is not None}
        if not known:
            return BEST, None
        best = (max if self.times_at_least is not None else min)(known, key=known.__getitem__)
        return best, known[best]


EXPECTATIONS: Sequence[Expectation] = (
    Expectation("stdio", "start, ms", "mcp", times_at_most=0.35, at_most=200),
    Expectation("stdio", "stdio, 1 in flight, calls/s", "mcp", times_at_least=5.5),
    Expectation("stdio", "stdio, 64 in flight, calls/s", "mcp", times_at_least=30),
    Expectation("stdio", "memory at rest, stdio, MiB", at_most=40),
    *(Expectation("http", http_row(era, 16, "calls/s"), BEST, times_at_least=4) for era in ERAS),
    *(Expectation("http", http_row(era, 16, "p99 ms"), BEST, times_at_most=1) for era in ERAS),
    Expectation("http", "memory at rest, HTTP, MiB", at_most=40),
    *(Expectation("sse", sse_row(era), at_least=150_000) for era in ERAS),
    Expectation("memory", SESSION, at_most=10),
    Expectation("memory", STREAM, at_most=15),
    Expectation("fanout", fanout_row(FULL.fanout), at_most=1),
    *(Expectation("flat", flat_row(count, "tool"), at_most=FLAT) for count in FULL.tools[1:]),
    *(Expectation("flat", flat_row(count, "session"), at_most=FLAT) for count in FULL.flat_sessions[1:]),
    *(Expectation("client", client_row(None, count), "mcp", times_at_least=2) for count in FULL.clients),
    *(Expectation("client", client_row(era, count), "mcp", times_at_least=2) for era in ERAS for count in FULL.clients),
    Expectation("set", START, REFERENCES.name, times_at_most=0.33),
    Expectation("set", MEMORY, REFERENCES.name, times_at_most=0.2),
)
