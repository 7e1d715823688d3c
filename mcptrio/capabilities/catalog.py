"""The catalogue of a server: its entries, the capabilities that answer from them, access rules, and middleware.

The server makes it. The supervisor uses its handlers, and plugins add to it.

    Catalog ── registries: tools, resources, templates, prompts, completions
       ├────── capabilities that answer requests from them: Tools, Resources, Prompts, Completions, Subscriptions, ...
       └────── around requests: Access, MiddlewareChain, Routes, Logging
"""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from typing import Any, cast

import trio

from mcptrio.capabilities.access import Access
from mcptrio.capabilities.authorization import Authorizers
from mcptrio.capabilities.calls import FunctionCaller
from mcptrio.capabilities.completion import CompletionEntry, Completions
from mcptrio.capabilities.decorators import CompletionMark, Mark, MethodMark, PromptMark, ResourceMark, ToolMark
from mcptrio.capabilities.lifecycle import Lifecycle
from mcptrio.capabilities.logging import Logging
from mcptrio.capabilities.methods import Methods
from mcptrio.capabilities.middleware import MiddlewareChain
from mcptrio.capabilities.owner import Owner
from mcptrio.capabilities.prompts import PromptEntry, Prompts
from mcptrio.capabilities.registrar import Registrar
from mcptrio.capabilities.registry import Registry
from mcptrio.capabilities.resource_index import ResourceIndex
from mcptrio.capabilities.resources import Resources
from mcptrio.capabilities.routes import Routes
from mcptrio.capabilities.subscriptions import Subscriptions
from mcptrio.capabilities.task_results import TaskResults
from mcptrio.capabilities.tasks import TaskMethods
from mcptrio.capabilities.tool_entries import ToolEntry
from mcptrio.capabilities.tools import Tools
from mcptrio.protocol.jsonrpc import require_json
from mcptrio.protocol.model.lifecycle import Implementation
from mcptrio.protocol.model.tasks import TASKS_EXTENSION
from mcptrio.recording.recorder import Recorder
from mcptrio.runtime.request import Handler
from mcptrio.runtime.settings import ServerSettings
from mcptrio.runtime.state import RuntimeState

__all__ = ["Catalog", "CatalogRegistrar", "catalog_of"]


