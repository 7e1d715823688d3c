"""The progress of a call: seconds while git works locally, phases while it talks to a remote.

``process`` calls it, and it reports to the client. The reported value only increases, over all git processes of a call.

Source: git's progress.c: lines such as ``remote: Counting objects:  45% (450/1000), 1.2 MiB | 3 MiB/s``, each of which
replaces the previous one.
"""

from __future__ import annotations

import re

import trio
from attrs import define, field

from mcptrio import Context

from .text import clip, redacted, text_of

__all__ = ["GitProgress"]

_LINE = rb"(?:remote: )?([A-Z][a-z ]+): +(\d+)% .*"
_MAX_MESSAGE_CHARS = 200
"""Characters of a message, and bytes of a line that is not finished."""


@define(eq=False, repr=False)
class GitProgress:
    """The progress of one call."""

    ctx: Context
    what: str
    talks: bool
    """The command contacts a remote, and git reports progress."""
    _began: float = field(factory=trio.current_time, init=False)
    _phases: list[bytes] = field(factory=list, init=False)
    _unfinished: bytes = field(default=b"", init=False)

    async def tick(self) -> None:
        """A second has passed."""
        if not self.talks:
            seconds = trio.current_time() - self._began
            await self.ctx.report_progress(seconds, message=f"{self.what}: {seconds:.0f} s")

    async def on_stderr(self, message: bytes) -> None:
        """Git has written to standard error."""
        if not self.talks:
            return
        *lines, self._unfinished = re.split(rb"[\r\n]", self._unfinished + message)
        self._unfinished = self._unfinished[-_MAX_MESSAGE_CHARS:]
        for line in lines:
            found = re.match(_LINE, line)
            if found is None:
                continue
            if found[1] not in self._phases:
                self._phases.append(found[1])
            # A phase counts 100. Phases overlap, and values that do not increase are not sent.
            value = 100 * self._phases.index(found[1]) + min(int(found[2]), 100)
            await self.ctx.report_progress(value, message=clip(redacted(text_of(found[0])), _MAX_MESSAGE_CHARS))
