"""The pool of child processes: started on demand, kept for later calls, ended with the server.

``Queries`` creates it, and the plugin registers its lifespan. There are at most ``max_threads`` children, each used by
one call at a time; further calls wait.
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
from .lane import Lane, Tally

__all__ = ["LanePool"]

_ENDING: Final = 5.0
"""Seconds for killed children to disappear. Only a process that hangs in the kernel takes longer than an instant."""
_RECOVERING: Final = 10.0
"""Seconds to roll back the transaction of a killed child."""


@define(eq=False)
class LanePool:
    """The child processes of one plugin."""

    config: Config
    _turns: trio.CapacityLimiter = field(init=False)
    _idle: list[Lane] = field(init=False, factory=list)
    _is_open: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._turns = trio.CapacityLimiter(self.config.max_threads)

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
            # First close all of them, so that they exit concurrently.
            for lane in idle:
                lane.close()
            with trio.move_on_after(_ENDING, shield=True):
                for lane in idle:
                    await lane.end()

    async def run(self, database: DatabaseFile, job: Job, tally: Tally, scope: trio.CancelScope) -> None:
        """Run a job and store its result in ``tally``.

        If the child was killed while writing, its transaction is rolled back before this returns.

        Args:
            scope: Contains the deadline of the job, which is extended by the time to start a child.

        Raises:
            ToolError: The job failed.
        """
        async with self._turns:
            lane = await self._take(scope)
            try:
                await lane.run(database, job, tally)
            finally:
                with trio.move_on_after(_ENDING, shield=True):
                    await self._put_back(lane)
                if tally.is_killed and job.access.writes:
                    with trio.move_on_after(_RECOVERING, shield=True) as recovering:
                        await self._recover(database, recovering)

    async def _take(self, scope: trio.CancelScope) -> Lane:
        while self._idle:
            lane = self._idle.pop()
            if lane.is_usable:
                return lane
            await lane.end()
        if not self._is_open:
            raise ToolError("the plugin sqlite is not open")
        began, deadline = trio.current_time(), scope.deadline
        scope.deadline = math.inf  # Lane.start has its own timeout
        try:
            return await Lane.start(self.config)
        finally:
            scope.deadline = deadline + trio.current_time() - began

    async def _put_back(self, lane: Lane) -> None:
        """Keep the child for the next call, or end it. Must be called under a shield."""
        if lane.is_usable and self._is_open:
            self._idle.append(lane)
        else:
            await lane.end()

    async def _recover(self, database: DatabaseFile, scope: trio.CancelScope) -> None:
        try:
            lane = await self._take(scope)
        except ToolError:
            return  # the next writer rolls back
        try:
            await lane.run(database, Recover(), Tally())
        except ToolError:
            pass  # the next writer rolls back
        finally:
            with trio.move_on_after(_ENDING, shield=True):
                await self._put_back(lane)
