"""What plugins offered when somebody looked, as fingerprints; and what of that is different now.

Made by ``mcptrio lock``, kept in a file by :mod:`mcptrio.cli.lock_file`, asked by the policy when a tool is
offered. A description is an instruction to a model: one that changes with an upgrade is read by nobody otherwise.
The one rule: the same definition has the same fingerprint on every machine, with every Python and in every revision.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Collection, Iterator, Mapping
from typing import TYPE_CHECKING, Any, Literal, TypeAlias

from attrs import field, frozen

from mcptrio.plugins.plugin import Plugin

if TYPE_CHECKING:
    from mcptrio.capabilities.catalog import Catalog
    from mcptrio.protocol.model.prompts import Prompt
    from mcptrio.protocol.model.resources import ResourceTemplate
    from mcptrio.protocol.model.tools import Tool

__all__ = ["KINDS", "Change", "Fingerprint", "Kind", "LockedPlugin", "ToolLock", "fingerprint"]

Kind: TypeAlias = Literal["tools", "prompts", "templates"]
KINDS: tuple[Kind, ...] = ("tools", "prompts", "templates")
"""What is locked of a plugin, in this order."""

_SINGULAR: Mapping[Kind, str] = {"tools": "tool", "prompts": "prompt", "templates": "resource template"}
_PART = 16
"""Hexadecimal digits that tell one part from another; what counts is the whole."""


@frozen(kw_only=True)
class Fingerprint:
    """
    Args:
        sha256: of everything.
        parts: name to what stands for it, for telling which of them has changed.
        hints: as words.
    """

    sha256: str
    parts: Mapping[str, str] = field(factory=dict)
    hints: tuple[str, ...] = ()

    def differences(self, other: Fingerprint) -> list[str]:
        """What is not the same; empty where everything is."""
        if self.sha256 == other.sha256:
            return []
        found = [name for name in {**self.parts, **other.parts} if self.parts.get(name) != other.parts.get(name)]
        if self.hints != other.hints:
            found.append("hints")
        return found or ["fingerprint"]


def fingerprint(offered: Tool | Prompt | ResourceTemplate) -> Fingerprint:
    """Of a tool, a prompt or a resource template."""
    given: Any = offered
    described = {"title": given.title, "description": given.description}
    hints: tuple[str, ...] = ()
    whole: dict[str, Any] = {"name": given.name, "description": described}
    if hasattr(given, "input_schema"):
        whole |= {"input schema": given.input_schema, "output schema": given.output_schema}
        hints = tuple(_hints(given.annotations))
    elif hasattr(given, "uri_template"):
        whole["template"] = [given.uri_template, given.mime_type]
    else:
        whole["arguments"] = [[each.name, each.description, bool(each.required)] for each in given.arguments or ()]
    parts = {name: _digest(value)[:_PART] for name, value in whole.items() if name != "name" and value is not None}
    return Fingerprint(sha256=_digest([whole, hints]), parts=parts, hints=hints)


@frozen(kw_only=True)
class LockedPlugin:
    """A plugin as it was: its version, and by kind and name what it offered."""

    version: str | None = None
    distribution: str | None = None
    offers: Mapping[Kind, Mapping[str, Fingerprint]] = field(factory=dict)

    def of(self, kind: Kind) -> Mapping[str, Fingerprint]:
        return self.offers.get(kind, {})


@frozen(kw_only=True)
class Change:
    """One thing that is not as it was locked.

    Args:
        what: ``version``, ``added``, ``removed``, or the parts that differ.
    """

    plugin: str
    kind: Kind | None
    name: str | None
    what: str

    def __str__(self) -> str:
        if self.kind is None:
            return f"{self.plugin}: {self.what}"
        return f"{self.plugin}: {_SINGULAR[self.kind]} {self.name}: {self.what}"

    @property
    def is_of_version(self) -> bool:
        """Whether only the number has changed."""
        return self.kind is None and self.what.startswith("version ")


@frozen(kw_only=True)
class ToolLock:
    """
    Args:
        plugins: by name.
    """

    plugins: Mapping[str, LockedPlugin] = field(factory=dict)

    @classmethod
    def of(cls, catalog: Catalog, plugins: Mapping[str, Plugin]) -> ToolLock:
        """What the plugins of a server offer now. Those that came with mcptrio and offer nothing are not named."""
        found = {
            name: _locked(plugin, catalog)
            for name, plugin in sorted(plugins.items())
            if plugin.state in ("loaded", "running")
        }
        return cls(
            plugins={name: each for name, each in found.items() if each.distribution or any(each.offers.values())}
        )

    def refuses(self, plugin: str, tool: Tool) -> str | None:
        """Why a tool is not as it was locked; ``None`` where it is."""
        locked = self.plugins.get(plugin, LockedPlugin()).of("tools").get(tool.name)
        if locked is None:
            return "it is not in the lock file"
        different = locked.differences(fingerprint(tool))
        return f"its {_words(different)} {'is' if len(different) == 1 else 'are'} not as locked" if different else None

    def changes(
        self, catalog: Catalog, plugins: Mapping[str, Plugin], *, ignored: Collection[str] = ()
    ) -> Iterator[Change]:
        """What is different in a server. What policies withhold is left out, and so are plugins that are disabled.

        Args:
            ignored: plugins that were not asked for.
        """
        now = ToolLock.of(catalog, plugins)
        for name in sorted({*self.plugins, *now.plugins} - {*ignored}):
            plugin = plugins.get(name)
            was, is_ = self.plugins.get(name), now.plugins.get(name)
            if is_ is None:
                if plugin is None:
                    yield Change(plugin=name, kind=None, name=None, what="is not installed any more")
                elif plugin.state == "quarantined":
                    yield Change(plugin=name, kind=None, name=None, what=f"failed, and is left out: {plugin.fault}")
                continue
            if was is None:
                yield Change(plugin=name, kind=None, name=None, what="is new, and not in the lock file")
                continue
            if was.version != is_.version:
                told = f"version {was.version or '-'} has become {is_.version or '-'}"
                yield Change(plugin=name, kind=None, name=None, what=told)
            if plugin is not None and plugin.isolated:
                continue  # it shows what it has when it is opened, and is looked at then
            withheld = plugin.withheld if plugin is not None else {}
            for kind in KINDS:
                yield from _changes(name, kind, was.of(kind), is_.of(kind), withheld if kind == "tools" else {})


def _changes(
    plugin: str,
    kind: Kind,
    was: Mapping[str, Fingerprint],
    is_: Mapping[str, Fingerprint],
    withheld: Collection[str],
) -> Iterator[Change]:
    for name in sorted({*was, *is_} - {*withheld}):
        if name not in is_:
            yield Change(plugin=plugin, kind=kind, name=name, what="removed")
        elif name not in was:
            yield Change(plugin=plugin, kind=kind, name=name, what="added")
        elif different := was[name].differences(is_[name]):
            yield Change(plugin=plugin, kind=kind, name=name, what=f"{_words(different)} changed")


def _locked(plugin: Plugin, catalog: Catalog) -> LockedPlugin:
    offered: dict[Kind, dict[str, Any]] = {
        "tools": {each.key: each.tool for each in catalog.registries["tools"] if each.owner is plugin},
        "prompts": {each.key: each.prompt for each in catalog.registries["prompts"] if each.owner is plugin},
        "templates": {each.key: each.listed for each in catalog.registries["templates"] if each.owner is plugin},
    }
    return LockedPlugin(
        version=plugin.version,
        distribution=plugin.distribution,
        offers={
            kind: {name: fingerprint(each) for name, each in sorted(named.items())} for kind, named in offered.items()
        },
    )


def _hints(annotations: Any) -> Iterator[str]:
    if annotations is None:
        return
    for hint in ("destructive", "idempotent", "open_world", "read_only"):
        value = getattr(annotations, f"{hint}_hint")
        if value is not None:
            yield f"{hint}={str(value).lower()}"


def _digest(value: Any) -> str:
    return hashlib.sha256(json.dumps(value, sort_keys=True, separators=(",", ":")).encode()).hexdigest()


def _words(names: list[str]) -> str:
    return ", ".join(names[:-1]) + " and " + names[-1] if len(names) > 1 else names[0]
