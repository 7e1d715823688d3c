"""An open server: the only object that serves channels.

Made by :meth:`mcptrio.Server.open`.
It serves while the block of ``open()`` lasts, and refuses afterwards.
"""

from __future__ import annotations

from typing import TYPE_CHECKING, final

from mcptrio.abc import MessageChannel, Principal

if TYPE_CHECKING:
    from mcptrio.server import Server

__all__ = ["RunningServer"]


@final
class RunningServer:
    """A server whose plugins run and whose deadlines are kept: ``async with server.open() as running:``.

    Args:
        server: the server that was opened. Its tools can be changed and its status read while it runs.
    """

    def __init__(self, server: Server) -> None:
        self.server = server

    async def serve(self, channel: MessageChannel, *, principal: Principal | None = None) -> None:
        """Serve one peer on one channel until either side ends it. Closes the channel.

        Args:
            principal: the user at the other end, for authorization; ``None`` for an anonymous peer.

        Raises:
            Overloaded: the server has as many sessions as it may have; the channel is still open, to say so.
            RuntimeError: the block of ``open()`` has ended.
        """
        await self.server.supervisor.serve(channel, principal=principal)
