"""Authorization of entries: the scopes that authors require, and the authorizers of plugins.

The capabilities ask for each entry of a list and for each call. An entry that a principal may not use is hidden, unless
only scopes are missing. If an authorizer fails, it refuses.

Source: MCP 2026-07-28, basic/authorization, "Scope Challenge Handling".
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Mapping
from typing import Any, Literal, TypeAlias

from attrs import field, frozen

from mcptrio.abc import Principal
from mcptrio.capabilities.owner import Owner
from mcptrio.ground.guarded import Failure, run_guarded_sync

__all__ = ["Authorizer", "Authorizers", "Component", "has_scopes"]

_log = logging.getLogger("mcptrio.authorization")


@frozen(kw_only=True)
class Component:
    """An entry of the server.

    Args:
        kind: Tool, prompt, resource or template.
        name: The name of the tool or prompt; the URI or the URI template.
        plugin: The plugin that offers it; ``None`` for the server's own.
        scopes: The scopes that its author requires.
        meta: The component's ``_meta``, which may contain data for an authorizer.
    """

    kind: Literal["tool", "resource", "prompt"]
    name: str
    plugin: str | None
    scopes: frozenset[str] = frozenset()
    meta: Mapping[str, Any] = field(factory=dict)


Authorizer: TypeAlias = Callable[[Component, Principal | None], bool]
"""Returns whether a principal may use an entry. It must be fast, because it is called for every entry of every list."""


class Authorizers:
    """The authorizers of a server. An entry is allowed if all of them allow it.

    Args:
        list_all: Whether lists also contain entries for which a principal only lacks scopes.
    """

    def __init__(self, *, list_all: bool = False) -> None:
        self.list_all = list_all
        self.functions: list[tuple[Authorizer, Owner]] = []
        """The authorizers with their owners, in the order in which they were added."""

    def add(self, function: Authorizer, owner: Owner) -> None:
        if not callable(function):
            raise TypeError(f"authorizer: expected a function, got {type(function).__name__}")
        self.functions.append((function, owner))

    def withdraw(self, owner: Owner) -> None:
        """Remove the authorizers of a disabled plugin."""
        self.functions = [each for each in self.functions if each[1] is not owner]

    def distrust(self, owner: Owner) -> None:
        """Refuse access where a failed plugin would decide, until it runs again or is disabled."""
        others = [each for each in self.functions if each[1] is not owner]
        if len(others) < len(self.functions):
            # A plugin that only had an authorizer would otherwise open its entries by crashing.
            self.functions = [*others, (_refuse, owner)]

    def trust(self, owner: Owner) -> None:
        """Use the plugin's authorizers again, because it runs again."""
        self.functions = [each for each in self.functions if each != (_refuse, owner)]

    def allow(self, component: Component, principal: Principal | None) -> bool:
        return all(
            self._call_authorizer(function, owner, component, principal)
            for function, owner in self.functions
            # The plugin's lifespan has not yielded, so its function may lack the state that it needs.
            if function is _refuse or not owner.is_kept_back
        )

    @staticmethod
    def _call_authorizer(function: Authorizer, owner: Owner, component: Component, principal: Principal | None) -> bool:
        outcome = run_guarded_sync(function, component, principal)
        if isinstance(outcome, Failure):
            _log.error("the authorizer of %s failed", owner.plugin or "the server", exc_info=outcome.error)
            return False
        # Only True itself allows: a coroutine, from an authorizer that is async by mistake, is truthy.
        return outcome.value is True


def has_scopes(component: Component, principal: Principal | None) -> bool:
    """Return whether the token has the required scopes. Anonymous requests need none."""
    return principal is None or component.scopes <= principal.scopes


def _refuse(component: Component, principal: Principal | None) -> bool:
    return False
