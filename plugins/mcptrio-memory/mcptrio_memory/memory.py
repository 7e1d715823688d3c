"""One memory: its settings, its open file, and its subscribers.

The objects with the tools and resources share it. Every change of a graph goes through it, so that subscribers are
notified after each commit.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from attrs import define, field

from mcptrio import ConfigError, Context, PluginSetup, ToolError, hookimpl, lifespan

from .bounds import MemoryLimits
from .config import ANY, Config
from .graph import Editor, GraphChange
from .jsonl import import_once
from .model import Field
from .pages import Wanted
from .statements import MemoryUnavailable, Statements, Work
from .watching import GraphSubscriptions, GraphWatcher

if TYPE_CHECKING:
    from .database import MemoryDatabase

__all__ = ["ALL_FIELDS", "Memory"]

logger = logging.getLogger(__name__)

T = TypeVar("T")

ALL_FIELDS: tuple[Field, ...] = ("name", "entity_type", "observations", "relations")


@define(eq=False)
class Memory:
    """The graphs of one file."""

    config: Config
    bounds: MemoryLimits = field(init=False)
    _database: MemoryDatabase | None = field(init=False, default=None)
    _watcher: GraphWatcher | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.bounds = MemoryLimits(self.config)

    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        """Watch the file for changes by other processes."""
        self._watcher = GraphWatcher(
            subscriptions=GraphSubscriptions(
                watched=server.watched, changed=server.wait_watched, notify=server.notify_resource_updated
            ),
            namespace=self.config.namespace,
            read=self.read,
            interval=self.config.watch_interval,
        )
        # The file tells which graph another process has changed, but not which principal has subscribed to it.
        if not self.config.is_by_principal:
            server.add_background(self._watcher.run)

    @lifespan
    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """The open file, with ``import_file`` imported.

        Raises:
            ConfigError: it cannot be opened or imported.
        """
        from .database import open_database  # this imports sqlite3 too

        config = self.config
        path = config.path()
        try:
            async with open_database(
                path, max_bytes=config.max_file_bytes, busy_timeout=config.busy_timeout
            ) as database:
                self._database = database
                await import_once(database, config, self.bounds)
                yield
        except MemoryUnavailable as error:
            raise ConfigError(f"{path}: {error}") from error
        finally:
            self._database = None

    @property
    def database(self) -> MemoryDatabase:
        """
        Raises:
            ToolError: the server is not open.
        """
        if self._database is None:
            raise ToolError("the memory is not open")
        return self._database

    def space(self, ctx: Context, wanted: str | None) -> str | None:
        """Return the name of the call's graph in the file; ``None`` if there is none for the caller."""
        namespace = self.config.allowed(wanted or None)
        if namespace is None or not self.config.is_by_principal:
            return namespace
        # A colon cannot occur in the names that a call or the operator may give.
        return ctx.caller if ctx.principal is not None else None

    def shown(self, space: str) -> str:
        """Return the name of a graph for its caller."""
        return self.config.namespace if self.config.is_by_principal else space

    def namespace(self, ctx: Context, wanted: str) -> str:
        """Return the same as :meth:`space`, or raise the error that a tool reports.

        Raises:
            ToolError: the caller may not name this namespace, or has none.
        """
        config = self.config
        namespace = self.space(ctx, wanted)
        if namespace is None:
            if config.is_by_principal and config.allowed(wanted or None) is not None:
                raise ToolError("expected an authenticated user, got an anonymous one: each user has a separate memory")
            if config.is_by_principal:
                raise ToolError(
                    f"expected {config.namespace} or none at `namespace`, got {wanted!r}: each user has only one"
                )
            allowed = [config.namespace, *config.others]
            expected = (
                "1 to 100 letters, digits, dots, dashes" if ANY in config.others else f"one of {', '.join(allowed)}"
            )
            raise ToolError(f"expected {expected} at `namespace`, got {wanted!r}; the operator sets namespaces")
        return namespace

    def wanted(self, limit: int, fields: Sequence[Field], *, budget: int | None = None, whole: bool = False) -> Wanted:
        """Return the requested page, within the operator's limits."""
        config = self.config
        return Wanted(
            limit=min(limit or config.limit, config.max_limit),
            budget=budget or config.max_answer_bytes,
            fields=frozenset(fields or ALL_FIELDS),
            whole=whole,
        )

    async def read(self, work: Work[T]) -> T:
        """Run a read on one snapshot of the graphs.

        Raises:
            MemoryUnavailable: the file cannot be read.
        """
        return await self.database.read(work)

    async def change(self, namespace: str, work: Callable[[Editor], T]) -> T:
        """Change a graph in one transaction, and notify the subscribers.

        Raises:
            ToolError: the change is impossible; nothing is changed.
        """

        def edit(statements: Statements) -> GraphChange[T]:
            editor = Editor(statements, namespace, self.config.max_observations)
            return editor.done(work(editor))

        change = await self.database.write(edit)
        # There is no checkpoint since the commit: even if the caller is cancelled now, subscribers are notified.
        if self._watcher is not None and self.config.is_by_principal:
            self._watcher.notify_caller_graph(change)
        elif self._watcher is not None:
            self._watcher.notify(change)
        return change.result
