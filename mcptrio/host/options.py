"""How a host keeps its servers, stated once.

Given to the host; read by everything in it.
The one rule: nothing waits for ever for a server.
"""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, gt, in_, optional

from mcptrio.client.timeouts import ClientTimeouts
from mcptrio.ground.expected import instance
from mcptrio.protocol.model.lifecycle import Implementation
from mcptrio.protocol.model.logging import LEVELS, LoggingLevel

__all__ = ["HostOptions"]


@frozen(kw_only=True)
class HostOptions:
    """
    Args:
        timeouts: of the connection to each server. ``timeouts.input`` is also what the user has for each approval.
        ready_timeout: seconds that a list waits for each server, from the connection to the last page; and that a call
            waits for a server that is not connected.
        restart: whether a server that cannot be reached, or is lost, is tried again, later each time.
        ping_interval: seconds of silence after which a server is pinged, where the revision has pings; 0 for never.
        log_level: have log messages of this level and above sent to ``Handlers.log``; by default each server decides.
        logs_per_second: log messages of one server that are handed on; of more, the rest is dropped and counted.
        questions: of one server that wait at the same time, for the user's approval or answer; the next is declined.
        listed: tools, resources, templates or prompts of one server that are listed; the rest is left out, and told.
        info: what servers are told of the host.
    """

    timeouts: ClientTimeouts = field(factory=ClientTimeouts, validator=instance(ClientTimeouts))
    ready_timeout: float = field(default=10.0, validator=gt(0))
    restart: bool = True
    ping_interval: float = field(default=30.0, validator=ge(0))
    log_level: LoggingLevel | None = field(default=None, validator=optional(in_(LEVELS)))
    logs_per_second: float = field(default=100.0, validator=gt(0))
    questions: int = field(default=8, validator=ge(1))
    listed: int = field(default=5000, validator=ge(1))
    info: Implementation | None = None
