"""Notifies subscribers of changes by this process at once, and of changes by other processes within a second.

The plugin runs it in the background; without subscribers to URIs of this plugin, it does not poll. It finds changes by
other processes in the revisions of graphs and entities. Two changes within one interval cause one notification, as the
protocol allows. A subscriber may be notified twice of the same change.
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
"""Revisions by URI; ``None`` if the graph or entity does not exist."""


@frozen(kw_only=True, eq=False)
class GraphSubscriptions:
    """The server's subscriptions."""

    watched: Callable[[], frozenset[str]]
    """Returns all subscribed URIs, of this plugin and of others."""

    changed: Callable[[], Awaitable[object]]
    """Waits until the set of subscribed URIs changes."""

    notify: Callable[..., object]
    """Notifies the subscribers of a URI; with ``caller=``, only that caller."""


@define(eq=False, kw_only=True)
class GraphWatcher:
    """Notifies subscribers of changes."""

    subscriptions: GraphSubscriptions
    namespace: str
    """The namespace of URIs without one."""
    read: Callable[[Work[Revisions]], Awaitable[Revisions]]
    """Runs a function on the database in a thread."""
    interval: float
    _known_revisions: Revisions = field(init=False, factory=dict)

    def notify(self, change: GraphChange[Any]) -> None:
        """Notify the subscribers of a change that this process has made."""
        if change.revision is None:
            return
        for uri, target in self._targets().items():
            if target.namespace != change.namespace:
                continue
            if target.name is None or target.name in change.entity_revisions:
                self._known_revisions[uri] = (
                    change.revision if target.name is None else change.entity_revisions[target.name]
                )
                self.subscriptions.notify(uri)

    def notify_caller_graph(self, change: GraphChange[Any]) -> None:
        """Notify the owner of a private graph of a change that this process has made.

        The name of a private graph is the caller key of its owner.
        """
        if change.revision is None:
            return
        for uri, target in self._targets().items():
            if target.namespace == self.namespace and (target.name is None or target.name in change.entity_revisions):
                self.subscriptions.notify(uri, caller=change.namespace)

    async def run(self) -> None:
        """Watch until cancelled."""
        while True:
            watched = self.subscriptions.watched()
            targets = self._targets()
            for uri in [uri for uri in self._known_revisions if uri not in targets]:
                del self._known_revisions[uri]
            if targets:
                await self._check(targets)
            # If the set has changed during the check, the loop repeats at once: a change right after a subscription
            # must be noticed. There is no checkpoint between this comparison and the wait, so no change is missed.
            if self.subscriptions.watched() == watched:
                with trio.move_on_after(self.interval if targets else inf):
                    await self.subscriptions.changed()

    async def _check(self, targets: Mapping[str, Target]) -> None:
        before = dict(self._known_revisions)
        for uri, revision in (await self.read(partial(_read_revisions, targets))).items():
            if uri in before and self._known_revisions.get(uri) == before[uri] != revision:
                self.subscriptions.notify(uri)
            if uri not in before or self._known_revisions.get(uri) == before[uri]:
                # Otherwise notify() has stored a newer revision while this check was reading.
                self._known_revisions[uri] = revision

    def _targets(self) -> dict[str, Target]:
        targets: dict[str, Target] = {}
        for uri in self.subscriptions.watched():
            target = target_of(uri, self.namespace) if uri.startswith(SCHEME) else None
            if target is not None:
                targets[uri] = target
        return targets


def _read_revisions(targets: Mapping[str, Target], statements: Statements) -> Revisions:
    revisions: Revisions = {}
    for uri, target in targets.items():
        if target.name is None:
            revisions[uri] = statements.fetch_value(
                "SELECT revision FROM namespaces WHERE name = ?", (target.namespace,)
            )
        else:
            revisions[uri] = statements.fetch_value(
                "SELECT revision FROM entities WHERE name = ? AND namespace ="
                " (SELECT id FROM namespaces WHERE name = ?)",
                (target.name, target.namespace),
            )
    return revisions
