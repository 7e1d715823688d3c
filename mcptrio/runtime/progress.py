"""Progress reports of one request.

``Context.report_progress`` uses it. Reports must increase, are limited to 20 a second, and the newest replaces a queued
one. They go to the sink of the request, so none is sent after the response.

Source: MCP 2026-07-28, basic/patterns/progress.
"""

from __future__ import annotations

from typing import Protocol

from mcptrio.abc import MessageSink
from mcptrio.abc.tracing import trace_notification
from mcptrio.ground.token_bucket import TokenBucket
from mcptrio.protocol.messages import Notification
from mcptrio.protocol.model.progress import ProgressParams
from mcptrio.protocol.revisions.revision import Revision

__all__ = ["ProgressReporter", "ProgressSink"]

RATE = 20.0
"""Notifications per second: enough for a progress bar."""
BURST = 10.0
"""Notifications that may be sent at once after a pause."""
_METHOD = "notifications/progress"


class ProgressSink(Protocol):
    """Receives the reports of a request."""

    @property
    def latest(self) -> float | None:
        """The newest progress; ``None`` before the first report."""
        ...

    @property
    def total(self) -> float | None: ...

    def report(self, progress: float, total: float | None, message: str | None) -> None: ...

    def flush(self) -> None:
        """Send the pending report; called before the response."""
        ...


class ProgressReporter:
    """Sends progress to the sink of a request. See :class:`ProgressSink`."""

    __slots__ = ("_bucket", "_last", "_pending", "_revision", "_token", "latest", "sink", "total")

    def __init__(self, token: str | int, sink: MessageSink, revision: Revision) -> None:
        self._token = token
        self.sink = sink
        self._revision = revision
        self._bucket = TokenBucket(RATE, BURST)
        self._last: float | None = None
        self._pending: Notification | None = None
        self.latest: float | None = None
        self.total: float | None = None

    def report(self, progress: float, total: float | None, message: str | None) -> None:
        """Report progress. A report that does not increase is dropped. A report replaces an older one that waits."""
        # MCP 2026-07-28, basic/patterns/progress: the value MUST increase.
        if self.latest is not None and progress <= self.latest:
            return
        self.latest, self.total = progress, total
        params = ProgressParams(progress_token=self._token, progress=progress, total=total, message=message)
        self._pending = Notification(_METHOD, self._revision.unstructure(params))
        if self._bucket.take():
            self.flush()

    def flush(self) -> None:
        """See :class:`ProgressSink`."""
        if self._pending is not None:
            trace_notification(self._pending)
            # The key makes a newer report replace a queued one.
            self.sink.send_latest(self._pending, (_METHOD, self._token))
            self._pending = None
