"""Timeouts of a server. Plugins, tools and calls can have shorter ones.

The deadline of a request is ``min(now + idle, start + request)``; progress extends only the first part. Both stop
while the client answers a question.

Source: MCP 2025-11-25, basic/lifecycle, "Timeouts"; the same in 2026-07-28, basic/patterns/cancellation.
"""

from __future__ import annotations

from math import isnan

from attrs import evolve, field, frozen

from mcptrio.ground.expected import number

__all__ = ["CALL_TIMEOUT", "Timeouts", "call_timeout"]

CALL_TIMEOUT = "mcptrio/timeout"
"""``params._meta`` key: seconds after which the caller cancels the request. It can only shorten the timeout."""


@frozen(kw_only=True)
class Timeouts:
    """Timeouts in seconds; ``math.inf`` means no limit.

    Args:
        request: The time from a request's start to its response, even with progress.
        idle: The time since the request's start or its last progress.
        task_after: The time until a call of a tool with ``task="optional"`` becomes a task, if the client supports
            tasks.
        input: The time for a client's answer to an elicitation or a sampling request. ``request`` and ``idle`` are
            paused meanwhile.
        ping: The time for the response to a keepalive ping.
        start: The time for entering a plugin's lifespan; a plugin that takes longer is put in quarantine.
        shutdown: The time for requests in flight when the server stops.
        blocked: The time for which a function may block the event loop before the log names it.
    """

    request: float = field(default=3600.0, validator=number(above=0))
    idle: float = field(default=300.0, validator=number(above=0))
    task_after: float = field(default=10.0, validator=number(above=0))
    input: float = field(default=600.0, validator=number(above=0))
    ping: float = field(default=30.0, validator=number(above=0))
    start: float = field(default=30.0, validator=number(above=0))
    shutdown: float = field(default=5.0, validator=number(above=0))
    blocked: float = field(default=1.0, validator=number(above=0))

    def with_request(self, request: float) -> Timeouts:
        """Return these timeouts with the limit that an author or operator has set for a tool or a plugin."""
        # Also as the idle timeout, so that a call with its own timeout need not report progress.
        return evolve(self, request=request, idle=request)


def call_timeout(meta: dict[str, object] | None) -> float | None:
    """Return the caller's timeout in seconds, or ``None``. A value that is not a positive number is ignored."""
    value = meta.get(CALL_TIMEOUT) if meta else None
    if value is None:
        return None
    if isinstance(value, bool) or not isinstance(value, int | float) or isnan(value) or value <= 0:
        return None
    return float(value)
