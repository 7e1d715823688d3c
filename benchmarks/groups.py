"""The groups of measurements, each with its function and the text above its table.

Used by the command, which runs them, and by the report.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass

from load_clients import measure_client
from load_fanout import measure_fanout
from load_flat import measure_flat
from load_http import measure_http
from load_memory import measure_memory
from load_set import measure_set
from load_sse import measure_sse
from load_stdio import measure_stdio
from results import Figures
from scale import GROUPS, Scale
from servers import Server
from sets import REFERENCES

__all__ = ["MEASURED", "Group"]


@dataclass(frozen=True)
class Group:
    title: str
    measure: Callable[[Server, Scale], Figures]
    about: tuple[str, ...]
    """The sentences above the table."""
    picture: str = ""
    """The name of its picture, or empty."""
    shows: str = ""
    """The alternative text of the picture."""


_GROUPS = (
    Group(
        "Over stdio",
        measure_stdio,
        (
            "Start-up is the time from the start of the process to its response to `initialize`.",
            "The `async` tool returns its text, `hello`. It is called once at a time, and 64 times concurrently.",
            "`limit` is a blocking loop that reads a line, parses it with orjson, and writes the response.",
        ),
        "start-up",
        "Milliseconds from the start of a process to its response to initialize, a bar for each server",
    ),
    Group(
        "Over HTTP",
        measure_http,
        (
            "Each connection is one client, in 2025-11-25 with a session, and has one call in flight.",
            "Latency is the time from a call to its complete response, so it includes the wait for other calls.",
            "`Hypercorn` is unmodified Hypercorn on Trio, and `limit` is httptools on a Trio socket; both send a "
            "constant response.",
        ),
        "latency-over-load",
        "Median and 99th percentile of a call's latency over the number of connections, in both kinds of revision",
    ),
    Group(
        "Events on one stream",
        measure_sse,
        (
            "A tool sends progress notifications as fast as it can, and the client reads all of them.",
            "In both revisions they arrive in the response to the call; in 2025-11-25 the call belongs to a session.",
            "mcptrio's tool uses `ctx.notify`, because `report_progress` sends at most 20 a second.",
        ),
    ),
    Group(
        "Memory",
        measure_memory,
        (
            "The growth of resident memory from the 100th to the last session or `subscriptions/listen` stream, "
            "divided by their number: 10,000 for mcptrio, 2,000 for the others.",
            "Idle sessions share one connection; each stream has its own.",
            "FastMCP has no `subscriptions/listen`.",
        ),
        "memory-over-sessions",
        "Resident memory over the number of sessions and of open streams",
    ),
    Group(
        "One change to all streams",
        measure_fanout,
        (
            "All streams subscribe to one resource. A tool reports a change, and the time ends when the last stream "
            "has received the event.",
            "Limits on the number of streams are raised.",
        ),
    ),
    Group(
        "More tools, more sessions",
        measure_flat,
        (
            "The cost of a call over 16 connections while there are more tools (2026-07-28), or while all sessions "
            "are used in turn (2025-11-25, mcptrio only).",
            "A ratio is the median over alternating slices of time; 1 means no additional cost.",
        ),
    ),
    Group(
        "Clients",
        measure_client,
        (
            "Each client calls one server that only responds, a blocking loop with orjson.",
            "16 calls in flight share one connection over stdio, and use the connections that the client opens over "
            "HTTP.",
            "`limit` is a client with blocking pipes and sockets that only encodes a call and decodes the response.",
        ),
    ),
    Group(
        "A set of servers",
        measure_set,
        (
            "Six servers that many host applications use: files, git, fetch, memory, sequential thinking and time.",
            "mcptrio is one `mcptrio serve --stdio` with six plugins. `references` are the six official servers: "
            "server-filesystem, server-memory and server-sequential-thinking from npm, and "
            f"{', '.join(REFERENCES.values())}.",
            "All processes start at the same moment; start-up ends when the last one has listed its tools.",
            "Memory is PSS, which counts a page shared by several processes once. RSS would show larger references.",
            "First all six are called concurrently, then one kind after the other: list a folder of ten files, list "
            "branches, fetch a page of this machine, search a memory, think a thought, tell the time.",
            "All have their default settings, except that they may fetch pages of this machine.",
            "mcptrio fetches the page once and caches it; each call of the reference downloads it.",
        ),
    ),
)

MEASURED: Mapping[str, Group] = dict(zip(GROUPS, _GROUPS, strict=True))
