"""What the operator may set: ``[plugins.proxy]`` in mcptrio.toml.

Made by the loader when the plugin is registered, or by an embedder. The one rule: a server is written as hosts write it
in ``mcpServers``; what is only ours stands beside it, in a table of its own.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

from attrs import field, frozen
from attrs.validators import ge, gt, le, optional

__all__ = ["Config", "Settings"]


@frozen(kw_only=True)
class Settings:
    """What is set for one server."""

    prefix: str | None = None
    """What the names of its tools and prompts begin with; by default its name, empty for nothing."""

    include: tuple[str, ...] | None = None
    """Globs (``read_*``) of the tools to offer, by their own names; unset: all."""

    exclude: tuple[str, ...] = ()
    """Globs of those not to; wins over ``include``."""

    timeout: float | None = field(default=None, validator=optional(gt(0)))
    """Seconds for one call, whatever is reported; unset: what the server allows that this plugin is in."""

    lazy: bool = False
    """Whether it is ended as soon as it has said what it has, and started again by the first call."""

    idle_timeout: float | None = field(default=None, validator=optional(ge(1)))
    """Seconds without a call, 1 at least, after which it is ended until the next one; unset: it is kept."""

    ready_timeout: float = field(default=10.0, validator=[gt(0), le(600)])
    """Seconds, up to 600, that a call waits for it where it is away or being started."""


@frozen(kw_only=True)
class Config:
    """The settings of the plugin."""

    servers: Mapping[str, Mapping[str, Any]] = field(factory=dict, repr=False)
    """By name, each as in ``mcpServers``: command, args, env, cwd; or url, headers. Their values may be secrets."""

    files: tuple[Path, ...] = ()
    """Files of hosts (``mcp.json``) whose servers there are as well, but for those that are disabled."""

    upstreams: Mapping[str, Settings] = field(factory=dict)
    """By the name of a server: what is set for it."""

    defaults: Settings = field(factory=Settings)
    """What is set for servers that ``upstreams`` does not name; a prefix here holds for all of these."""

    start_timeout: float = field(default=5.0, validator=[ge(0), le(300)])
    """Seconds, up to 300, that the start waits for all servers; one that is slower comes later."""
