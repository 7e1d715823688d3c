"""The way from a call to a database: a thread with a connection, a deadline, a lock, and reports of progress.

Called by every tool and resource. The one rule: when the call is cancelled or its time is up, SQLite is made to stop.
A read is left to stop by itself, so the caller need not wait; a write is waited for, so that it is known to be done or
undone.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final, TypeVar
from weakref import WeakValueDictionary

import trio
from attrs import define, field

from mcptrio import Context, ToolError
from mcptrio.nurseries import open_hidden_nursery

from .config import Config
from .connections import Opened, Watch, open_database
from .databases import Database, Databases
from .policy import Access, Policy

__all__ = ["Queries"]

_EVERY: Final = 1.0
"""Seconds between two reports of progress; the first one comes after as many."""

_T = TypeVar("_T")


@define(eq=False)
class Queries:
    """Runs work on databases."""

    config: Config
    databases: Databases = field(init=False)
    _threads: trio.CapacityLimiter = field(init=False)
    _looking: trio.CapacityLimiter = field(init=False)
    """Of its own: long queries do not keep anybody from looking what databases there are."""
    _writing: WeakValueDictionary[str, trio.Lock] = field(init=False, factory=WeakValueDictionary)
    """One writer a database at a time. SQLite sees to it as well, but its queue is not fair."""

    def __attrs_post_init__(self) -> None:
        self.databases = Databases(self.config)
        self._threads = trio.CapacityLimiter(self.config.max_threads)
        self._looking = trio.CapacityLimiter(self.config.max_threads)

    async def find(self, name: str | None) -> Database:
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

    async def run(self, ctx: Context, database: Database, policy: Policy, work: Callable[[Opened], _T]) -> _T:
        """Run something with a connection, in a thread.

        Args:
            work: gets the connection; what it returns is the result.

        Raises:
            ToolError: SQLite refused, or it took too long.
        """
        watch = Watch()

        def in_thread() -> _T:
            with open_database(database, policy, self.config, watch) as opened:
                return work(opened)

        done: list[_T] = []
        with trio.move_on_after(self.config.query_timeout):
            async with open_hidden_nursery() as nursery:
                nursery.start_soon(self._report, ctx, watch)
                if policy.access.writes:
                    async with self._lock(database):
                        done.append(await trio.to_thread.run_sync(in_thread, limiter=self._threads))
                else:
                    done.append(await trio.to_thread.run_sync(in_thread, limiter=self._threads, abandon_on_cancel=True))
        if done:  # also where the time was up while COMMIT was on its way: it is done
            return done[0]
        raise ToolError(
            f"stopped after {self.config.query_timeout:g} seconds"
            + (", and nothing was changed" if policy.access.writes else "")
            + "; narrow the query down, or have an index made (explain_query shows what is slow)"
        )

    def policy(self, access: Access) -> Policy:
        """A new authorizer for one call."""
        return Policy(access, self.config.deny)

    def _lock(self, database: Database) -> trio.Lock:
        key = str(database.path)
        lock = self._writing.get(key)
        if lock is None:
            lock = self._writing[key] = trio.Lock()
        return lock

    async def _report(self, ctx: Context, watch: Watch) -> None:
        started = trio.current_time()
        while True:
            await trio.sleep(_EVERY)
            seconds = trio.current_time() - started
            message = f"{seconds:.0f} of at most {self.config.query_timeout:g} seconds, {watch.steps:,} steps"
            await ctx.report_progress(seconds, message=message + (f", {watch.rows:,} rows" if watch.rows else ""))
