"""Who finds what in lists, may use it, or is told which scopes it takes.

Asked by the capabilities, and by HTTP before it answers.
The one rule: where scopes are all that is in the way, that is said; where a plugin's judgement is, the thing does not
exist.

Source: MCP 2026-07-28, basic/authorization, "Scope Challenge Handling".
"""

from __future__ import annotations

from mcptrio.abc import Principal
from mcptrio.capabilities.authorization import Authorizers, Component, has_scopes
from mcptrio.capabilities.prompts import Prompts
from mcptrio.capabilities.resources import Resources
from mcptrio.capabilities.tools import Tools
from mcptrio.errors import InsufficientScope
from mcptrio.protocol.messages import Batch, Incoming, Request
from mcptrio.runtime.callers import PARENT

__all__ = ["Access"]


class Access:
    def __init__(self, authorizers: Authorizers, tools: Tools, resources: Resources, prompts: Prompts) -> None:
        self._authorizers = authorizers
        self._tools = tools
        self._resources = resources
        self._prompts = prompts
        self._registries = (tools.registry, resources.registry, resources.templates, prompts.registry)

    @property
    def judges(self) -> bool:
        """Whether the answer to anything here is ever no."""
        return bool(self._authorizers) or any(registry.is_scoped for registry in self._registries)

    def may_list(self, component: Component, principal: Principal | None) -> bool:
        """Whether they find it in a list."""
        if principal is PARENT:
            return True
        return (self._authorizers.list_all or has_scopes(component, principal)) and self._authorizers.allow(
            component, principal
        )

    def may_use(self, component: Component, principal: Principal | None) -> bool:
        if principal is PARENT:
            return True
        return has_scopes(component, principal) and self._authorizers.allow(component, principal)

    def check_use(self, component: Component, principal: Principal | None) -> bool:
        """The same, where it is going to be used now.

        Raises:
            InsufficientScope: nothing is in the way but scopes that the token lacks.
        """
        if not self._authorizers.allow(component, principal):
            return False
        if not has_scopes(component, principal):
            raise InsufficientScope(
                f"{component.kind} {component.name}: expected a token with the scopes "
                f"{' '.join(sorted(component.scopes))}",
                scopes=component.scopes,
            )
        return True

    def lacking_scopes(self, incoming: Incoming, principal: Principal | None) -> frozenset[str]:
        """All scopes that the requests in it need, if the principal lacks any of them; nothing, if it lacks none."""
        if principal is None or not self.judges:
            return frozenset()
        messages = incoming.messages if isinstance(incoming, Batch) else (incoming,)
        wanted = [self._wanted_by(message) for message in messages if isinstance(message, Request)]
        lacking = [
            component.scopes
            for component in wanted
            if component is not None
            and not has_scopes(component, principal)
            and self._authorizers.allow(component, principal)
        ]
        return frozenset[str]().union(*lacking)

    def _wanted_by(self, request: Request) -> Component | None:
        """What a request is about to use."""
        params = request.params or {}
        name, uri = params.get("name"), params.get("uri")
        if request.method == "tools/call" and isinstance(name, str):
            tool = self._tools.registry.get(name)
            return self._tools.component(tool) if tool is not None else None
        if request.method == "prompts/get" and isinstance(name, str):
            prompt = self._prompts.registry.get(name)
            return self._prompts.component(prompt) if prompt is not None else None
        if request.method in ("resources/read", "resources/subscribe") and isinstance(uri, str):
            resource = self._resources.at(uri)
            return self._resources.component(resource) if resource is not None else None
        return None
