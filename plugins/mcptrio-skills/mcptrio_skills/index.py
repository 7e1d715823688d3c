"""The present catalogue, and its subscribers.

The plugin's object owns it; the methods, the resources and the watcher use it. There is one scan at a time, in a
thread; a caller during a scan waits for the next one, so that its answer is newer than its request.
"""

from __future__ import annotations

import logging
from collections.abc import Callable
from typing import TypeVar

import trio
from attrs import define, field
from trio.from_thread import check_cancelled

from .catalogue import Catalogue
from .config import Config
from .scan import FolderScan

__all__ = ["SkillIndex"]

_log = logging.getLogger("mcptrio_skills")

_THREADS = 4

T = TypeVar("T")


@define
class SkillIndex:
    """The served skills. Empty until the first scan."""

    config: Config
    catalogue: Catalogue = field(init=False, factory=Catalogue)
    changed: Callable[[Catalogue, Catalogue], None] = field(init=False, default=lambda before, after: None)
    """Called with the catalogues before and after each change."""
    _scan_lock: trio.Lock = field(init=False, factory=trio.Lock)
    _scans: int = field(init=False, default=0)
    """The number of reads that have begun."""
    _done: int = field(init=False, default=0)
    """The number of the last read that has ended."""
    _threads: trio.CapacityLimiter = field(init=False, factory=lambda: trio.CapacityLimiter(_THREADS))

    async def refresh(self) -> Catalogue:
        """Read the folders. Concurrent calls share one read."""
        scans_before = self._scans
        async with self._scan_lock:
            if self._done <= scans_before:
                self._scans += 1
                scan = FolderScan(self.config, self.catalogue, check_cancelled)
                # The thread changes nothing here, so one that hangs in a mount can be abandoned.
                after = await self.run(scan.run)
                self._done = self._scans
                self._take(after)
        return self.catalogue

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function in a thread. A cancelled one is abandoned, and ends when the system allows it."""
        return await trio.to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)

    def _take(self, after: Catalogue) -> None:
        before, self.catalogue = self.catalogue, after
        for problem in after.problems:
            if problem not in before.problems:
                _log.warning("not served: %s", problem)
        if (before.skills, before.files) != (after.skills, after.files):
            self.changed(before, after)
