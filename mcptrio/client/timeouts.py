"""How long a client waits.

Stated once for a client, and for a single call where it says so.
The one rule: nothing waits for ever unless ``math.inf`` was asked for.

Source: MCP 2025-11-25, basic/lifecycle, "Timeouts"; MCP 2026-07-28, basic/patterns/cancellation.
"""

from __future__ import annotations

from attrs import field, frozen

from mcptrio.ground.expected import number

__all__ = ["ClientTimeouts"]


@frozen(kw_only=True)
class ClientTimeouts:
    """Seconds; ``math.inf`` means no bound.

    Args:
        connect: for starting or reaching a server and agreeing on a revision.
        probe: for the first question of that, which older servers may not answer at all.
        idle: for an answer, since the request was sent or its last progress; while a handler of ours is being asked
            something, it does not run.
        request: for an answer, whatever progress is reported.
        input: for a handler of ours to answer the server.
        ping: for the answer to a keep-alive ping.
    """

    connect: float = field(default=30.0, validator=number(above=0))
    probe: float = field(default=10.0, validator=number(above=0))
    idle: float = field(default=60.0, validator=number(above=0))
    request: float = field(default=3600.0, validator=number(above=0))
    input: float = field(default=600.0, validator=number(above=0))
    ping: float = field(default=30.0, validator=number(above=0))
