"""Runs jobs for the tools and resources, with a child process, a deadline, a write lock and progress reports.

When a call is cancelled or times out, its statement is stopped or its process is killed. ``Queries`` waits until either
is complete, so that a call can report whether its changes were committed.
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
from .process_pool import QueryProcessPool
from .query_process import JobState

__all__ = ["Queries"]

_PROGRESS_INTERVAL: Final = 1.0
"""Seconds before the first progress report and between two reports."""

_T = TypeVar("_T")


@define(eq=False)
class Queries:
    """Runs jobs on databases."""

    config: Config
    databases: Databases = field(init=False)
    pool: QueryProcessPool = field(init=False)
    # A separate limiter, because long queries must not delay calls that only find databases.
    _thread_limiter: trio.CapacityLimiter = field(init=False)
    # One writer per database at a time. SQLite enforces that too, but without a fair queue.
    _write_locks: WeakValueDictionary[str, trio.Lock] = field(init=False, factory=WeakValueDictionary)

    def __attrs_post_init__(self) -> None:
        self.databases = Databases(self.config)
        self.pool = QueryProcessPool(self.config)
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
            # With abandon_on_cancel, a hanging mount cannot delay the timeout.
            return await trio.to_thread.run_sync(work, limiter=self._thread_limiter, abandon_on_cancel=True)
        raise ToolError(f"the file system did not respond within {self.config.query_timeout:g} seconds")

    async def run(self, ctx: Context, database: DatabaseFile, job: Job) -> Any:
        """Run a job in a child process and return its result.

        Returns:
            An instance of the job's ``answer`` type.

        Raises:
            ToolError: The job failed or took too long.
        """
        state = JobState()
        with trio.move_on_after(self.config.query_timeout) as scope:
            async with trio.open_nursery() as nursery:
                nursery.start_soon(self._report, ctx, state)
                # The exception is raised outside the nursery, which would wrap it in a group.
                ran = await outcome.acapture(self._run, database, job, state, scope)
                nursery.cancel_scope.cancel()
            ran.unwrap()
        # There is an answer even after the deadline if it passed during a COMMIT that succeeded.
        if state.answer:
            return state.answer[0]
        outcome_note = ""
        if job.access.writes:
            is_known = not (state.is_killed and state.has_statement_ended)
            outcome_note = (
                ", and nothing was changed" if is_known else " during the commit; check whether the change was made"
            )
        raise ToolError(
            f"stopped after {self.config.query_timeout:g} seconds{outcome_note}; restrict the query or add an index "
            "({tool:explain_query} shows what is slow)"
        )

    async def _run(self, database: DatabaseFile, job: Job, state: JobState, scope: trio.CancelScope) -> None:
        if not job.access.writes:
            await self.pool.run(database, job, state, scope)
            return
        async with self._lock(database):
            await self.pool.run(database, job, state, scope)

    def _lock(self, database: DatabaseFile) -> trio.Lock:
        key = str(database.path)
        # The mapping holds weak references, so a lock disappears with its last user.
        lock = self._write_locks.get(key)
        if lock is None:
            lock = self._write_locks[key] = trio.Lock()
        return lock

    async def _report(self, ctx: Context, state: JobState) -> None:
        started = trio.current_time()
        while True:
            await trio.sleep(_PROGRESS_INTERVAL)
            seconds = trio.current_time() - started
            message = f"{seconds:.0f} of at most {self.config.query_timeout:g} seconds, {state.steps:,} steps"
            await ctx.report_progress(seconds, message=message + (f", {state.rows:,} rows" if state.rows else ""))
