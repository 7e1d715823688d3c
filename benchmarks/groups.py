"""What can be measured: each group with its measurement, and what its table has to be told about.

Used by the command, which runs them, and by the report, which explains them.
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
    """Sentences."""
    picture: str = ""
    """The name of its picture, where it has one."""
    shows: str = ""
    """What is seen on it."""


_GROUPS = (
    Group(
        "Over stdio",
        measure_stdio,
        (
            "Start-up is from the start of the process to its answer to `initialize`.",
            "Calls are of one `async` tool that returns its text, `hello`, one after the other and 64 at a time.",
            "`limit` is a blocking loop that reads a line, parses it with orjson, and writes the answer.",
        ),
        "start-up",
        "Milliseconds from the start of a process to its answer to initialize, a bar for each server",
    ),
    Group(
        "Over HTTP",
        measure_http,
        (
            "Each connection is a client of its own, in 2025-11-25 with a session, and has one call in flight.",
            "Latency is from before a call is sent until its answer is complete, so it includes the wait for the calls "
            "of others.",
            "`Hypercorn` is stock Hypercorn on Trio, and `limit` httptools on a Trio socket; both always give the same "
            "answer.",
        ),
        "latency-over-load",
        "Median and 99th percentile of a call's latency over the number of connections, in both eras",
    ),
    Group(
        "Events on one stream",
        measure_sse,
        (
            "A tool sends as many notifications of progress as fill the time of a rate, and the client reads them all.",
            "In 2026-07-28 the stream is the response of the call, in 2025-11-25 that of a call in a session.",
            "Of ours the same notification is sent with `ctx.notify`, since `report_progress` sends 20 a second.",
        ),
    ),
    Group(
        "Memory",
        measure_memory,
        (
            "The growth of resident memory from the 100th to the last session, or stream of `subscriptions/listen`, "
            "divided by their number: 10,000 for us, 2,000 for the others.",
            "Sessions share a connection and are idle; each stream has a connection of its own.",
            "FastMCP has no `subscriptions/listen`.",
        ),
        "memory-over-sessions",
        "Resident memory over the number of sessions and of open streams",
    ),
    Group(
        "A change told to all",
        measure_fanout,
        (
            "All streams listen to one resource, a tool says that it has changed, and time runs until the last stream "
            "has the event.",
            "Limits on the number of streams are raised, where there are any.",
        ),
    ),
    Group(
        "More tools, more sessions",
        measure_flat,
        (
            "The cost of a call over 16 connections, while there are other tools (in 2026-07-28) or while all sessions "
            "are used in turn (in 2025-11-25, ours only).",
            "A ratio is the median of neighbouring slices of time, and flat where it is 1.",
        ),
    ),
    Group(
        "Clients",
        measure_client,
        (
            "Each client against one server that does nothing but answer, a blocking loop with orjson.",
            "16 calls in flight share one connection over stdio, and have what the client opens over HTTP.",
            "`limit` is a client of blocking pipes and sockets that encodes a call, decodes the answer, and no more: "
            "the limit in Python.",
        ),
    ),
    Group(
        "A set of servers",
        measure_set,
        (
            "What many have in a host: files, git, fetch, memory, sequential thinking and time.",
            "Ours is one `mcptrio serve --stdio` with six plugins; `references` are the six official servers: "
            "server-filesystem, server-memory and server-sequential-thinking of npm, and "
            f"{', '.join(REFERENCES.values())}.",
            "Start-up is from the start of the first process until the last has listed its tools; all are started at "
            "the same moment.",
            "Memory is PSS, in which a page that processes share counts once for all of them; RSS would show the "
            "references larger.",
            "A call of each is in flight at the same time, then of one kind after the other: a folder of ten files "
            "listed, branches listed, a page of this machine fetched, a memory searched, a thought, the time.",
            "All have their defaults, but that they may fetch from this machine.",
            "So ours fetches the page once and keeps it, and each of the references' calls downloads it.",
        ),
    ),
)

MEASURED: Mapping[str, Group] = dict(zip(GROUPS, _GROUPS, strict=True))
