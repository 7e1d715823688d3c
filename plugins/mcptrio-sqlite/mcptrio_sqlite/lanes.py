"""The children of one server: started when they are needed, kept for the next call, ended with the server.

Made by ``Queries`` and registered by the plugin for its lifespan. The one rule: there are never more children than
``max_threads``, and none of them is used by two calls at once; who finds all of them at work waits.
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
"""Seconds for children to end; they are killed, so only what hangs in the kernel takes longer than an instant."""
_RECOVERING: Final = 10.0
"""Seconds for undoing what a child has left that was killed."""


@define(eq=False)
class LanePool:
    """The children."""

    config: Config
    _turns: trio.CapacityLimiter = field(init=False)
    _idle: list[Lane] = field(init=False, factory=list)
    _is_open: bool = field(init=False, default=False)

    def __attrs_post_init__(self) -> None:
        self._turns = trio.CapacityLimiter(self.config.max_threads)

    @lifespan
    @asynccontextmanager
    async def opened(self) -> AsyncIterator[None]:
        """While this is open there may be children."""
        self._is_open = True
        try:
            yield
        finally:
            self._is_open = False
            idle, self._idle = self._idle, []
            for lane in idle:
                lane.close()
            with trio.move_on_after(_ENDING, shield=True):
                for lane in idle:
                    await lane.end()

    async def run(self, database: DatabaseFile, job: Job, tally: Tally, scope: trio.CancelScope) -> None:
        """Have a job done; its answer is in ``tally``.

        A child that was killed while it wrote may have left a transaction half done, which is undone before this
        returns.

        Args:
            scope: with the time for the job; that of starting a child is added to it.

        Raises:
            ToolError: it does not work.
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
        scope.deadline = math.inf  # a start has its own
        try:
            return await Lane.start(self.config)
        finally:
            scope.deadline = deadline + trio.current_time() - began

    async def _put_back(self, lane: Lane) -> None:
        """Keep it for the next call, or end it. Called under a shield."""
        if lane.is_usable and self._is_open:
            self._idle.append(lane)
        else:
            await lane.end()

    async def _recover(self, database: DatabaseFile, scope: trio.CancelScope) -> None:
        try:
            lane = await self._take(scope)
        except ToolError:
            return  # who next writes does it, as SQLite has it
        try:
            await lane.run(database, Recover(), Tally())
        except ToolError:
            pass  # likewise
        finally:
            with trio.move_on_after(_ENDING, shield=True):
                await self._put_back(lane)