class Catalog:
    """The registries of a server, the capabilities that answer from them, and its access rules and middleware.

    Args:
        info: The name, version and description of the server.
        state: The state that all requests share.
        instructions: Advice for the model on how to use the server.
    """

    recorder: Recorder | None = None
    """Records the messages of the server, and of the servers that it mounts."""

    def __init__(
        self, info: Implementation, settings: ServerSettings, state: RuntimeState, instructions: str | None
    ) -> None:
        self.settings = settings
        self.state = state
        self.own = Owner()
        """The owner of entries that no plugin has added."""
        tools: Registry[ToolEntry] = Registry("tool", state.loop)
        prompts: Registry[PromptEntry] = Registry("prompt", state.loop)
        completions: Registry[CompletionEntry] = Registry("completion", state.loop)
        self.resources = resources = ResourceIndex(state.loop)
        self.registries: Mapping[str, Registry[Any]] = {
            "tools": tools,
            "resources": resources.resources,
            "templates": resources.templates,
            "prompts": prompts,
            "completions": completions,
        }
        self.lifecycle = Lifecycle(info, self.registries, settings, state.loop, instructions)
        self.logging = Logging()
        self.authorizers = Authorizers(list_all=settings.list_all)
        self.access = access = Access(self.authorizers, tools, resources, prompts)
        calls = FunctionCaller(state, self.logging)
        self.tools = Tools(tools, access, calls, settings, state, self._add_tasks)
        self.prompts = Prompts(prompts, access, calls, settings)
        self.completions = Completions(completions, prompts, resources, access, calls)
        tasks = TaskMethods(self.tools.tasks)
        # The capabilities are passed as a function, because they change with the entries.
        self.subscriptions = Subscriptions(state, access, tasks, lambda: self.lifecycle.capabilities)
        for kind, registry in self.registries.items():
            # There is no notification for completions, because they are not listed.
            if kind != "completions":
                # Resources and templates have the same notification.
                changed = "resources" if kind == "templates" else kind
                registry.on_change(partial(self.subscriptions.changed, changed))
        self.routes = Routes(state.surrounding)
        self.middleware = MiddlewareChain(self.tools.owner_of, state.surrounding)
        self.handlers: dict[str, Handler] = {}
        """The handlers, by method."""
        for capability in (
            self.lifecycle,
            self.tools,
            Resources(resources, access, calls, settings),
            self.prompts,
            self.completions,
            self.logging,
            self.subscriptions,
            tasks,
            TaskResults(self.tools.tasks),
        ):
            self.handlers.update(capability.handlers)
        self.methods = Methods(self.handlers, calls, state)
        self._register: Mapping[type[Mark], Callable[[Any, Any, Owner], str]] = {
            ToolMark: self.tools.register,
            ResourceMark: resources.register,
            PromptMark: self.prompts.register,
            CompletionMark: self.completions.register,
            MethodMark: self.methods.register,
        }

    def _add_tasks(self) -> None:
        if TASKS_EXTENSION not in self.lifecycle.extensions:
            self.lifecycle.add_extension(TASKS_EXTENSION)
        self.state.loop.hand_over(self.tools.tasks.wake)

    def register(self, function: Any, mark: Mark, owner: Owner) -> str:
        """Add a decorated function for an owner. Returns its name or URI."""
        return self._register[type(mark)](function, mark, owner)

    def registries_of(self, kind: type[Mark]) -> tuple[Registry[Any], ...]:
        """Return the registries for marks of this kind. Methods have none."""
        names = ("resources", "templates") if kind is ResourceMark else (kind.kind,)
        return tuple(self.registries[name] for name in names if name in self.registries)

    def announce_lists(self) -> None:
        """Advertise tools, resources and prompts even if there are none yet."""
        for kind in ("tools", "resources", "prompts"):
            self.registries[kind].announce()

    def publish(self, owner: Owner) -> None:
        """Show the hidden entries of an owner, and notify clients."""
        # Before the registries, because their observers may list entries immediately.
        owner.is_hidden = False
        for registry in self.registries.values():
            registry.publish(owner)
        self.authorizers.trust(owner)

    def withdraw(self, owner: Owner, *, reserve: bool = False) -> None:
        """Remove everything that an owner has added, except its authorizers, and notify clients.

        Args:
            reserve: Keep the owner's names reserved until :meth:`release`.
        """
        for registry in self.registries.values():
            registry.withdraw(owner, reserve=reserve)
        self.methods.withdraw(owner)
        # A parked handler would continue in the old code of the plugin.
        self.state.parking.clear("its plugin was stopped", owner=owner.name)
        self.middleware.withdraw(owner)
        self.routes.withdraw(owner)

    def release(self, owner: Owner) -> None:
        """Free the names that are reserved for an owner."""
        for registry in self.registries.values():
            registry.release(owner)


class CatalogRegistrar(Registrar):
    """The registrar of a server, which adds to its catalogue. Each plugin has a subclass of it."""

    def __init__(self, catalog: Catalog) -> None:
        self._catalog = catalog

    def announce_lists(self) -> None:
        self._catalog.announce_lists()

    def notify_resource_updated(self, uri: str, *, caller: str | None = None) -> None:
        self._catalog.subscriptions.updated(uri, caller)

    async def broadcast(self, method: str, params: Mapping[str, Any] | None = None) -> None:
        wire = dict(params) if params else None
        require_json(wire or {}, method)
        # A copy, because a session may end while its notification is queued.
        for session in list(self._catalog.state.sessions):
            session.send_wire(method, wire)
        await trio.lowlevel.checkpoint()

    def watched(self) -> frozenset[str]:
        return self._catalog.subscriptions.watched()

    async def wait_watched(self) -> None:
        await self._catalog.subscriptions.wait_changed()

    def tool_name(self, name: str) -> str:
        return name

    def add_instructions(self, text: Callable[[], str | None]) -> Callable[[], None]:
        return self._catalog.lifecycle.add_instructions(text)

    @property
    def threads(self) -> trio.CapacityLimiter:
        # FairLimiter has the methods that Trio calls, but trio.CapacityLimiter cannot be subclassed.
        return cast(trio.CapacityLimiter, self._catalog.state.threads.of_helpers(None))

    def _offer(self, function: Any, mark: Mark) -> str:
        return self._catalog.register(function, mark, self._catalog.own)

    def _remove(self, kind: type[Mark], key: str) -> bool:
        return any(registry.remove(key) for registry in self._catalog.registries_of(kind))


def catalog_of(registrar: Registrar) -> Catalog:
    """Return the catalogue of a registrar. Only mcptrio's own mounts use it."""
    assert isinstance(registrar, CatalogRegistrar)
    return registrar._catalog
