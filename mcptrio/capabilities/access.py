"""Access decisions: the entries that a principal (the authenticated user or client) may list and use, and the scopes
that it lacks.

The capabilities use this, and so does the HTTP endpoint before it responds. If only scopes are missing, the response
names them. If a plugin's authorizer refuses, the entry does not exist for this principal.

Source: MCP 2026-07-28, basic/authorization, "Scope Challenge Handling".
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from mcptrio.abc import Principal
from mcptrio.capabilities.authorization import Authorizers, Component, has_scopes
from mcptrio.capabilities.registry import Registry
from mcptrio.capabilities.resource_index import ResourceIndex
from mcptrio.errors import InsufficientScope
from mcptrio.protocol.messages import Batch, Incoming, Request
from mcptrio.runtime.callers import PARENT

__all__ = ["Access"]


class Access:
    """The access rules of one server."""

    def __init__(
        self, authorizers: Authorizers, tools: Registry[Any], resources: ResourceIndex, prompts: Registry[Any]
    ) -> None:
        self.authorizers = authorizers
        self._registries = (tools, resources.resources, resources.templates, prompts)
        self._by_method: dict[str, tuple[str, Callable[[str], Any]]] = {
            "tools/call": ("name", tools.get),
            "prompts/get": ("name", prompts.get),
            "resources/read": ("uri", resources.get),
            "resources/subscribe": ("uri", resources.get),
        }
        """For each method that uses an entry, the parameter that names the entry, and the function that finds it."""

    @property
    def is_restricted(self) -> bool:
        """True if access depends on the principal. If not, no entry needs to be checked, and lists are cached."""
        return bool(self.authorizers.functions) or any(registry.is_scoped for registry in self._registries)

    def may_list(self, component: Component, principal: Principal | None) -> bool:
        """Return whether lists for the principal contain the entry."""
        # The process of an isolated plugin lists everything for its parent, which then decides for each client.
        if principal is PARENT:
            return True
        return (self.authorizers.list_all or has_scopes(component, principal)) and self.authorizers.allow(
            component, principal
        )

    def visible(self, principal: Principal | None) -> Callable[[Any], bool] | None:
        """Return a function that returns whether the principal may list an entry; ``None`` if it may list all."""
        return (lambda entry: self.may_list(entry.component, principal)) if self.is_restricted else None

    def may_use(self, component: Component, principal: Principal | None) -> bool:
        """Return whether the principal may use the entry."""
        if principal is PARENT:
            return True
        return has_scopes(component, principal) and self.authorizers.allow(component, principal)

    def may_watch(self, uri: str, principal: Principal | None) -> bool:
        """Return whether the principal may subscribe to a resource. A URI without an entry is not restricted."""
        entry = self._by_method["resources/subscribe"][1](uri) if self.is_restricted else None
        return entry is None or self.may_use(entry.component, principal)

    def check_use(self, component: Component, principal: Principal | None) -> bool:
        """Return whether the principal may use the entry, for a request that is about to use it.

        Raises:
            InsufficientScope: Only scopes are missing.
        """
        # Checked before the scopes, because a principal must not learn the scopes of an entry that it may not know.
        if not self.authorizers.allow(component, principal):
            return False
        if not has_scopes(component, principal):
            raise InsufficientScope(
                f"{component.kind} {component.name}: expected a token with the scopes "
                f"{' '.join(sorted(component.scopes))}",
                scopes=component.scopes,
            )
        return True

    def missing_scopes(self, incoming: Incoming, principal: Principal | None) -> frozenset[str]:
        """Return all scopes of the entries for which the principal lacks a scope; an empty set if it lacks none."""
        # A server with authorization has already refused anonymous requests.
        if principal is None or not self.is_restricted:
            return frozenset()
        messages = incoming.messages if isinstance(incoming, Batch) else (incoming,)
        components = [self._component_of(message) for message in messages if isinstance(message, Request)]
        lacking = [
            component.scopes
            for component in components
            if component is not None
            and not has_scopes(component, principal)
            # An entry that is hidden from the principal must not appear in a challenge.
            and self.authorizers.allow(component, principal)
        ]
        # Including the scopes that the principal has: a client requests a new token with exactly these scopes.
        return frozenset[str]().union(*lacking)

    def _component_of(self, request: Request) -> Component | None:
        parameter, find = self._by_method.get(request.method, ("", None))
        name = (request.params or {}).get(parameter)
        # The HTTP endpoint calls this before the parameters are validated.
        entry = find(name) if find is not None and isinstance(name, str) else None
        component: Component | None = entry.component if entry is not None else None
        return component
