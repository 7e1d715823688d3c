"""Makes the lock of a server's current plugins, and finds its differences from an older lock."""

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
    def is_of_version(self) -> bool:
        """Whether only the version has changed."""
        return self.kind is None and self.what.startswith("version ")


def lock_of(catalog: Catalog, plugins: Mapping[str, Plugin]) -> ToolLock:
    """Return the lock of a server's plugins. Plugins of mcptrio itself without entries are left out."""
    found = {
        name: _locked(plugin, catalog)
        for name, plugin in sorted(plugins.items())
        if plugin.state in ("loaded", "running")
    }
    return ToolLock(
        # Middleware of mcptrio without entries would only fill the file.
        plugins={name: each for name, each in found.items() if each.distribution or any(each.offers.values())}
    )


def changes_since(
    lock: ToolLock, catalog: Catalog, plugins: Mapping[str, Plugin], *, ignored: Collection[str] = ()
) -> Iterator[LockChange]:
    """Iterate over the differences between a server and a lock, except for withheld tools and disabled plugins.

    Args:
        ignored: Plugins that the command's options leave out.
    """
    now = lock_of(catalog, plugins)
    for name in sorted({*lock.plugins, *now.plugins} - {*ignored}):
        plugin = plugins.get(name)
        was, is_ = lock.plugins.get(name), now.plugins.get(name)
        if is_ is None:
            if plugin is None:
                yield LockChange(plugin=name, kind=None, name=None, what="is not installed any more")
            elif plugin.state == "quarantined":
                yield LockChange(plugin=name, kind=None, name=None, what=f"failed, and is left out: {plugin.failure}")
            continue
        if was is None:
            yield LockChange(plugin=name, kind=None, name=None, what="is new, and not in the lock file")
            continue
        if was.version != is_.version:
            change = f"version {was.version or '-'} has become {is_.version or '-'}"
            yield LockChange(plugin=name, kind=None, name=None, what=change)
        if plugin is not None and plugin.isolated:
            continue  # Its entries are known only when it is open, and are compared then.
        # A withheld tool is not offered, so its difference does not reach a client.
        withheld = plugin.withheld if plugin is not None else {}
        for kind in KINDS:
            yield from _changes(name, kind, was.of(kind), is_.of(kind), withheld if kind == "tools" else {})


def _changes(
    plugin: str,
    kind: Kind,
    was: Mapping[str, Fingerprint],
    is_: Mapping[str, Fingerprint],
    withheld: Collection[str],
) -> Iterator[LockChange]:
    for name in sorted({*was, *is_} - {*withheld}):
        if name not in is_:
            yield LockChange(plugin=plugin, kind=kind, name=name, what="removed")
        elif name not in was:
            yield LockChange(plugin=plugin, kind=kind, name=name, what="added")
        elif different := was[name].differences(is_[name]):
            yield LockChange(plugin=plugin, kind=kind, name=name, what=f"{in_words(different)} changed")


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
