"""The distributions, tools and settings of the plugins to publish, from a server that has loaded them.

``mcptrio package`` uses it. The result is the same on every machine.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from importlib.metadata import Distribution, distribution
from pathlib import Path
from typing import Any

from attrs import field, frozen

from mcptrio.capabilities.tool_entries import ToolEntry
from mcptrio.cli.package.settings import Setting, settings_of
from mcptrio.errors import ConfigError, PluginError
from mcptrio.server import Server

__all__ = ["PublishedPlugin", "describe", "drop_none"]


@frozen(kw_only=True)
class PublishedPlugin:
    """A plugin to publish.

    Args:
        name: The name of the plugin.
        distribution: The distribution to install; ``None`` for a file.
        file: The file, if the plugin is one.
        tools: The descriptions of the tools, by name.
    """

    name: str
    distribution: Distribution | None = None
    file: Path | None = None
    tools: Mapping[str, str] = field(factory=dict)
    settings: Sequence[Setting] = ()

    @property
    def requirement(self) -> str | None:
        """The requirement that makes pip and uv install exactly this version."""
        return None if self.distribution is None else f"{self.distribution.name}=={self.distribution.version}"


def describe(server: Server, files: Sequence[Path], selected: Sequence[str] = ()) -> list[PublishedPlugin]:
    """Return the loaded plugins of a server, sorted by name.

    Args:
        files: The files of plugins that were loaded from files.
        selected: The settings to include, as ``plugin.field``; empty for all.
    """
    by_stem = {file.stem: file for file in files}
    published: list[PublishedPlugin] = []
    known: list[str] = []
    # Sorted, because the result must not depend on the order of discovery.
    for name, plugin in sorted(server.plugins.plugins.items()):
        if plugin.state == "disabled":
            continue
        # A plugin that failed to import cannot be described.
        if plugin.object is None:
            raise PluginError(plugin.failure or "is not loaded", plugin=name, distribution=plugin.distribution)
        if plugin.distribution is None and name not in by_stem:
            raise ConfigError(f"--plugin: expected a plugin that is installed or a file, got {name}")
        cls = plugin.config_class
        settings = list(settings_of(name, cls)) if cls is not None else []
        published.append(
            PublishedPlugin(
                name=name,
                distribution=distribution(plugin.distribution) if plugin.distribution is not None else None,
                file=by_stem.get(name) if plugin.distribution is None else None,
                tools={each.key: _summary(each) for each in server.catalog.tools.registry if each.owner.name == name},
                settings=tuple(each for each in settings if not selected or f"{name}.{each.field}" in selected),
            )
        )
        known += [f"{name}.{each.field}" for each in settings]
    if not published:
        raise ConfigError("--plugin: expected a plugin to publish, got none")
    for each in selected:
        if each not in known:
            raise ConfigError(f"--setting: expected one of {', '.join(known) or 'none'}, got {each}")
    return published


def drop_none(data: Mapping[str, Any]) -> dict[str, Any]:
    """Return a JSON object without the members that have no value."""
    return {name: value for name, value in data.items() if value is not None}


def _summary(tool: ToolEntry) -> str:
    return " ".join((tool.tool.description or "").strip().partition("\n\n")[0].split())
