"""A language server for one folder: started when needed, restarted after a crash, stopped when idle.

``LanguageServers`` creates it. A task in the plugin's nursery runs the process and ends its process group.
"""

from __future__ import annotations

import math
import os
import shutil
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from typing import Final, TypeVar

import trio
from attrs import define, field

from mcptrio import ToolError
from mcptrio.errors import ConnectionClosed
from mcptrio.net import ChildProcess, start_process

from .config import HOW_TO_INSTALL, Config, ServerConfig
from .connection import LanguageConnection, RequestRefused, ServerEnded
from .folders import CodeFolders
from .session import LanguageSession

__all__ = ["LanguageServer"]

_MIN_PAUSE_SECONDS: Final = 0.5
_MAX_PAUSE_SECONDS: Final = 30.0
_MAX_WAIT_SECONDS: Final = 5.0
"""Maximum seconds for which a call waits for a restart. If the restart is later, the call is refused."""
_SHUTDOWN_TIMEOUT: Final = 2.0
"""Seconds for the response to ``shutdown`` and the exit of the process."""
_END_TIMEOUT: Final = 10.0
"""Seconds for the process group to end after it is terminated."""
_STABLE_SECONDS: Final = 30.0
"""Seconds of running after which a server is considered stable, and the pause before its restart is reset."""
_INHERITED_VARIABLES: Final = (
    "HOME",
    "LANG",
    "LC_ALL",
    "LC_CTYPE",
    "PATH",
    "TMPDIR",
    "USER",
    "XDG_CACHE_HOME",
    "XDG_CONFIG_HOME",
)

_T = TypeVar("_T")


@define(eq=False)
class LanguageServer:
    """A language server and its restarts."""

    name: str
    spec: ServerConfig
    config: Config
    folders: CodeFolders
    folder: str
    """The workspace, resolved."""

    _session: LanguageSession | None = field(init=False, default=None)
    _start_lock: trio.Lock = field(init=False, factory=trio.Lock)
    _users: int = field(init=False, default=0)
    _last_use: float = field(init=False, default=-math.inf)
    _pause: float = field(init=False, default=0.0)
    _not_before: float = field(init=False, default=-math.inf)
    _failure: str = field(init=False, default="")

    async def use(self, nursery: trio.Nursery, work: Callable[[LanguageSession], Awaitable[_T]]) -> _T:
        """Run a function that only reads from the server. If the server exits, run it again with a new process.

        Args:
            nursery: The nursery in which the server runs.

        Raises:
            ToolError: The server cannot be started, refuses a request, or exits again.
        """
        self._users += 1
        try:
            for attempt in (1, 2):
                session = await self._ready_session(nursery)
                try:
                    return await work(session)
                except ServerEnded as error:
                    if attempt == 2:
                        raise ToolError(f"the language server {self.name} {error} during the call, twice") from None
                except RequestRefused as error:
                    raise ToolError(f"{self.name}: {error}") from None
            raise AssertionError("unreachable")
        finally:
            self._users -= 1
            self._last_use = trio.current_time()

    def is_installed(self) -> bool:
        """Return True if the program of the server is installed. Blocks."""
        program = self._command()[0]
        return os.sep in program or shutil.which(program, path=self._environment().get("PATH")) is not None

    async def _ready_session(self, nursery: trio.Nursery) -> LanguageSession:
        async with self._start_lock:
            if self._session is not None and self._session.connection.ended is None:
                return self._session
            wait = self._not_before - trio.current_time()
            if wait > _MAX_WAIT_SECONDS:
                raise ToolError(f"{self._failure}; the next attempt is possible in {wait:.0f} seconds")
            await trio.sleep(max(0, wait))
            started = await nursery.start(self._run_process)
        if isinstance(started, ToolError):
            raise started
        session: LanguageSession = started
        return session

    async def _run_process(self, *, task_status: trio.TaskStatus[LanguageSession | ToolError]) -> None:
        """Run the process until it exits or is idle. Reports the session, or an error, to the nursery."""
        started_at = trio.current_time()
        try:
            process = start_process(self._command(), env=self._environment(), cwd=self.folder)
        except ConnectionClosed as error:
            advice = "" if self.is_installed() else HOW_TO_INSTALL.get(self.spec.command[0], "")
            task_status.started(self._record_failure(f"the language server {self.name}: {error}{advice}"))
            return
        session = self._session_with(process)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._run, session.connection, nursery.cancel_scope)
                try:
                    await session.open()
                except (RequestRefused, ServerEnded) as error:
                    task_status.started(self._record_failure(f"the language server {self.name} did not start: {error}"))
                else:
                    self._session = session
                    self._last_use = trio.current_time()
                    task_status.started(session)
                    await self._wait_until_idle(session)
                    self._session = None
                    await _shut_down(session)
                nursery.cancel_scope.cancel()
        finally:
            if self._session is session:
                self._session = None
                if trio.current_time() - started_at > _STABLE_SECONDS:
                    self._pause = 0.0
                self._record_failure(f"the language server {self.name} {session.connection.ended}")
            with trio.move_on_after(_END_TIMEOUT, shield=True):
                await process.end(exit=0.0, terminate=_SHUTDOWN_TIMEOUT)

    async def _run(self, connection: LanguageConnection, scope: trio.CancelScope) -> None:
        await connection.run()
        scope.cancel()

    async def _wait_until_idle(self, session: LanguageSession) -> None:
        while self._users or trio.current_time() < self._last_use + self.config.idle_timeout:
            pause = self.config.idle_timeout if self._users else 0.0
            await trio.sleep_until(max(self._last_use + self.config.idle_timeout, trio.current_time() + pause))

    def _session_with(self, process: ChildProcess) -> LanguageSession:
        connection = LanguageConnection(
            process,
            self.config.max_message_bytes,
            answer_request=lambda method, params: session.answer_request(method, params),
            handle_notification=lambda method, params: session.handle_notification(method, params),
        )
        session = LanguageSession(self.name, self.spec, self.config, self.folders, self.folder, connection)
        return session

    def _record_failure(self, reason: str) -> ToolError:
        self._failure = reason
        self._not_before = trio.current_time() + self._pause
        self._pause = min(max(2 * self._pause, _MIN_PAUSE_SECONDS), _MAX_PAUSE_SECONDS)
        return ToolError(reason)

    def _command(self) -> list[str]:
        program, *arguments = self.spec.command
        # pip may have installed the language server into the environment of mcptrio, which may not be in PATH.
        installed = shutil.which(program, path=str(Path(sys.executable).parent)) if os.sep not in program else None
        return [installed or os.path.expanduser(program), *arguments]

    def _environment(self) -> dict[str, str]:
        return {**{name: os.environ[name] for name in _INHERITED_VARIABLES if name in os.environ}, **self.spec.env}


async def _shut_down(session: LanguageSession) -> None:
    with trio.move_on_after(_SHUTDOWN_TIMEOUT):
        try:
            await session.request("shutdown", None)
            await session.connection.notify("exit", None)
            await session.connection.process.wait()
        except (RequestRefused, ServerEnded):
            pass
