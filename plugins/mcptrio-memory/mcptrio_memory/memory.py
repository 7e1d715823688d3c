"""The memory of one server: its settings, its open file, and its subscribers.

The objects with the tools and resources share it. They change a graph only through :meth:`Memory.change`, which
notifies the subscribers after each commit.
"""

from __future__ import annotations

import logging
from collections.abc import AsyncIterator, Callable, Sequence
from contextlib import asynccontextmanager
from typing import TYPE_CHECKING, TypeVar

from attrs import define, field

from mcptrio import ConfigError, Context, PluginSetup, ToolError, hookimpl, lifespan

from .config import ANY, Config
from .graph import GraphChange, GraphEditor
from .graph_watcher import GraphSubscriptions, GraphWatcher
from .jsonl import import_once
from .limits import MemoryLimits
from .model import Field
from .pages import GraphPageRequest
from .statements import MemoryUnavailable, Statements, Work

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
    limits: MemoryLimits = field(init=False)
    _database: MemoryDatabase | None = field(init=False, default=None)
    _watcher: GraphWatcher | None = field(init=False, default=None)

    def __attrs_post_init__(self) -> None:
        self.limits = MemoryLimits(self.config)

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
        # The file contains which graph another process has changed, but not the principals that have subscribed to it.
        if not self.config.is_by_principal:
            server.add_background(self._watcher.run)

    @lifespan
    @asynccontextmanager
    async def open(self) -> AsyncIterator[None]:
        """Open the file inside the context, and import ``import_file``.

        Raises:
            ConfigError: The file cannot be opened, or ``import_file`` cannot be imported.
        """
        from .database import open_database  # this imports sqlite3 too

        config = self.config
        path = config.path()
        try:
            async with open_database(
                path, max_bytes=config.max_file_bytes, busy_timeout=config.busy_timeout
            ) as database:
                self._database = database
                await import_once(database, config, self.limits)
                yield
        except MemoryUnavailable as error:
            raise ConfigError(f"{path}: {error}") from error
        finally:
            self._database = None

    @property
    def database(self) -> MemoryDatabase:
        """The open database.

        Raises:
            ToolError: The server is not open.
        """
        if self._database is None:
            raise ToolError("the memory is not open")
        return self._database

    def find_graph_name(self, ctx: Context, request: str | None) -> str | None:
        """Return the name of the call's graph in the file; ``None`` if there is none for the caller."""
        namespace = self.config.allowed_namespace(request or None)
        if namespace is None or not self.config.is_by_principal:
            return namespace
        # A caller key has a colon, which no configured or requested namespace can contain.
        return ctx.caller if ctx.principal is not None else None

    def display_name(self, graph_name: str) -> str:
        """Return the name of a graph for its caller."""
        return self.config.namespace if self.config.is_by_principal else graph_name

    def graph_name(self, ctx: Context, request: str) -> str:
        """Return the same as :meth:`graph_name`, or raise the error that a tool reports.

        Raises:
            ToolError: The caller may not name this namespace, or has none.
        """
        config = self.config
        namespace = self.find_graph_name(ctx, request)
        if namespace is None:
            if config.is_by_principal and config.allowed_namespace(request or None) is not None:
                raise ToolError("expected an authenticated user, got an anonymous one: each user has a separate memory")
            if config.is_by_principal:
                raise ToolError(
                    f"expected {config.namespace} or none at `namespace`, got {request!r}: each user has only one"
                )
            allowed = [config.namespace, *config.other_namespaces]
            expected = (
                "1 to 100 letters, digits, dots, dashes"
                if ANY in config.other_namespaces
                else f"one of {', '.join(allowed)}"
            )
            raise ToolError(f"expected {expected} at `namespace`, got {request!r}; the operator sets namespaces")
        return namespace

    def page_request(
        self, limit: int, fields: Sequence[Field], *, budget: int | None = None, whole: bool = False
    ) -> GraphPageRequest:
        """Return the request for a page, within the operator's limits."""
        config = self.config
        return GraphPageRequest(
            limit=min(limit or config.limit, config.max_limit),
            budget=budget or config.max_answer_bytes,
            fields=frozenset(fields or ALL_FIELDS),
            whole=whole,
        )

    async def read(self, work: Work[T]) -> T:
        """Run a read on one snapshot of the graphs.

        Raises:
            MemoryUnavailable: The file cannot be read.
        """
        return await self.database.read(work)

    async def change(self, namespace: str, work: Callable[[GraphEditor], T]) -> T:
        """Change a graph in one transaction, and notify the subscribers.

        Raises:
            ToolError: The change is impossible; nothing is changed.
        """

        def edit(statements: Statements) -> GraphChange[T]:
            editor = GraphEditor(statements, namespace, self.config.max_observations)
            return editor.finish(work(editor))

        change = await self.database.write(edit)
        # There is no checkpoint after the commit, so subscribers are notified even if the caller is cancelled.
        if self._watcher is not None and self.config.is_by_principal:
            self._watcher.notify_caller_graph(change)
        elif self._watcher is not None:
            self._watcher.notify(change)
        return change.result
