"""Reads the gauges of a running server on request, and watches the delay of its event loop."""

from __future__ import annotations

from collections import Counter, deque
from collections.abc import Iterator
from typing import Final

import trio

from mcptrio.ground.refusals import REFUSALS
from mcptrio.ground.traffic import TRAFFIC
from mcptrio.outbox import Outbox
from mcptrio.runtime.background import RESTARTS
from mcptrio.server import Server
from mcptrio.telemetry import instruments, names
from mcptrio.telemetry.instruments import Reading
from mcptrio.telemetry.metrics_observer import MAX_VALUES

__all__ = ["LoopLag", "ServerGauges"]

_CHANNELS: Final = frozenset({"stdio", "http session", "sse", "websocket", "memory"})
_SAMPLE_SECONDS: Final = 0.5
_SAMPLES: Final = 20
"""Samples that are kept: those of ten seconds."""


class LoopLag:
    """The delay of the event loop in the last ten seconds."""

    def __init__(self) -> None:
        self._lags: deque[float] = deque([0.0], maxlen=_SAMPLES)

    @property
    def longest(self) -> float:
        return max(self._lags)

    async def watch(self) -> None:
        """Measure the delay of the event loop, until cancelled."""
        while True:
            due = trio.current_time() + _SAMPLE_SECONDS
            await trio.sleep_until(due)
            self._lags.append(trio.current_time() - due)


class ServerGauges:
    """The gauges of one server."""

    def __init__(self, server: Server, lag: LoopLag) -> None:
        self._server = server
        self._lag = lag

    def read(self) -> list[Reading]:
        """Return the present values. May be called in any thread."""
        return self._server.supervisor.loop.call(lambda: list(self._read()))

    def _read(self) -> Iterator[Reading]:
        server, supervisor = self._server, self._server.supervisor
        sessions = [session for session in supervisor.sessions if session.is_counted]
        channels = Counter(each.name if each.name in _CHANNELS else names.OTHER for each in sessions)
        for channel, count in channels.items():
            yield instruments.SESSIONS, count, {names.CHANNEL: channel.removesuffix(" session")}
        requests = [scope for session in supervisor.sessions for scope in session.in_flight.values()]
        listening = sum(scope.label == "subscriptions/listen" for scope in requests)
        yield instruments.STREAMS, listening + sum(len(each.sinks) for each in sessions if not each.is_shared), {}
        yield instruments.IN_FLIGHT, supervisor.in_flight, {}
        yield instruments.PARKED, len(supervisor.state.parking), {}
        yield instruments.TASKS, len(server.catalog.tools.tasks.status), {}
        yield instruments.THREADS, supervisor.threads.status.busy, {}
        queues = [len(sink) for session in sessions for sink in session.sinks if isinstance(sink, Outbox)]
        yield instruments.OUTBOX_FILL, max(queues, default=0) / supervisor.settings.limits.outbox, {}
        readiness = supervisor.readiness()
        yield instruments.STORE_QUEUE, readiness.stores.waiting if readiness.stores is not None else 0, {}
        yield instruments.EVENT_LOOP_LAG, self._lag.longest, {}
        for state, count in Counter(readiness.plugins.values()).items():
            yield instruments.PLUGINS, count, {names.PLUGIN_STATE: state}
        for label, count in RESTARTS.most_common(MAX_VALUES):
            yield instruments.RESTARTS, count, {names.PLUGIN: label}
        for reason, count in REFUSALS.items():
            yield instruments.HTTP_REFUSED, count, {names.REASON: reason}
        yield instruments.TRAFFIC, TRAFFIC.received, {names.DIRECTION: "received"}
        yield instruments.TRAFFIC, TRAFFIC.sent, {names.DIRECTION: "sent"}
