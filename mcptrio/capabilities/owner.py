"""The owner of an entry: a plugin, or the server itself.

Every entry of a registry, route, middleware and authorizer has an owner. A plugin is one
(:class:`mcptrio.plugins.plugin.Plugin`). The entries that a program adds belong to the server.
"""

from __future__ import annotations

from typing import Any

from attrs import Factory, define, field

from mcptrio.capabilities.call_limits import CallLimits
from mcptrio.capabilities.registrar import Registrar

__all__ = ["Owner"]


@define(eq=False, slots=True, kw_only=True)
class Owner:
    """A plugin, or the server itself, to which entries belong.

    Args:
        name: The plugin's name; empty for the server itself.
        limits: The operator's limits on the owner's calls.
        yielded: The value that the plugin's lifespan yielded.
        is_hidden: Whether clients must not see the entries yet, because the plugin's lifespan has not yielded.
        is_withdrawn: Whether the plugin has been stopped, so that further entries are refused.
    """

    name: str = ""
    registrar: Registrar = field(init=False)
    """The value of ``ctx.server`` in the owner's handlers. Entries that it adds belong to the owner."""
    limits: CallLimits | None = None
    yielded: Any = None
    is_hidden: bool = False
    is_withdrawn: bool = False
    plugin: str | None = field(init=False, default=Factory(lambda self: self.name or None, takes_self=True))
    """The name of the plugin; ``None`` for the server itself."""

    def tool_name(self, name: str) -> str:
        """Return the name under which clients see a tool of the owner."""
        return self.registrar.tool_name(name)
