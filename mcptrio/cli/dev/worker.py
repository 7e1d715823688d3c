"""One worker of ``mcptrio dev``: a child process that serves its standard input and output.

The relay starts it and owns its task. A worker is ready when it has sent its first responses, because its plugins are
registered and their lifespans are open by then. If one of them fails, the worker exits without a response.

Source: MCP 2026-07-28, server/discover.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from contextlib import AbstractAsyncContextManager
from pathlib import Path
from typing import Final, TypeAlias

import trio

from mcptrio.cli.dev.session_state import OWN
from mcptrio.errors import ConnectionClosed
from mcptrio.ground.stderr_tail import exit_reason
from mcptrio.outbox import Outbox
from mcptrio.protocol.envelope import CLIENT_CAPABILITIES, PROTOCOL_VERSION
from mcptrio.protocol.messages import ErrorResponse, Incoming, Request, Response
from mcptrio.protocol.revisions.registry import MODERN_VERSIONS
from mcptrio.transports.child import ChildChannel

__all__ = ["FILES", "DevWorker", "StartWorker"]

StartWorker: TypeAlias = Callable[[], AbstractAsyncContextManager[ChildChannel]]

FILES: Final = "mcptrio/dev/files"
"""The method with which the relay asks a worker for its imported files."""

_MAX_QUEUED_MESSAGES: Final = 1000
"""Queued messages for the worker; when full, the client waits."""
_PROBE_ID: Final = f"{OWN}0"
_FILES_ID: Final = f"{OWN}files"
_CLOSE_TIMEOUT: Final = 1.0
"""Seconds for queued messages at its end."""
_MAX_FAILURE_LINES: Final = 5
"""Maximum lines of an error that are shown."""
_MAX_FAILURE_CHARS: Final = 600
"""Maximum characters of an error that are shown."""


class DevWorker:
    """One worker process.

    Args:
        start: Starts the process.
        take: A function called with each message of the worker.
    """

    def __init__(self, start: StartWorker, take: Callable[[DevWorker, Incoming], Awaitable[None]]) -> None:
        self._start = start
        self._take = take
        self.outbox = Outbox(_MAX_QUEUED_MESSAGES)
        self.settled = trio.Event()
        """Set once the worker is ready or has ended."""
        self.ended = trio.Event()
        self.ready_since: float | None = None
        self.files: tuple[Path, ...] = ()
        """The files that the worker has imported, once it is ready."""
        self._awaited_ids = {_PROBE_ID, _FILES_ID}
        self.failure = ""
        """The reason why it ended, in a few lines."""
        self.has_logged_failure = False
        """True once the worker has written the reason to standard error, which it shares with this process."""
        self._leaving = trio.Event()

    async def run(self) -> None:
        """Run the process until it ends or :meth:`leave` is called, and clean up."""
        try:
            async with self._start() as channel:
                # The response proves that the lifespans are open: a server answers no request before.
                await self.outbox.send(_own_request(_PROBE_ID, "server/discover"))
                await self.outbox.send(_own_request(_FILES_ID, FILES))
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(self._write, channel)
                    nursery.start_soon(self._read, channel)
                    await self._leaving.wait()
                    nursery.cancel_scope.cancel()
            reason = exit_reason(channel.last_stderr_lines)
            self.has_logged_failure = reason is not None
            reason = reason or "\n".join(channel.last_stderr_lines[-_MAX_FAILURE_LINES:])
            no_output = f"the server exited with {channel.returncode} and wrote nothing to standard error"
            self.failure = reason[:_MAX_FAILURE_CHARS] or no_output
        except ConnectionClosed as error:
            self.failure = str(error)
        finally:
            # Tasks that wait for room in the queue get ConnectionClosed.
            self.outbox.abort()
            self.settled.set()
            self.ended.set()

    async def finish(self) -> None:
        """End the worker after it has received the queued messages, or after a timeout if it does not read."""
        self.outbox.close()
        with trio.move_on_after(_CLOSE_TIMEOUT):
            # The writing task calls leave() after the last message.
            await self._leaving.wait()
        self.leave()

    def leave(self) -> None:
        self._leaving.set()

    def handle_own_response(self, answer: Response | ErrorResponse) -> bool:
        """Handle a response to a request of the relay itself. Return False for other responses."""
        if not isinstance(answer.id, str) or not answer.id.startswith(OWN):
            return False
        if answer.id == _FILES_ID and isinstance(answer, Response):
            self.files = tuple(Path(str(each)) for each in answer.result.get("files", ()))
        if answer.id in self._awaited_ids:
            self._awaited_ids.remove(answer.id)
            if not self._awaited_ids:
                self.ready_since = trio.current_time()
                self.settled.set()
        return True

    # Private

    async def _read(self, channel: ChildChannel) -> None:
        try:
            while True:
                for incoming in await channel.receive():
                    await self._take(self, incoming)
        except (trio.EndOfChannel, ConnectionClosed):
            self.leave()

    async def _write(self, channel: ChildChannel) -> None:
        try:
            while True:
                await channel.send(await self.outbox.take())
        except (trio.EndOfChannel, ConnectionClosed):
            self.leave()


def _own_request(id: str, method: str) -> Request:
    # A per-request revision, because the handshake belongs to the client.
    meta = {PROTOCOL_VERSION: MODERN_VERSIONS[-1], CLIENT_CAPABILITIES: {}}
    return Request(id, method, {"_meta": meta})
