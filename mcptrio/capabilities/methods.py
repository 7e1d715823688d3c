"""Methods outside of the specification: requests and notifications that plugins and programs handle.

A plugin cannot replace a request of the specification, but it can listen for notifications of the specification.

Source: MCP 2026-07-28, basic/versioning, "Extensions".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcptrio.capabilities.calls import FunctionCaller
from mcptrio.capabilities.decorators import MethodMark
from mcptrio.capabilities.functions import Function
from mcptrio.capabilities.owner import Owner
from mcptrio.capabilities.registry import Duplicate
from mcptrio.errors import MethodNotFound
from mcptrio.protocol.model.base import Result
from mcptrio.protocol.model.methods import METHODS, Method, Side
from mcptrio.runtime.conversation import Conversation
from mcptrio.runtime.notifications import Listener
from mcptrio.runtime.request import Handler, RequestScope
from mcptrio.runtime.state import RuntimeState
from mcptrio.runtime.work import WorkCancelScope

__all__ = ["Methods"]

_SPECIFIED = frozenset(row.name for row in METHODS)


class Methods:
    """The methods and notification listeners that plugins and programs add to a server.

    Args:
        handlers: The handlers of all methods; those of plugins are added.
    """

    def __init__(self, handlers: dict[str, Handler], calls: FunctionCaller, state: RuntimeState) -> None:
        self._handlers = handlers
        self._calls = calls
        self._state = state
        self._owners: dict[str, Owner] = {}
        self.rows: dict[str, Method] = {}
        """The added methods by name. Every connection reads them."""
        self.listeners: dict[str, list[Listener]] = {}
        """The listeners by notification. Every session reads them."""
        self._listeners_by_owner: dict[Owner, list[tuple[str, Listener]]] = {}
        """The names of notifications and their listeners, by owner."""

    def register(self, function: Callable[..., Any], mark: MethodMark, owner: Owner) -> str:
        """Add the handler of a method, or a listener for a notification, and return its name.

        Raises:
            ValueError: The name belongs to the specification.
            Duplicate: The name is taken.
            TypeError: The function has other parameters than a Context and the params.
        """
        # The params are passed in wire form, so the signature needs no conversion.
        called = Function(function, raw=True)
        value_parameters = sorted(name for name in called.parameters if name != called.context)
        if len(value_parameters) > 1:
            raise TypeError(
                f"{mark.name}: expected a function of a Context and the params, got the parameters {value_parameters}"
            )
        if mark.notification:
            self._add_listener(called, mark, value_parameters, owner)
            return mark.name
        if mark.name in _SPECIFIED:
            # By replacing `tools/call`, a plugin could bypass access rules, limits and middleware.
            raise ValueError(f"{mark.name}: expected a method of an extension, got one of the specification")
        if mark.name in self.rows:
            raise Duplicate("method", mark.name, self._owners[mark.name])
        self.rows[mark.name] = Method(mark.name, None, Result, Side.SERVER, capability=mark.capability)
        self._owners[mark.name] = owner

        async def handle(scope: RequestScope, params: dict[str, Any]) -> Any:
            # The method does not exist for clients until the plugin's lifespan has yielded.
            if owner.is_hidden:
                raise MethodNotFound(f"no such method: {mark.name}")
            values = dict.fromkeys(value_parameters, params)
            result = await self._calls.run(scope, called, values, label=mark.name, owner=owner, timeout=None)
            return result if result is not None else {}

        self._handlers[mark.name] = handle
        return mark.name

    def withdraw(self, owner: Owner) -> None:
        """Remove the methods and listeners of a plugin."""
        for name in [name for name, each in self._owners.items() if each is owner]:
            del self.rows[name], self._owners[name]
            del self._handlers[name]
        for name, listener in self._listeners_by_owner.pop(owner, ()):
            self.listeners[name].remove(listener)

    def _add_listener(self, function: Function, mark: MethodMark, value_parameters: list[str], owner: Owner) -> None:
        if function.context is not None:
            raise TypeError(f"{mark.name}: a notification has no request, so its handler takes no Context")
        # A connection ignores a notification without a row.
        if mark.name not in _SPECIFIED:
            self.rows.setdefault(mark.name, Method(mark.name, None, None, Side.SERVER))

        async def handle_notification(session: Conversation, params: Any) -> None:
            if owner.is_hidden:
                return
            # There is no request to cancel when the plugin is stopped, so the handler has a cancel scope of its own.
            cancelling = WorkCancelScope()
            with self._state.works.new(mark.name, owner.plugin, cancelling) as work, cancelling.cancel_scope:
                if function.in_thread:
                    await work.hold(self._state.threads.of_calls(owner.plugin), "thread")
                await function(dict.fromkeys(value_parameters, params), None, work)

        self.listeners.setdefault(mark.name, []).append(handle_notification)
        self._listeners_by_owner.setdefault(owner, []).append((mark.name, handle_notification))
