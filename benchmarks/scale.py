"""The sizes of a full run and of a quick one."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

__all__ = ["FULL", "GROUPS", "QUICK", "Scale"]

GROUPS = ("stdio", "http", "sse", "memory", "fanout", "flat", "client", "set")
"""The groups that can be measured alone, in order."""


@dataclass(frozen=True)
class Scale:
    seconds: float
    """For each figure that is a rate."""
    rounds: Mapping[str, int]
    """By group."""
    starts: int
    """Starts a round; the quickest thing measured, and the one that varies most."""
    sessions: tuple[int, ...]
    """At which numbers of sessions and of streams memory is looked at; the first is where growth is counted from."""
    sessions_of_ours: tuple[int, ...]
    fanout: int
    """Streams that receive a change."""
    changes: int
    """How often."""
    tools: tuple[int, ...]
    """How many there are while one is called."""
    flat_sessions: tuple[int, ...]
    """How many there are while all are used in turn."""
    slices: int
    """Into how many parts a comparison of costs is cut, its sides taking turns."""
    connections: tuple[int, ...] = (1, 4, 16, 64)
    """Over which calls are made at the same time."""
    clients: tuple[int, ...] = (1, 16)
    """Calls that a client has in flight."""
    burst: int = field(default=400_000)
    """Most events of one stream."""


FULL = Scale(
    seconds=0.5,
    rounds={"stdio": 5, "http": 5, "sse": 5, "memory": 1, "fanout": 2, "flat": 2, "client": 3, "set": 3},
    starts=3,
    sessions=(100, 1_000, 2_000),
    sessions_of_ours=(100, 1_000, 2_000, 5_000, 10_000),
    # Together with the connection that makes the change, the default limit of our server.
    fanout=10_000,
    changes=5,
    tools=(1, 100, 1_000),
    flat_sessions=(1, 1_000, 10_000),
    slices=11,
)

QUICK = Scale(
    seconds=0.03,
    rounds=dict.fromkeys(GROUPS, 1),
    starts=1,
    sessions=(10, 30),
    sessions_of_ours=(10, 30),
    fanout=100,
    changes=2,
    tools=(1, 10),
    flat_sessions=(1, 20),
    slices=1,
    clients=(16,),
    burst=1_000,
)
