"""Authorization of entries: the scopes that authors require, and the authorizers of plugins.

The capabilities check each entry of a list and each call. An entry that a principal may not use is hidden, unless only
scopes are missing. An authorizer that raises refuses access.

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
    """An entry of the server, as authorizers see it.

    Args:
        kind: The kind of the entry; ``resource`` for a template too.
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
"""A function that returns whether a principal may use an entry. It must be fast: it is called for every entry of every
list."""


class Authorizers:
    """The authorizers of a server. An entry is allowed if all of them allow it.

    Args:
        list_all: Whether lists contain entries for which a principal only lacks scopes.
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
        """Refuse access instead of calling the authorizers of a failed plugin, until it runs again or is disabled."""
        others = [each for each in self.functions if each[1] is not owner]
        if len(others) < len(self.functions):
            # Without the authorizer, the failure of a plugin would allow access.
            self.functions = [*others, (_refuse, owner)]

    def trust(self, owner: Owner) -> None:
        """Use the plugin's authorizers again, because it runs again."""
        self.functions = [each for each in self.functions if each != (_refuse, owner)]

    def allow(self, component: Component, principal: Principal | None) -> bool:
        return all(
            self._call_authorizer(function, owner, component, principal)
            for function, owner in self.functions
            # Before the plugin's lifespan has yielded, its function may lack the state that it needs.
            if function is _refuse or not owner.is_hidden
        )

    @staticmethod
    def _call_authorizer(function: Authorizer, owner: Owner, component: Component, principal: Principal | None) -> bool:
        outcome = run_guarded_sync(function, component, principal)
        if isinstance(outcome, Failure):
            _log.error("the authorizer of %s failed", owner.plugin or "the server", exc_info=outcome.error)
            return False
        # `is True`, because an authorizer that is async by mistake returns a coroutine, which is truthy.
        return outcome.value is True


def has_scopes(component: Component, principal: Principal | None) -> bool:
    """Return whether the token has the required scopes. An anonymous request needs none."""
    return principal is None or component.scopes <= principal.scopes


def _refuse(component: Component, principal: Principal | None) -> bool:
    return False
