"""Notifies subscribers of changes: of those of this process at once, and of those of others within a second.

The plugin's background hook runs it; without subscribers to our URIs, nothing runs. Changes of other processes are
found by polling the revisions of graphs and entities. Two changes within one interval are one notification, as the
protocol allows, and a subscriber may get one too many.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable, Mapping
from functools import partial
from math import inf
from typing import Any, TypeAlias

import trio
from attrs import define, field, frozen

from .graph import GraphChange
from .statements import Statements, Work
from .uris import SCHEME, Target, target_of

__all__ = ["GraphSubscriptions", "GraphWatcher", "Revisions"]

Revisions: TypeAlias = dict[str, int | None]
"""Revisions by URI; ``None`` if there is nothing."""


@frozen(kw_only=True, eq=False)
class GraphSubscriptions:
    """The server's subscriptions."""

    watched: Callable[[], frozenset[str]]
    """Returns all subscribed URIs, of this plugin and of others."""

    changed: Callable[[], Awaitable[object]]
    """Waits until that set is another."""

    notify: Callable[..., object]
    """Tells the subscribers of a URI; with ``caller=``, this one alone."""


@define(eq=False, kw_only=True)
class GraphWatcher:
    """Notifies subscribers of changes."""

    subscriptions: GraphSubscriptions
    namespace: str
    """The namespace of URIs that name none."""
    read: Callable[[Work[Revisions]], Awaitable[Revisions]]
    """Does something with the file, in a thread."""
    interval: float
    _known: Revisions = field(init=False, factory=dict)

    def notify(self, change: GraphChange[Any]) -> None:
        """Notify the subscribers of a change that this process has made."""
        if change.revision is None:
            return
        for uri, target in self._targets().items():
            if target.namespace != change.namespace:
                continue
            if target.name is None or target.name in change.touched:
                self._known[uri] = change.revision if target.name is None else change.touched[target.name]
                self.subscriptions.notify(uri)

    def notify_caller_graph(self, change: GraphChange[Any]) -> None:
        """Notify only the caller whose name the graph has of a change that this process has made."""
        if change.revision is None:
            return
        for uri, target in self._targets().items():
            if target.namespace == self.namespace and (target.name is None or target.name in change.touched):
                self.subscriptions.notify(uri, caller=change.namespace)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            watched = self.subscriptions.watched()
            targets = self._targets()
            for uri in [uri for uri in self._known if uri not in targets]:
                del self._known[uri]
            if targets:
                await self._check(targets)
            # No checkpoint between the question and the wait, so no change of the set is missed; a URI that is new is
            # looked at at once, because what happens after the subscription has to be seen.
            if self.subscriptions.watched() == watched:
                with trio.move_on_after(self.interval if targets else inf):
                    await self.subscriptions.changed()

    async def _check(self, targets: Mapping[str, Target]) -> None:
        before = dict(self._known)
        for uri, revision in (await self.read(partial(_revisions, targets))).items():
            if uri in before and self._known.get(uri) == before[uri] != revision:
                self.subscriptions.notify(uri)
            if uri not in before or self._known.get(uri) == before[uri]:
                # Otherwise this process has changed it meanwhile, and knows better.
                self._known[uri] = revision

    def _targets(self) -> dict[str, Target]:
        found: dict[str, Target] = {}
        for uri in self.subscriptions.watched():
            target = target_of(uri, self.namespace) if uri.startswith(SCHEME) else None
            if target is not None:
                found[uri] = target
        return found


def _revisions(targets: Mapping[str, Target], statements: Statements) -> Revisions:
    found: Revisions = {}
    for uri, target in targets.items():
        if target.name is None:
            found[uri] = statements.one("SELECT revision FROM namespaces WHERE name = ?", (target.namespace,))
        else:
            found[uri] = statements.one(
                "SELECT revision FROM entities WHERE name = ? AND namespace ="
                " (SELECT id FROM namespaces WHERE name = ?)",
                (target.name, target.namespace),
            )
    return found
