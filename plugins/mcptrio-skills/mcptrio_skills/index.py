"""The current catalogue, and the scans that replace it.

``Skills`` owns it; the methods, the resources, the tools and the watcher use it. Only one scan runs at a time, in a
thread. A call during a scan waits for the next scan, so its answer is newer than its request.
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
    """The served skills. The catalogue is empty until the first scan."""

    config: Config
    catalogue: Catalogue = field(init=False, factory=Catalogue)
    changed: Callable[[Catalogue, Catalogue], None] = field(init=False, default=lambda before, after: None)
    """Called with the catalogues before and after each change."""
    _scan_lock: trio.Lock = field(init=False, factory=trio.Lock)
    _scans_begun: int = field(init=False, default=0)
    """The number of scans that have begun."""
    _last_done: int = field(init=False, default=0)
    """The number of the last scan that has ended."""
    _threads: trio.CapacityLimiter = field(init=False, factory=lambda: trio.CapacityLimiter(_THREADS))

    async def refresh(self) -> Catalogue:
        """Scan the folders. Concurrent calls share one scan."""
        scans_before = self._scans_begun
        async with self._scan_lock:
            if self._last_done <= scans_before:
                self._scans_begun += 1
                scan = FolderScan(self.config, self.catalogue, check_cancelled)
                # The thread does not change this object, so a thread that hangs in a mount can be abandoned.
                after = await self.run(scan.run)
                self._last_done = self._scans_begun
                self._replace(after)
        return self.catalogue

    async def run(self, work: Callable[[], T]) -> T:
        """Run a function in a thread. On cancellation the thread is abandoned; it ends when its system call returns."""
        return await trio.to_thread.run_sync(work, limiter=self._threads, abandon_on_cancel=True)

    def _replace(self, after: Catalogue) -> None:
        before, self.catalogue = self.catalogue, after
        for problem in after.problems:
            if problem not in before.problems:
                _log.warning("not served: %s", problem)
        if (before.skills, before.files) != (after.skills, after.files):
            self.changed(before, after)
