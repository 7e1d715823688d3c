"""The owner of what a server offers: a plugin, or the server itself.

Every entry of a registry, every route, middleware and authorizer has one. A plugin is an owner
(:class:`mcptrio.plugins.plugin.Plugin`); the entries that a program adds belong to the server.
"""

from __future__ import annotations

from typing import Any

from attrs import Factory, define, field

from mcptrio.capabilities.call_limits import CallLimits
from mcptrio.capabilities.registrar import Registrar

__all__ = ["Owner"]


@define(eq=False, slots=True, kw_only=True)
class Owner:
    """The plugin to which registered entries belong, or the server itself.

    Args:
        name: The plugin's name; empty for the server itself.
        limits: The operator's limits on the owner's calls.
        yielded: The value that the plugin's lifespan yielded.
        is_kept_back: The plugin's lifespan has not yielded yet, so clients see nothing of it.
        has_left: The plugin was withdrawn, so nothing more is accepted from it.
    """

    name: str = ""
    registrar: Registrar = field(init=False)
    """The value of ``ctx.server`` in its handlers. An entry added through it belongs to the owner."""
    limits: CallLimits | None = None
    yielded: Any = None
    is_kept_back: bool = False
    has_left: bool = False
    plugin: str | None = field(init=False, default=Factory(lambda self: self.name or None, takes_self=True))
    """The name of the plugin; ``None`` for the server itself."""

    def tool_name(self, name: str) -> str:
        """Return the name under which clients see a tool of the owner."""
        return self.registrar.tool_name(name)
