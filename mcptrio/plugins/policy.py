"""The operator's policy for plugins: which tools are offered, and with which timeouts and limits.

Read from the table of each plugin and from ``[tools]``; :mod:`mcptrio.plugins.contributions` applies it. A policy only
restricts, and the reason for a withheld tool can be shown.
"""

from __future__ import annotations

from fnmatch import fnmatchcase
from typing import TYPE_CHECKING, Literal

from attrs import field, fields, frozen
from attrs.validators import in_

from mcptrio.ground.expected import integer, number, optional

if TYPE_CHECKING:
    from mcptrio.plugins.lock import ToolLock
    from mcptrio.protocol.model.tools import Tool

__all__ = ["RESERVED", "LockedToolPolicy", "PluginPolicy", "ToolPolicy"]


@frozen(kw_only=True)
class ToolPolicy:
    """Which tools are offered: the table ``[tools]``, and ``[plugins.NAME.tools]`` for one plugin.

    Args:
        read_only: Whether to offer only tools that are marked read-only.
        include: Globs (``git_*``) of names; ``None`` for all.
        exclude: Globs of names; takes precedence over ``include``.
    """

    read_only: bool = False
    include: tuple[str, ...] | None = None
    exclude: tuple[str, ...] = ()

    def lock_refusal(self, plugin: str, tool: Tool) -> str | None:
        """Return the difference from the lock file that withholds a tool; ``None`` if the tool is offered.

        This policy has no lock file, so it withholds none.
        """
        return None

    def withholds(self, *names: str, read_only: bool | None) -> str | None:
        """Return the reason why a tool is withheld; ``None`` if it is offered.

        Args:
            names: The names of the tool; a glob may match any of them.
            read_only: The tool's hint that it only reads.
        """
        if self.read_only and read_only is not True:
            return "it is not marked read-only"
        # A glob may match the name with or without its prefix.
        if self.include is not None and not _matches_any(self.include, names):
            return "it is not included"
        return "it is excluded" if _matches_any(self.exclude, names) else None


@frozen(kw_only=True)
class LockedToolPolicy(ToolPolicy):
    """A tool policy that also withholds the tools that differ from the lock file.

    Args:
        lock: The contents of the lock file.
    """

    lock: ToolLock

    def lock_refusal(self, plugin: str, tool: Tool) -> str | None:
        return self.lock.refuses(plugin, tool)


@frozen(kw_only=True)
class PluginPolicy:
    """The operator's limits for one plugin, in its table next to the plugin's own settings.

    Args:
        timeout: Seconds for one call.
        concurrency: Calls at the same time; further calls wait.
        rate: Calls a second on average. As many calls, and at least one, may arrive at once; further calls are refused.
        task: Whether calls of its tools may become tasks; ``None`` leaves that to the author. A tool whose calls are
            always tasks stays so under ``optional``, and is not offered under ``never``.
        tools: The tools to offer; globs match names with or without their prefix.
        prefix: The prefix of its tools' names, before an underscore; empty for none.
        isolate: Whether to run it in its own process.
        max_memory_mb: MiB of memory that this process may allocate; ``None`` for no limit. Needs ``isolate``. Linux.
    """

    timeout: float | None = field(default=None, validator=optional(number(above=0)))
    concurrency: int | None = field(default=None, validator=optional(integer(1)))
    rate: float | None = field(default=None, validator=optional(number(above=0)))
    task: Literal["never", "optional"] | None = field(default=None, validator=optional(in_(("never", "optional"))))
    tools: ToolPolicy = field(factory=ToolPolicy)
    prefix: str | None = None
    isolate: bool = False
    max_memory_mb: int | None = field(default=None, validator=optional(integer(64)))

    def __attrs_post_init__(self) -> None:
        if self.max_memory_mb is not None and not self.isolate:
            raise ValueError(
                "max_memory_mb: expected isolate = true too, because it limits a process; got isolate = false"
            )


# The settings class of a plugin may not have these names, because the plugin would never get such a setting.
RESERVED: tuple[str, ...] = tuple(each.name for each in fields(PluginPolicy))
"""Keys of a plugin's table that are settings of the server."""


def _matches_any(globs: tuple[str, ...], names: tuple[str, ...]) -> bool:
    return any(fnmatchcase(name, glob) for glob in globs for name in names)
