"""Measures whether a call costs more with more tools or more idle sessions.

The same calls are made to servers that differ in nothing else. They take turns in short slices, so that other work of
the machine affects all of them; the result is the ratio of neighbouring slices.
"""

from __future__ import annotations

from collections.abc import Sequence
from contextlib import ExitStack
from statistics import median

from calls import HANDSHAKE, MODERN, Call
from connections import connected
from crowd import open_sessions
from load_http import make_calls
from results import Figures
from scale import Scale
from servers import OURS, Server

__all__ = ["cost_row", "flat_row", "measure_flat"]

_CONNECTIONS = 16


def cost_row(count: int, what: str) -> str:
    return f"a call with {count:,} {what}{'s' * (count > 1)}, µs"


def flat_row(count: int, what: str) -> str:
    return f"cost with {count:,} {what}s ÷ with 1"


def measure_flat(server: Server, scale: Scale) -> Figures:
    with ExitStack() as stack:
        ports = [stack.enter_context(server.serving(tools=count - 1))[1] for count in scale.tools]
        figures = _compare(ports, MODERN, [()] * len(ports), scale.tools, "tool", scale)
    if server.name == OURS.name:
        with ExitStack() as stack:
            ports = [stack.enter_context(server.serving())[1] for _ in scale.flat_sessions]
            calls = []
            for port, count in zip(ports, scale.flat_sessions, strict=True):
                sessions = open_sessions(port, count)
                calls.append([session.call("echo", {"text": "hello"}) for session in sessions])
            figures |= _compare(ports, HANDSHAKE, calls, scale.flat_sessions, "session", scale)
    return figures


def _compare(
    ports: Sequence[int], era: str, calls: Sequence[Sequence[Call]], counts: Sequence[int], what: str, scale: Scale
) -> Figures:
    with ExitStack() as stack:
        groups = [
            stack.enter_context(connected(port, era, _CONNECTIONS, calls_of))
            for port, calls_of in zip(ports, calls, strict=True)
        ]
        for group, calls_of in zip(groups, calls, strict=True):
            # All sessions in turn. Each connection begins with a different session.
            for at, connection in enumerate(group):
                if calls_of:
                    start = at * len(calls_of) // _CONNECTIONS
                    connection.calls = [*calls_of[start:], *calls_of[:start]]
            make_calls(group, scale.seconds / 4)
        costs = [[1e6 / make_calls(group, scale.seconds / 4).rate for group in groups] for _ in range(scale.slices)]
    figures: Figures = {cost_row(count, what): [] for count in counts}
    for slice in costs:
        for count, cost in zip(counts, slice, strict=True):
            figures[cost_row(count, what)].append(cost)
    for position, count in enumerate(counts[1:], 1):
        figures[flat_row(count, what)] = [median(slice[position] / slice[0] for slice in costs)]
    return figures
