"""A server on the standard input and output of the process.

The command line and embedding programs call it.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager, AsyncExitStack

import trio

from mcptrio.abc import Principal, Stores
from mcptrio.abc.tracing import Network, trace_channel
from mcptrio.ground.expected import expect
from mcptrio.ground.nurseries import open_hidden_nursery, require_trio
from mcptrio.protocol.limits import DEFAULT, MessageLimits
from mcptrio.server import Server
from mcptrio.transports.stdio import open_stdio

__all__ = ["serve_process", "serve_stdio"]


async def serve_stdio(server: Server, *, limits: MessageLimits = DEFAULT) -> None:
    """Open the server and serve the standard input and output of this process until the input ends.

    Args:
        limits: Limits of one message.
    """
    require_trio("serve_stdio")
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
    stores: AbstractAsyncContextManager[Stores] | None = None,
    task_status: trio.TaskStatus[list[str]] = trio.TASK_STATUS_IGNORED,
) -> None:
    """Serve like :func:`serve_stdio`, in a process that does nothing else.

    Args:
        make: Returns the server. Called after standard output was redirected, so that print() cannot damage the
            protocol.
        limits: Limits of one message.
        shutdown: Set it to stop before the end of the input.
        restore: True to restore standard input and output afterwards; False in a process that ends then.
        identify: Returns the principal of the client. Called before the server is opened; its exception is raised.
        trusts_forwarded_caller: See ``mcptrio.runtime.supervisor.Supervisor.serve``.
        stores: The stores of the server, opened before it. The session itself is in memory.
        task_status: Started once the server is open, with an empty list.
    """
    async with open_stdio(limits=limits, restore=restore) as channel:
        server = make()
        principal = await identify() if identify is not None else None
        async with open_hidden_nursery() as nursery:
            if shutdown is not None:
                nursery.start_soon(_stop_after, shutdown, server, nursery.cancel_scope)
            async with AsyncExitStack() as stack:
                if stores is not None:
                    server.use_stores(await stack.enter_async_context(stores))
                await stack.enter_async_context(server.open())
                task_status.started([])
                with trace_channel(Network("pipe")):
                    await server.supervisor.serve(
                        channel, principal=principal, trusts_forwarded_caller=trusts_forwarded_caller
                    )


async def _stop_after(shutdown: trio.Event, server: Server, scope: trio.CancelScope) -> None:
    await shutdown.wait()
    if server.is_open:
        await server.supervisor.drain()
    else:
        # A lifespan that is still starting may take long, so cancel it; those that have started are left in order.
        scope.cancel()
