"""Makes the parts of a console and connects them.

The module is imported when the console opens, because it imports Quart.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from mcptrio import Server
from mcptrio.abc import ASGIApp
from mcptrio.serving import ConsoleOptions

from .access import ConsoleAccess
from .actions import Actions
from .log_records import LogRecords
from .samples import Samples
from .status_watch import StatusWatch
from .tool_calls import ToolCaller
from .views import Views
from .web import ConsolePage, make_app
from .wire import WireRecorder

__all__ = ["assemble"]


def assemble(
    server: Server, options: ConsoleOptions, access: ConsoleAccess, samples: Samples, records: LogRecords
) -> tuple[ASGIApp, Callable[[], Awaitable[None]]]:
    """Return the application, and a function to run while it is used."""
    watch = StatusWatch(server, samples)
    wire = WireRecorder(server)
    views = Views(server, options, watch, samples, records, wire)
    pages = [
        ConsolePage("now", "Now", views.now),
        ConsolePage("tree", "Requests", views.tree),
        ConsolePage("sessions", "Sessions", views.sessions),
        ConsolePage("plugins", "Plugins", views.plugins, is_live=False),
        ConsolePage("tools", "Tools", views.tools),
        ConsolePage("tasks", "Tasks", views.tasks),
        ConsolePage("log", "Log", views.log),
        ConsolePage("wire", "Wire", views.wire),
        ConsolePage("message", "Message", views.message, is_live=False, is_in_menu=False),
        ConsolePage("replicas", "Replicas", views.replicas),
    ]
    actions = Actions(server, wire)
    app = make_app(server.status.name, pages, access, actions, ToolCaller(server), watch, options, wire)

    async def run() -> None:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(watch.run)
            nursery.start_soon(wire.run)

    return app, run
