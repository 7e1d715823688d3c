"""Watches subscribed files by polling.

The plugin's lifespan runs it; without subscribers, nothing runs. inotify(7) is not in the standard library, and polling
also works on network file systems. A change is a new size, modification time, inode or mode, or that the file appears
or disappears. Two writes within one interval are one change, as the protocol allows.
"""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable, Iterable, Mapping
from math import inf

import trio
from msgspec import Struct

__all__ = ["FileSubscriptions", "FileWatcher", "Fingerprint"]

logger = logging.getLogger(__name__)

Fingerprint = tuple[int, ...] | None
"""Distinguishes the states of a file; ``None`` if there is no visible file."""


class FileSubscriptions(Struct, frozen=True):
    """The server's subscriptions."""

    watched: Callable[[], frozenset[str]]
    """Returns all subscribed URIs, of this plugin and of others."""

    changed: Callable[[], Awaitable[object]]
    """Waits until that set is another."""

    notify: Callable[[str], object]
    """Tells the subscribers of a URI."""


class FileWatcher(Struct, kw_only=True, frozen=True):
    """Looks at the subscribed files and tells of changes."""

    subscriptions: FileSubscriptions
    read_fingerprints: Callable[[Iterable[str]], Awaitable[Mapping[str, Fingerprint]]]
    """The fingerprints of some URIs. A URI that is left out is unknown for now, such as one on a mount that hangs."""

    interval: float
    limit: int
    """Maximum number of watched URIs, in sorted order; further ones are not watched, and the log says so."""

    async def run(self) -> None:
        """Watch until cancelled."""
        known: dict[str, Fingerprint] = {}
        warned = 0
        while True:
            watched = self.subscriptions.watched()
            wanted = sorted(uri for uri in watched if uri.startswith("file:"))
            beyond = len(wanted) - self.limit
            if beyond > warned:
                logger.warning("%d subscribed files are not watched: max_watched is %d", beyond, self.limit)
            warned = max(beyond, 0)
            del wanted[self.limit :]
            known = {uri: known[uri] for uri in wanted if uri in known}
            if wanted:
                await self._check(wanted, known)
            # No checkpoint between the question and the wait, so no change of the set is missed; a URI that is new
            # is looked at at once, because what happens after the subscription has to be seen.
            if self.subscriptions.watched() == watched:
                with trio.move_on_after(self.interval if wanted else inf):
                    await self.subscriptions.changed()

    async def _check(self, wanted: list[str], known: dict[str, Fingerprint]) -> None:
        for uri, fingerprint in (await self.read_fingerprints(wanted)).items():
            is_changed = uri in known and known[uri] != fingerprint
            known[uri] = fingerprint
            if is_changed:
                self.subscriptions.notify(uri)
