"""Runs jobs for the tools and resources: with a child process, a deadline, a write lock and progress reports.

When a call is cancelled or times out, SQLite is stopped or its process is killed. Both are waited for, so that it is
known whether a write was committed.
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
"""Seconds before the first progress report and between two reports."""

_T = TypeVar("_T")


@define(eq=False)
class Queries:
    """Runs jobs on databases."""

    config: Config
    databases: Databases = field(init=False)
    lanes: LanePool = field(init=False)
    # A separate limiter: long queries must not delay calls that only find databases.
    _thread_limiter: trio.CapacityLimiter = field(init=False)
    # One writer per database at a time. SQLite enforces that too, but its queue is not fair.
    _writing: WeakValueDictionary[str, trio.Lock] = field(init=False, factory=WeakValueDictionary)

    def __attrs_post_init__(self) -> None:
        self.databases = Databases(self.config)
        self.lanes = LanePool(self.config)
        self._thread_limiter = trio.CapacityLimiter(self.config.max_threads)

    async def find(self, name: str = "") -> DatabaseFile:
        """Return the database with this name; without a name, the only one.

        Raises:
            ToolError: No database has this name, or there are several and no name.
        """
        if self.config.folder is None or name in self.config.databases:
            return self.databases.find(name or None)  # does not access files in this case
        return await self.run_in_thread(lambda: self.databases.find(name or None))

    async def run_in_thread(self, work: Callable[[], _T]) -> _T:
        """Run a function that accesses the file system, but no database, in a thread.

        Raises:
            ToolError: The file system did not respond in time.
        """
        with trio.move_on_after(self.config.query_timeout):
            # abandon_on_cancel: a hanging mount must not delay the timeout.
            return await trio.to_thread.run_sync(work, limiter=self._thread_limiter, abandon_on_cancel=True)
        raise ToolError(f"the file system did not respond within {self.config.query_timeout:g} seconds")

    async def run(self, ctx: Context, database: DatabaseFile, job: Job) -> Any:
        """Run a job in a child process and return its result.

        Returns:
            An instance of the job's ``answer`` type.

        Raises:
            ToolError: The job failed or took too long.
        """
        tally = Tally()
        with trio.move_on_after(self.config.query_timeout) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._report, ctx, tally)
                # Unwrapped outside the nursery, which would put the exception into a group.
                ran = await outcome.acapture(self._run, database, job, tally, scope)
                nursery.cancel_scope.cancel()
            ran.unwrap()
        if tally.answer:  # also if the deadline passed during COMMIT, which then succeeded
            return tally.answer[0]
        what = ""
        if job.access.writes:
            is_known = not (tally.is_killed and tally.has_turned)
            what = ", and nothing was changed" if is_known else " during the commit; check whether the change was made"
        raise ToolError(
            f"stopped after {self.config.query_timeout:g} seconds{what}; restrict the query or add an index "
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
        # A lock disappears with its last user, so the mapping stays small.
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
