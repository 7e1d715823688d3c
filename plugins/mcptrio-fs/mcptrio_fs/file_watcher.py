"""Watches subscribed files by polling.

The plugin runs it in the background; without subscribers, it does not poll. inotify(7) is not in the standard library,
and polling also works on network file systems. A file has changed if its size, modification time, inode or mode is
different, or if it appears or disappears. Two writes within one interval are one change, as the protocol allows.
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
"""A value that changes when the file changes; ``None`` if the file does not exist or may not be accessed."""


class FileSubscriptions(Struct, frozen=True):
    """The server's subscriptions."""

    watched: Callable[[], frozenset[str]]
    """Returns all subscribed URIs, of this plugin and of others."""

    changed: Callable[[], Awaitable[object]]
    """Waits until the set of subscribed URIs changes."""

    notify: Callable[[str], object]
    """Notifies the subscribers of a URI."""


class FileWatcher(Struct, kw_only=True, frozen=True):
    """Polls the subscribed files and notifies their subscribers of changes."""

    subscriptions: FileSubscriptions
    read_fingerprints: Callable[[Iterable[str]], Awaitable[Mapping[str, Fingerprint]]]
    """Returns the fingerprints of URIs. A URI whose state is unknown, such as one on a hanging mount, is left out."""

    interval: float
    limit: int
    """Maximum number of watched URIs, the first ones in sorted order. A warning is logged if there are more."""

    async def run(self) -> None:
        """Watch until cancelled."""
        fingerprints: dict[str, Fingerprint] = {}
        warned = 0
        while True:
            watched = self.subscriptions.watched()
            uris = sorted(uri for uri in watched if uri.startswith("file:"))
            beyond = len(uris) - self.limit
            if beyond > warned:
                logger.warning("%d subscribed files are not watched: max_watched is %d", beyond, self.limit)
            warned = max(beyond, 0)
            del uris[self.limit :]
            fingerprints = {uri: fingerprints[uri] for uri in uris if uri in fingerprints}
            if uris:
                await self._check(uris, fingerprints)
            # If the set has changed during the check, the loop repeats at once: a change right after a subscription
            # must be noticed. There is no checkpoint between this comparison and the wait, so no change is missed.
            if self.subscriptions.watched() == watched:
                with trio.move_on_after(self.interval if uris else inf):
                    await self.subscriptions.changed()

    async def _check(self, uris: list[str], fingerprints: dict[str, Fingerprint]) -> None:
        for uri, fingerprint in (await self.read_fingerprints(uris)).items():
            is_changed = uri in fingerprints and fingerprints[uri] != fingerprint
            fingerprints[uri] = fingerprint
            if is_changed:
                self.subscriptions.notify(uri)
