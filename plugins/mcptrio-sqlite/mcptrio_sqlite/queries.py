"""The way from a call to a database: a child with a connection, a deadline, a lock, and reports of progress.

Called by every tool and resource. The one rule: when the call is cancelled or its time is up, SQLite is made to stop,
or its process is killed. Either is waited for, so that a write is known to be done or undone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Final, TypeVar
from weakref import WeakValueDictionary

import outcome
import trio
from attrs import define, field

from mcptrio import Context, ToolError

from .config import Config
from .databases import DatabaseFile, Databases
from .jobs import Job
from .lane import Tally
from .lanes import LanePool

__all__ = ["Queries"]

_PROGRESS_INTERVAL: Final = 1.0
"""Seconds between two reports of progress; the first one comes after as many."""

_T = TypeVar("_T")


@define(eq=False)
class Queries:
    """Runs work on databases."""

    config: Config
    databases: Databases = field(init=False)
    lanes: LanePool = field(init=False)
    _looking: trio.CapacityLimiter = field(init=False)
    """Of its own: long queries do not keep anybody from looking what databases there are."""
    _writing: WeakValueDictionary[str, trio.Lock] = field(init=False, factory=WeakValueDictionary)
    """One writer a database at a time. SQLite sees to it as well, but its queue is not fair."""

    def __attrs_post_init__(self) -> None:
        self.databases = Databases(self.config)
        self.lanes = LanePool(self.config)
        self._looking = trio.CapacityLimiter(self.config.max_threads)

    async def find(self, name: str | None) -> DatabaseFile:
        """The database of this name; ``None`` is the only one.

        Raises:
            ToolError: there is none, or more than one to choose from.
        """
        if self.config.folder is None or name in self.config.databases:
            return self.databases.find(name)  # which looks at no file then
        return await self.look(lambda: self.databases.find(name))

    async def look(self, work: Callable[[], _T]) -> _T:
        """Run something that looks at files and no database, in a thread.

        Raises:
            ToolError: the file system did not answer in time.
        """
        with trio.move_on_after(self.config.query_timeout):
            return await trio.to_thread.run_sync(work, limiter=self._looking, abandon_on_cancel=True)
        raise ToolError(f"the file system did not answer within {self.config.query_timeout:g} seconds")

    async def run(self, ctx: Context, database: DatabaseFile, job: Job) -> Any:
        """Have something done with a connection, in a child.

        Returns:
            What the job's ``answer`` says.

        Raises:
            ToolError: SQLite refused, or it took too long.
        """
        tally = Tally()
        with trio.move_on_after(self.config.query_timeout) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._report, ctx, tally)
                # Kept until the nursery has closed, which would put it into a group.
                ran = await outcome.acapture(self._run, database, job, tally, scope)
                nursery.cancel_scope.cancel()
            ran.unwrap()
        if tally.answer:  # also where the time was up while COMMIT was on its way: it is done
            return tally.answer[0]
        what = ""
        if job.access.writes:
            is_known = not (tally.is_killed and tally.has_turned)
            what = ", and nothing was changed" if is_known else ", while it was written; look whether it was"
        raise ToolError(
            f"stopped after {self.config.query_timeout:g} seconds{what}; narrow the query down, or have an index made "
            "({tool:explain_query} shows what is slow)"
        )

    async def _run(self, database: DatabaseFile, job: Job, tally: Tally, scope: trio.CancelScope) -> None:
        if not job.access.writes:
            await self.lanes.run(database, job, tally, scope)
            return
        async with self._lock(database):
            await self.lanes.run(database, job, tally, scope)

    def _lock(self, database: DatabaseFile) -> trio.Lock:
        key = str(database.path)
        lock = self._writing.get(key)
        if lock is None:
            lock = self._writing[key] = trio.Lock()
        return lock

    async def _report(self, ctx: Context, tally: Tally) -> None:
        started = trio.current_time()
        while True:
            await trio.sleep(_PROGRESS_INTERVAL)
            seconds = trio.current_time() - started
            message = f"{seconds:.0f} of at most {self.config.query_timeout:g} seconds, {tally.steps:,} steps"
            await ctx.report_progress(seconds, message=message + (f", {tally.rows:,} rows" if tally.rows else ""))
