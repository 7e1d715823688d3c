"""The state that all requests of a server share.

It contains the event loop, tasks, sessions, running handlers, threads and parked handlers. The server makes it, and the
supervisor and the capabilities use it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from mcptrio.abc import StateSealer
from mcptrio.ground.deadlines import Deadlines
from mcptrio.runtime.conversation import Conversation
from mcptrio.runtime.event_loop import EventLoop
from mcptrio.runtime.long_work import LongTasks
from mcptrio.runtime.observers import Observers
from mcptrio.runtime.parking import ParkedHandlers
from mcptrio.runtime.runs import Runs
from mcptrio.runtime.session import Session
from mcptrio.runtime.settings import ServerSettings
from mcptrio.runtime.shared_effects import SharedEffects
from mcptrio.runtime.work import ThreadShares, WorkSet

__all__ = ["RuntimeState"]


class RuntimeState:
    """The state that all requests of a server share.

    Args:
        sealer: Seals the state that clients keep.
    """

    def __init__(self, settings: ServerSettings, sealer: StateSealer) -> None:
        self.loop = EventLoop()
        self.stores = settings.stores
        """The stores that the server shares with other replicas; ``None`` if there are none."""
        self.on_subscriptions: Callable[[], None] = _do_nothing
        """Called when the subscriptions of a session have changed."""
        self.on_missed_changes: Callable[[Conversation], None] = _ignore
        """Called when the client of a session may have missed notifications of changes."""
        self.deadlines = Deadlines()
        self.observers = Observers()
        self.sessions: set[Session] = set()
        self.works = WorkSet()
        """Running handlers. Handlers of ended requests count against ``limits.requests`` too."""
        self.surrounding = WorkSet()
        """Requests within middleware of a plugin, and HTTP requests to an ASGI application of a plugin."""
        self.threads = ThreadShares(settings.limits.threads)
        self.parking = ParkedHandlers(settings.limits.parked)
        self.runs = Runs(settings, self.parking, sealer, self.deadlines, start=self.start)
        self.tasks: LongTasks | None = None
        """The tasks that outlive their requests; ``None`` if the server has none."""
        self._nursery: trio.Nursery | None = None

    async def run(self, *, task_status: trio.TaskStatus[None] = trio.TASK_STATUS_IGNORED) -> None:
        """Keep the nursery of the server open and watch deadlines, until cancelled."""
        async with trio.open_nursery() as nursery:
            self._nursery = nursery
            self.loop.enter()
            nursery.start_soon(self.deadlines.run)
            if self.stores is not None and self.stores.effects is not None:
                self.runs.effects.shared = shared = SharedEffects(self.stores.effects, self.stores.bus)
                nursery.start_soon(shared.run)
            task_status.started()
            try:
                await trio.sleep_forever()
            finally:
                self._nursery = None

    @property
    def nursery(self) -> trio.Nursery:
        """The nursery of the open server.

        Raises:
            RuntimeError: The server is not open.
        """
        if self._nursery is None:
            raise RuntimeError("the server is not open: use `async with server.open() as running:`")
        return self._nursery

    def start(self, function: Callable[..., Awaitable[None]], *args: Any) -> None:
        """Run a task until the server closes."""
        self.nursery.start_soon(function, *args)


def _do_nothing() -> None:
    pass


def _ignore(conversation: Conversation) -> None:
    pass
