"""The options of a host.

Every wait for a server has a limit.
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
    """How a host treats its servers.

    Args:
        timeouts: The timeouts of the connection to each server. ``timeouts.input`` also limits each approval.
        ready_timeout: Seconds that a list waits for each server, from the connection to the last page, and that a call
            waits for a server that is not connected.
        restart: Whether a lost or unreachable server is connected again, with increasing pauses.
        ping_interval: Seconds without a message after which a server is pinged, if the revision has pings; 0 for never.
        log_level: The level of log messages that servers should send to ``Handlers.log``; by default each server
            decides.
        logs_per_second: Log messages of one server that are passed on; further ones are dropped and counted.
        questions: Questions of one server that wait at the same time for the user; further ones are declined.
        listed: Tools, resources, templates or prompts of one server that are listed; further ones are left out and
            reported.
        info: The host's name and version, for the servers.
    """

    timeouts: ClientTimeouts = field(factory=ClientTimeouts, validator=instance(ClientTimeouts))
    ready_timeout: float = field(default=10.0, validator=gt(0))
    restart: bool = True
    ping_interval: float = field(default=30.0, validator=ge(0))
    log_level: LoggingLevel | None = field(default=None, validator=optional(in_(LEVELS)))
    # Enough for a chatty server, and few enough that a terminal stays usable.
    logs_per_second: float = field(default=100.0, validator=gt(0))
    questions: int = field(default=8, validator=ge(1))
    # Several times the largest catalogues in use; a list beyond it is an attack on the model's context.
    listed: int = field(default=5000, validator=ge(1))
    info: Implementation | None = None
