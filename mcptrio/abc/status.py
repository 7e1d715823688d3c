"""The status of a running server as values: its plugins, sessions and requests.

``Server.status`` returns a :class:`ServerStatus`. ``attrs.asdict`` turns it into plain values for JSON. All ages and
deadlines are in seconds.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Literal, TypeAlias

from attrs import frozen

__all__ = [
    "ParkedStatus",
    "PluginState",
    "PluginStatus",
    "QuestionStatus",
    "Readiness",
    "ReplicaStatus",
    "RequestStatus",
    "ServerStatus",
    "SessionStatus",
    "StoreStatus",
    "ThreadStatus",
    "WaitsFor",
]

# The four values are also the words that commands and /readyz show.
PluginState: TypeAlias = Literal["loaded", "running", "quarantined", "disabled"]
"""``loaded``: imported and registered; ``running``: its lifespan is open; ``quarantined``: it failed (see ``failure``)
and its entries are withdrawn; ``disabled``: installed but not imported."""
WaitsFor: TypeAlias = Literal["tool", "plugin", "thread", "store"]
"""``tool``, ``plugin``: the tool or its plugin runs as many calls as its ``concurrency`` allows; ``thread``: the plugin
or the client uses as many threads as it may; ``store``: a store outside the process has not answered."""


@frozen(kw_only=True)
class RequestStatus:
    """A request that is in flight.

    Args:
        label: The requested tool, prompt or resource.
        plugin: The name of the plugin that handles the request; ``None`` for the server itself.
        client: The name that the client gives itself.
        principal: The subject of the authenticated client.
        age: Seconds since the start of the request.
        deadline: Seconds until the deadline of the request; ``None`` without one.
        progress, total: The values of the last progress report.
        waiting_for_input: True while the handler waits for an answer of the client.
        waits_for: The resource for which the call waits; ``None`` while the call runs.
        in_thread: True if the function is sync, and so runs in a thread.
        cancelled: The reason of the cancellation; ``None`` if the request is not cancelled.
    """

    id: str | int
    method: str
    label: str
    plugin: str | None
    client: str | None
    principal: str | None
    revision: str
    age: float
    deadline: float | None
    progress: float | None
    total: float | None
    waiting_for_input: bool
    waits_for: WaitsFor | None
    in_thread: bool
    cancelled: str | None


@frozen(kw_only=True)
class QuestionStatus:
    """A request from the server to the client that the client has not answered yet."""

    id: str | int
    method: str
    age: float


@frozen(kw_only=True)
class SessionStatus:
    """A session with a client.

    Args:
        number: The number of the session in this process, from 1.
        name: The session's transport, such as ``stdio`` or ``http``, as it is logged.
        revision: The protocol revision; ``None`` before the client has named it.
        client: The name that the client gives itself.
        principal: The subject of the authenticated client.
        capabilities: The capabilities that the client has declared, and the identifiers of extensions.
        streams: The number of open streams for messages that belong to no request.
        requests: The requests in flight.
        questions: The questions that the client has not answered yet.
    """

    number: int
    name: str
    age: float
    revision: str | None
    client: str | None
    principal: str | None
    capabilities: tuple[str, ...]
    streams: int
    requests: tuple[RequestStatus, ...]
    questions: tuple[QuestionStatus, ...]


@frozen(kw_only=True)
class ParkedStatus:
    """A handler that waits for a client's answer between two requests.

    Args:
        label: The requested tool, prompt or resource.
        client: The name that the client gives itself.
        principal: The subject of the authenticated client.
    """

    label: str
    client: str | None
    principal: str | None
    age: float


@frozen(kw_only=True)
class ThreadStatus:
    """The threads of sync functions.

    Args:
        busy: Running threads, including abandoned ones.
        limit: Threads that one plugin may have.
    """

    busy: int
    limit: int


@frozen(kw_only=True)
class PluginStatus:
    """A plugin.

    Args:
        isolated: True if the plugin runs in its own process.
        failure: The reason of the quarantine; ``None`` if the plugin is not in quarantine.
        import_seconds: The duration of the plugin's import; ``None`` if the plugin was not imported.
        withheld: The tools that the server does not offer, each with the reason.
        offers: The names of the plugin's entries by kind: ``tools``, ``resources``, …
    """

    name: str
    version: str | None
    distribution: str | None
    state: PluginState
    isolated: bool
    failure: str | None
    warnings: tuple[str, ...]
    import_seconds: float | None
    withheld: Mapping[str, str]
    offers: Mapping[str, tuple[str, ...]]


@frozen(kw_only=True)
class ReplicaStatus:
    """A process that uses shared stores.

    Args:
        id: The id of the process, as in the log.
        host: The name of the process's machine; empty if unknown. ``/readyz`` leaves it out.
        process: The process id on that machine; 0 if unknown. ``/readyz`` leaves it out.
        age: Seconds since the process opened the stores; ``None`` if unknown.
        heartbeat: Seconds since the process last renewed its lease. Correct only if all replicas have the same
            ``stores.lease``. ``None`` in SQLite, where the operating system knows which processes run.
    """

    id: str
    host: str = ""
    process: int = 0
    age: float | None = None
    heartbeat: float | None = None


@frozen(kw_only=True)
class StoreStatus:
    """The state of the stores that replicas share.

    Args:
        kind: ``memory``, ``sqlite``, or the name of the engine.
        is_reachable: True if the last command succeeded.
        failing_since: Seconds since the first of the commands that fail now; ``None`` if the last one succeeded.
        waiting: The number of commands in the queue.
        replicas: The number of processes that use the stores, including this one.
        live: The processes that use the stores, at most 100, the oldest first.
    """

    kind: str
    is_reachable: bool = True
    failing_since: float | None = None
    waiting: int = 0
    replicas: int = 1
    live: tuple[ReplicaStatus, ...] = ()


@frozen(kw_only=True)
class ServerStatus:
    """The status of a server.

    Args:
        ready: True if the server is open, is not stopping, and no plugin is in quarantine.
        draining: True while the server is stopping.
        in_flight: The number of requests in flight.
        working: The number of plugin functions that are still running, including those whose request has ended.
        parked: Handlers that wait for a client's answer between two requests.
        tasks: Calls that continue after their request was answered with a task.
        stores: The state of the stores; ``None`` if no store is outside the process.
    """

    name: str
    version: str
    ready: bool
    draining: bool
    in_flight: int
    working: int
    threads: ThreadStatus
    plugins: tuple[PluginStatus, ...]
    sessions: tuple[SessionStatus, ...]
    parked: tuple[ParkedStatus, ...]
    tasks: tuple[RequestStatus, ...]
    stores: StoreStatus | None


@frozen(kw_only=True)
class Readiness:
    """The answer of ``/readyz``.

    Args:
        plugins: The state of each plugin by name.
        stores: The state of the stores; ``None`` if no store is outside the process.
    """

    ready: bool
    plugins: Mapping[str, PluginState]
    stores: StoreStatus | None = None
