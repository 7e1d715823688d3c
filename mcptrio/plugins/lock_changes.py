"""Makes the lock of a server's current plugins, and finds its differences from an older lock.

``mcptrio lock`` and the servers of the command line use this.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from attrs import frozen

from mcptrio.capabilities.catalog import Catalog
from mcptrio.plugins.lock import KINDS, Fingerprint, Kind, LockedPlugin, ToolLock, fingerprint, in_words
from mcptrio.plugins.plugin import Plugin

__all__ = ["LockChange", "changes_since", "lock_of"]

_SINGULAR: Mapping[Kind, str] = {"tools": "tool", "prompts": "prompt", "templates": "resource template"}


@frozen(kw_only=True)
class LockChange:
    """One difference from a lock.

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
    def is_version_change(self) -> bool:
        """True if the change is a new version of the plugin."""
        return self.kind is None and self.what.startswith("version ")


def lock_of(catalog: Catalog, plugins: Mapping[str, Plugin]) -> ToolLock:
    """Return the lock of a server's plugins.

    Plugins without a distribution and without entries, such as the middleware of mcptrio, are left out.
    """
    entries = {
        name: _lock_entry(plugin, catalog)
        for name, plugin in sorted(plugins.items())
        if plugin.state in ("loaded", "running")
    }
    return ToolLock(
        plugins={name: each for name, each in entries.items() if each.distribution or any(each.offers.values())}
    )


def changes_since(
    lock: ToolLock, catalog: Catalog, plugins: Mapping[str, Plugin], *, ignored: Collection[str] = ()
) -> Iterator[LockChange]:
    """Iterate over the differences between a server and a lock, except for withheld tools and disabled plugins.

    Args:
        ignored: Plugins that the command's options leave out.
    """
    current_lock = lock_of(catalog, plugins)
    for name in sorted({*lock.plugins, *current_lock.plugins} - {*ignored}):
        plugin = plugins.get(name)
        locked, current = lock.plugins.get(name), current_lock.plugins.get(name)
        if current is None:
            if plugin is None:
                yield LockChange(plugin=name, kind=None, name=None, what="is not installed any more")
            elif plugin.state == "quarantined":
                yield LockChange(plugin=name, kind=None, name=None, what=f"failed, and is left out: {plugin.failure}")
            continue
        if locked is None:
            yield LockChange(plugin=name, kind=None, name=None, what="is new, and not in the lock file")
            continue
        if locked.version != current.version:
            change = f"version {locked.version or '-'} has become {current.version or '-'}"
            yield LockChange(plugin=name, kind=None, name=None, what=change)
        if plugin is not None and plugin.isolated:
            continue  # the entries of an isolated plugin are known only while it is open
        # A withheld tool is not offered, so its difference does not reach a client.
        withheld = plugin.withheld if plugin is not None else {}
        for kind in KINDS:
            yield from _changes(name, kind, locked.of(kind), current.of(kind), withheld if kind == "tools" else {})


def _changes(
    plugin: str,
    kind: Kind,
    locked: Mapping[str, Fingerprint],
    current: Mapping[str, Fingerprint],
    withheld: Collection[str],
) -> Iterator[LockChange]:
    for name in sorted({*locked, *current} - {*withheld}):
        if name not in current:
            yield LockChange(plugin=plugin, kind=kind, name=name, what="removed")
        elif name not in locked:
            yield LockChange(plugin=plugin, kind=kind, name=name, what="added")
        elif different := locked[name].differences(current[name]):
            yield LockChange(plugin=plugin, kind=kind, name=name, what=f"{in_words(different)} changed")


def _lock_entry(plugin: Plugin, catalog: Catalog) -> LockedPlugin:
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
