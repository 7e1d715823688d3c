"""Reports the progress of a call: the elapsed seconds, or git's phases if it contacts a remote.

``process`` calls it as its listener. The reported value increases over all git processes of a call.

Source: git's progress.c: lines such as ``remote: Counting objects:  45% (450/1000), 1.2 MiB | 3 MiB/s``, each of which
replaces the previous one.
"""

from __future__ import annotations

import re

import trio
from attrs import define, field

from mcptrio import Context

from .text import redact_urls, text_of, truncate

__all__ = ["GitProgress"]

_LINE = rb"(?:remote: )?([A-Z][a-z ]+): +(\d+)% .*"
_MAX_MESSAGE_CHARS = 200
"""Maximum length of a message, and of an incomplete line in bytes."""


@define(eq=False, repr=False)
class GitProgress:
    """The progress of one call."""

    ctx: Context
    what: str
    uses_network: bool
    """True if git contacts a remote and reports its own progress."""
    _began: float = field(factory=trio.current_time, init=False)
    _phases: list[bytes] = field(factory=list, init=False)
    _unfinished_line: bytes = field(default=b"", init=False)

    async def tick(self) -> None:
        """Report the elapsed time. Called once a second."""
        if not self.uses_network:
            seconds = trio.current_time() - self._began
            await self.ctx.report_progress(seconds, message=f"{self.what}: {seconds:.0f} s")

    async def on_stderr(self, message: bytes) -> None:
        """Handle a piece of git's standard error."""
        if not self.uses_network:
            return
        *lines, self._unfinished_line = re.split(rb"[\r\n]", self._unfinished_line + message)
        self._unfinished_line = self._unfinished_line[-_MAX_MESSAGE_CHARS:]
        for line in lines:
            match = re.match(_LINE, line)
            if match is None:
                continue
            if match[1] not in self._phases:
                self._phases.append(match[1])
            # Each phase counts 100. Phases overlap; report_progress drops values that do not increase.
            value = 100 * self._phases.index(match[1]) + min(int(match[2]), 100)
            await self.ctx.report_progress(value, message=truncate(redact_urls(text_of(match[0])), _MAX_MESSAGE_CHARS))
