"""The timeouts of a client.

Source: MCP 2025-11-25, basic/lifecycle, "Timeouts"; MCP 2026-07-28, basic/patterns/cancellation.
"""

from __future__ import annotations

from attrs import field, frozen

from mcptrio.ground.expected import number

__all__ = ["ClientTimeouts"]


@frozen(kw_only=True)
class ClientTimeouts:
    """The timeouts of a client, in seconds. ``math.inf`` removes a limit.

    Args:
        connect: The time to start or reach a server and to negotiate a revision.
        probe: The time for the first request of the negotiation, which older servers may not answer at all.
        idle: The time for an answer, since the request was sent or its last progress report. It does not run while a
            handler of the client answers a question of the server.
        request: The time for an answer, however much progress is reported.
        input: The time for a handler of the client to answer the server.
        ping: The time for the answer to a keepalive ping.
    """

    connect: float = field(default=30.0, validator=number(above=0))
    probe: float = field(default=10.0, validator=number(above=0))
    idle: float = field(default=60.0, validator=number(above=0))
    request: float = field(default=3600.0, validator=number(above=0))
    input: float = field(default=600.0, validator=number(above=0))
    ping: float = field(default=30.0, validator=number(above=0))
