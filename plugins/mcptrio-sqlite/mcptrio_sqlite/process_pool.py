"""The pool of child processes, which are started on demand, kept for later calls, and ended with the server.

``Queries`` creates the pool, and the plugin registers its lifespan. There are at most ``max_threads`` children, each
used by one call at a time; further calls wait.
"""

from __future__ import annotations

import math
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Final

import trio
from attrs import define, field

from mcptrio import ToolError, lifespan

from .config import Config
from .databases import DatabaseFile
from .jobs import Job, Recover
from .query_process import JobState, QueryProcess

__all__ = ["QueryProcessPool"]

_END_TIMEOUT: Final = 5.0
"""Seconds for killed children to disappear. Only a process that is blocked in the kernel takes that long."""
_RECOVERY_TIMEOUT: Final = 10.0
"""Seconds to roll back the transaction of a killed child."""


@define(eq=False)
class QueryProcessPool:
    """The child processes of one plugin."""

    config: Config
    _limiter: trio.CapacityLimiter = field(init=False)
    _idle: list[QueryProcess] = field(init=False, factory=list)
    _is_open: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._limiter = trio.CapacityLimiter(self.config.max_threads)

    @lifespan
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """Allow children inside the context, and end them afterwards."""
        self._is_open = True
        try:
            yield
        finally:
            self._is_open = False
            idle, self._idle = self._idle, []
            # All of them are closed before the first wait, so that they exit concurrently.
            for process in idle:
                process.close()
            with trio.move_on_after(_END_TIMEOUT, shield=True):
                for process in idle:
                    await process.end()

    async def run(self, database: DatabaseFile, job: Job, state: JobState, scope: trio.CancelScope) -> None:
        """Run a job and store its result in ``state``.

        If the child was killed while writing, its transaction is rolled back before this returns.

        Args:
            scope: The cancel scope with the deadline of the job. The deadline is extended by the time to start a child.

        Raises:
            ToolError: The job failed.
        """
        async with self._limiter:
            process = await self._acquire(scope)
            try:
                await process.run(database, job, state)
            finally:
                with trio.move_on_after(_END_TIMEOUT, shield=True):
                    await self._release(process)
                if state.is_killed and job.access.writes:
                    with trio.move_on_after(_RECOVERY_TIMEOUT, shield=True) as recovering:
                        await self._recover(database, recovering)

    async def _acquire(self, scope: trio.CancelScope) -> QueryProcess:
        while self._idle:
            process = self._idle.pop()
            if process.is_usable:
                return process
            await process.end()
        if not self._is_open:
            raise ToolError("the plugin sqlite is not open")
        began, deadline = trio.current_time(), scope.deadline
        scope.deadline = math.inf  # QueryProcess.start has its own timeout
        try:
            return await QueryProcess.start(self.config)
        finally:
            scope.deadline = deadline + trio.current_time() - began

    async def _release(self, process: QueryProcess) -> None:
        """Keep the child for the next call, or end it. Must be called under a shield."""
        if process.is_usable and self._is_open:
            self._idle.append(process)
        else:
            await process.end()

    async def _recover(self, database: DatabaseFile, scope: trio.CancelScope) -> None:
        try:
            process = await self._acquire(scope)
        except ToolError:
            return  # the next writer rolls back
        try:
            await process.run(database, Recover(), JobState())
        except ToolError:
            pass  # the next writer rolls back
        finally:
            with trio.move_on_after(_END_TIMEOUT, shield=True):
                await self._release(process)
