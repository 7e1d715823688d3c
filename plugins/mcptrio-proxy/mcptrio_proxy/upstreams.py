"""The servers behind the proxy, made from what the operator has set.

Used when the plugin is registered. The one rule: one server whose entry is wrong takes no other along: it is listed,
with what is wrong.
"""

from __future__ import annotations

import logging
from collections.abc import Iterator
from pathlib import Path
from typing import Any

from attrs import field, frozen

from mcptrio import ConfigError, Mount, MountOptions, ToolPolicy, load_mcp_json

from .config import Config, Settings

__all__ = ["Upstream", "upstreams_of"]

_log = logging.getLogger("mcptrio_proxy")


@frozen(kw_only=True)
class Upstream:
    """One server.

    Args:
        name: as the operator calls it.
        entry: how it is reached, as the operator wrote it. May hold secrets.
        settings: the operator's settings for it.
        mount: offers what it has; ``None`` where its entry is wrong.
        fault: what is wrong with the entry.
    """

    name: str
    entry: Any = field(repr=False)
    settings: Settings
    mount: Mount | None = None
    fault: str | None = None

    def is_same(self, other: Upstream) -> bool:
        """Whether nothing that was set for it differs."""
        return (self.entry, self.settings, self.fault) == (other.entry, other.settings, other.fault)


def upstreams_of(config: Config) -> list[Upstream]:
    """All of them, those of the table before those of files.

    Raises:
        ConfigError: a file cannot be read, two servers have one name, or a setting is for none that there is.
    """
    found: dict[str, Upstream] = {}
    for name, target, fault in _targets(config):
        if name in found:
            raise ConfigError(f"expected one server {name!r}, got two")
        found[name] = _upstream(name, target, fault, config.upstreams.get(name, config.defaults))
    unknown = sorted(config.upstreams.keys() - found.keys())
    if unknown:
        raise ConfigError(f"upstreams: expected names of servers ({', '.join(found) or 'none'}), got {unknown[0]}")
    return list(found.values())


def _targets(config: Config) -> Iterator[tuple[str, Any, str | None]]:
    for name, entry in config.servers.items():
        if entry.get("disabled") is not True:
            yield name, entry, None
    for path in config.files:
        yield from _of_file(path)


def _of_file(path: Path) -> Iterator[tuple[str, Any, str | None]]:
    file = load_mcp_json(path)
    for name in file.names:
        try:
            yield name, file.read(name), None
        except ConfigError as error:
            yield name, None, str(error)


def _upstream(name: str, target: Any, fault: str | None, settings: Settings) -> Upstream:
    options = MountOptions(
        prefix=settings.prefix,
        tools=ToolPolicy(include=settings.include, exclude=settings.exclude),
        timeout=settings.timeout,
        lazy=settings.lazy,
        idle_timeout=settings.idle_timeout,
        ready_timeout=settings.ready_timeout,
        # All of them are waited for together.
        start_timeout=0,
    )
    if fault is None:
        try:
            mount = Mount(target, name=name, options=options)
            return Upstream(name=name, entry=target, settings=settings, mount=mount)
        except ConfigError as error:
            fault = str(error)
    _log.error("the server %s is left out: %s", name, fault)
    return Upstream(name=name, entry=target, settings=settings, fault=fault)
