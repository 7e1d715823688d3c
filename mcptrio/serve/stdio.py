"""A server on the process's standard input and output.

Called by the command line and by embedders.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable

import trio

from mcptrio.abc import Principal
from mcptrio.ground.expected import expect
from mcptrio.ground.nurseries import open_hidden_nursery, require_trio
from mcptrio.protocol.limits import DEFAULT, MessageLimits
from mcptrio.server import Server
from mcptrio.transports.stdio import open_stdio

__all__ = ["serve_process", "serve_stdio"]


async def serve_stdio(server: Server, *, limits: MessageLimits = DEFAULT) -> None:
    """Open the server and serve the standard input and output of this process until the input ends."""
    require_trio("serve_stdio", side="server")
    expect(server, Server, "serve_stdio: server")
    expect(limits, MessageLimits, "serve_stdio: limits")
    await serve_process(lambda: server, limits=limits)


async def serve_process(
    make: Callable[[], Server],
    *,
    limits: MessageLimits = DEFAULT,
    shutdown: trio.Event | None = None,
    restore: bool = True,
    identify: Callable[[], Awaitable[Principal | None]] | None = None,
    trusts_forwarded_caller: bool = False,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """The same for a process that does nothing else.

    Args:
        make: makes the server; called once nothing that is printed can reach standard output any more.
        shutdown: set it for an orderly end before the end of the input.
        restore: give standard input and output back afterwards; ``False`` in a process that ends then.
        identify: finds the user of the process before anything is served; its exception ends the call.
        trusts_forwarded_caller: as for :meth:`mcptrio.runtime.supervisor.Supervisor.serve`.
        task_status: started once the server is open, with an empty list.
    """
    async with open_stdio(limits=limits, restore=restore) as channel:
        made = make()
        principal = await identify() if identify is not None else None
        async with open_hidden_nursery() as nursery:
            if shutdown is not None:
                nursery.start_soon(_stop_after, shutdown, made, nursery.cancel_scope)
            async with made.open():
                task_status.started([])
                await made.supervisor.serve(
                    channel, principal=principal, trusts_forwarded_caller=trusts_forwarded_caller
                )


async def _stop_after(shutdown: trio.Event, server: Server, scope: trio.CancelScope) -> None:
    await shutdown.wait()
    if server.is_open:
        await server.supervisor.drain()
    else:
        # A lifespan that is still being entered may take its time; those that are open are left in their order.
        scope.cancel()
