"""Definitions of all metrics, and the interface of the backends that record them.

No label has a principal, a URI or an argument, and each label has a bounded set of values.
Source: OpenTelemetry semantic conventions for MCP, "Metrics"; our own names begin with ``mcptrio.``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Final, Literal, Protocol, TypeAlias

from attrs import frozen

from mcptrio.telemetry import names

__all__ = [
    "CLIENT_OPERATION",
    "CLIENT_SESSION",
    "EVENT_LOOP_LAG",
    "HTTP_REFUSED",
    "INSTRUMENTS",
    "IN_FLIGHT",
    "OUTBOX_FILL",
    "PARKED",
    "PLUGINS",
    "REJECTED",
    "RESTARTS",
    "SERVER_OPERATION",
    "SERVER_SESSION",
    "SESSIONS",
    "STORE_QUEUE",
    "STREAMS",
    "TASKS",
    "TASK_DURATION",
    "THREADS",
    "TRAFFIC",
    "Instrument",
    "Labels",
    "MetricsBackend",
    "Reading",
]

Labels: TypeAlias = Mapping[str, str]


@frozen
class Instrument:
    """A metric of a server or client, with its name, kind, unit and labels.

    Args:
        unit: ``s``, ``By``, ``1``, or a noun in braces.
        labels: The names of all labels that a value may have.
    """

    name: str
    kind: Literal["histogram", "counter", "gauge"]
    unit: str
    description: str
    labels: tuple[str, ...] = ()


Reading: TypeAlias = tuple[Instrument, float, Labels]
"""The current value of a gauge, or the sum of a counter."""


class MetricsBackend(Protocol):
    """Receives measurements and exports them. All methods are called in the event loop, and do not block."""

    def record(self, instrument: Instrument, value: float, labels: Labels, /) -> None:
        """Add a value to a histogram."""
        ...

    def count(self, instrument: Instrument, labels: Labels, /) -> None:
        """Add one to a counter."""
        ...

    def observe(self, read: Callable[[], Iterable[Reading]], /) -> None:
        """Read the gauges and the other counters with this function, each time they are exported."""
        ...


_OPERATION: Final = (names.METHOD, names.TOOL_NAME, names.PROMPT_NAME, names.ERROR_TYPE, names.REVISION)

SERVER_OPERATION: Final = Instrument(
    names.SERVER_OPERATION, "histogram", "s", "Requests that the server has answered.", (*_OPERATION, names.TRANSPORT)
)
SERVER_SESSION: Final = Instrument(
    names.SERVER_SESSION, "histogram", "s", "Sessions that have ended.", (names.ERROR_TYPE, names.TRANSPORT)
)
CLIENT_OPERATION: Final = Instrument(
    names.CLIENT_OPERATION, "histogram", "s", "Requests and notifications that were sent.", _OPERATION
)
CLIENT_SESSION: Final = Instrument(
    names.CLIENT_SESSION, "histogram", "s", "Connections to servers that have ended.", (names.TRANSPORT,)
)
REJECTED: Final = Instrument(
    "mcptrio.requests.rejected", "counter", "{request}", "Requests refused at a limit.", (names.REASON,)
)
TASK_DURATION: Final = Instrument(
    "mcptrio.task.duration", "histogram", "s", "Tasks that have ended.", (names.TOOL_NAME, names.ERROR_TYPE)
)
RESTARTS: Final = Instrument(
    "mcptrio.background.restarts", "counter", "{restart}", "Restarts of background tasks.", (names.PLUGIN,)
)
HTTP_REFUSED: Final = Instrument(
    "mcptrio.http.refused", "counter", "{request}", "HTTP requests refused with a status.", (names.REASON,)
)
TRAFFIC: Final = Instrument("mcptrio.io", "counter", "By", "Bytes on pipes and sockets of clients.", (names.DIRECTION,))
SESSIONS: Final = Instrument("mcptrio.sessions", "gauge", "{session}", "Open sessions.", (names.CHANNEL,))
STREAMS: Final = Instrument("mcptrio.streams", "gauge", "{stream}", "Open event streams.")
IN_FLIGHT: Final = Instrument("mcptrio.requests.in_flight", "gauge", "{request}", "Requests in flight.")
PARKED: Final = Instrument("mcptrio.handlers.parked", "gauge", "{handler}", "Handlers that wait between two requests.")
TASKS: Final = Instrument("mcptrio.tasks", "gauge", "{task}", "Tasks that this process runs.")
THREADS: Final = Instrument("mcptrio.threads", "gauge", "{thread}", "Threads of sync functions.")
OUTBOX_FILL: Final = Instrument("mcptrio.outbox.fill", "gauge", "1", "Fill of the fullest queue of a client, 0 to 1.")
STORE_QUEUE: Final = Instrument("mcptrio.store.queue", "gauge", "{command}", "Commands that wait for the store.")
EVENT_LOOP_LAG: Final = Instrument(
    "mcptrio.event_loop.lag", "gauge", "s", "The longest delay of the event loop in the last ten seconds."
)
PLUGINS: Final = Instrument("mcptrio.plugins", "gauge", "{plugin}", "Plugins by state.", (names.PLUGIN_STATE,))

INSTRUMENTS: Final = (
    *(SERVER_OPERATION, SERVER_SESSION, TASK_DURATION, CLIENT_OPERATION, CLIENT_SESSION, REJECTED, HTTP_REFUSED),
    *(RESTARTS, TRAFFIC, SESSIONS, STREAMS, IN_FLIGHT, PARKED, TASKS, THREADS, OUTBOX_FILL),
    *(STORE_QUEUE, EVENT_LOOP_LAG, PLUGINS),
)
