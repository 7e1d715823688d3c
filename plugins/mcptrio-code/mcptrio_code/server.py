"""One configured language server for one folder: started when needed, restarted after it died, ended when idle.

``LanguageServers`` makes it. The process lives in a task of the plugin's nursery and is ended with its group.
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

_MIN_PAUSE: Final = 0.5
_MAX_PAUSE: Final = 30.0
_MAX_WAIT: Final = 5.0
"""Seconds that a call waits for a restart; later ones are refused until then."""
_SHUTDOWN: Final = 2.0
"""Seconds for the answer to ``shutdown``, and for the process to exit."""
_END_TIMEOUT: Final = 10.0
"""Seconds for a process to disappear."""
_STEADY: Final = 30.0
"""A server that has run for so many seconds is restarted without a long pause."""
_PASSED_ON: Final = (
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
    _starting: trio.Lock = field(init=False, factory=trio.Lock)
    _users: int = field(init=False, default=0)
    _last_use: float = field(init=False, default=-math.inf)
    _pause: float = field(init=False, default=0.0)
    _not_before: float = field(init=False, default=-math.inf)
    _failure: str = field(init=False, default="")

    async def use(self, nursery: trio.Nursery, work: Callable[[LanguageSession], Awaitable[_T]]) -> _T:
        """Run a function that only reads from the server. If the server dies, run it once more with a new one.

        Args:
            nursery: The nursery in which the server runs.

        Raises:
            ToolError: The server cannot be started, refuses, or dies again.
        """
        self._users += 1
        try:
            for attempt in (1, 2):
                session = await self._ready(nursery)
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

    def has_program(self) -> bool:
        """Return True if the program of the server is installed. Blocks."""
        program = self._command()[0]
        return os.sep in program or shutil.which(program, path=self._environment().get("PATH")) is not None

    async def _ready(self, nursery: trio.Nursery) -> LanguageSession:
        async with self._starting:
            if self._session is not None and self._session.connection.ended is None:
                return self._session
            wait = self._not_before - trio.current_time()
            if wait > _MAX_WAIT:
                raise ToolError(f"{self._failure}; the next attempt is possible in {wait:.0f} seconds")
            await trio.sleep(max(0, wait))
            started = await nursery.start(self._live)
        if isinstance(started, ToolError):
            raise started
        session: LanguageSession = started
        return session

    async def _live(self, *, task_status: trio.TaskStatus[LanguageSession | ToolError]) -> None:
        """Run the process until it ends or is idle. Reports a session, or why there is none."""
        began = trio.current_time()
        try:
            process = start_process(self._command(), env=self._environment(), cwd=self.folder)
        except ConnectionClosed as error:
            advice = "" if self.has_program() else HOW_TO_INSTALL.get(self.spec.command[0], "")
            task_status.started(self._note_failure(f"the language server {self.name}: {error}{advice}"))
            return
        session = self._session_with(process)
        try:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._run, session.connection, nursery.cancel_scope)
                try:
                    await session.open()
                except (RequestRefused, ServerEnded) as error:
                    task_status.started(self._note_failure(f"the language server {self.name} did not start: {error}"))
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
                if trio.current_time() - began > _STEADY:
                    self._pause = 0.0
                self._note_failure(f"the language server {self.name} {session.connection.ended}")
            with trio.move_on_after(_END_TIMEOUT, shield=True):
                await process.end(exit=0.0, terminate=_SHUTDOWN)

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
            answer=lambda method, params: session.answer(method, params),
            take=lambda method, params: session.take(method, params),
        )
        session = LanguageSession(self.name, self.spec, self.config, self.folders, self.folder, connection)
        return session

    def _note_failure(self, why: str) -> ToolError:
        self._failure = why
        self._not_before = trio.current_time() + self._pause
        self._pause = min(max(2 * self._pause, _MIN_PAUSE), _MAX_PAUSE)
        return ToolError(why)

    def _command(self) -> list[str]:
        program, *arguments = self.spec.command
        # Finds a language server that pip installed into the environment of mcptrio, which need not be in PATH.
        installed = shutil.which(program, path=str(Path(sys.executable).parent)) if os.sep not in program else None
        return [installed or os.path.expanduser(program), *arguments]

    def _environment(self) -> dict[str, str]:
        return {**{name: os.environ[name] for name in _PASSED_ON if name in os.environ}, **self.spec.env}


async def _shut_down(session: LanguageSession) -> None:
    with trio.move_on_after(_SHUTDOWN):
        try:
            await session.request("shutdown", None)
            await session.connection.notify("exit", None)
            await session.connection.process.wait()
        except (RequestRefused, ServerEnded):
            pass
