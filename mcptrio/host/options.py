"""The options of a host. Every wait for a server is bounded."""

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
    """The timeouts and limits of a host.

    Args:
        timeouts: The timeouts of the connection to each server. ``timeouts.input`` also limits each approval.
        ready_timeout: Seconds that a list waits for each server, from the connection to the last page, and that a call
            waits for a server that is not connected.
        restart: True if a lost or unreachable server is connected again, with increasing pauses.
        ping_interval: Seconds without a message after which a server is pinged, if the revision has pings; 0 disables
            pings.
        log_level: The level of log messages that servers should send to ``Handlers.log``; by default each server
            decides.
        logs_per_second: Log messages of one server that are passed on; further ones are dropped and counted.
        questions: Questions of one server that wait at the same time for the user; further ones are declined.
        listed: Tools, resources, templates or prompts of one server that are listed; further ones are left out, and
            ``missing`` of the list reports that.
        info: The host's name and version, for the servers.
    """

    timeouts: ClientTimeouts = field(factory=ClientTimeouts, validator=instance(ClientTimeouts))
    ready_timeout: float = field(default=10.0, validator=gt(0))
    restart: bool = True
    ping_interval: float = field(default=30.0, validator=ge(0))
    log_level: LoggingLevel | None = field(default=None, validator=optional(in_(LEVELS)))
    # Enough for a server that logs much, and few enough for a readable terminal.
    logs_per_second: float = field(default=100.0, validator=gt(0))
    questions: int = field(default=8, validator=ge(1))
    # Several times as many as the largest servers list. A longer list is an attack on the model's context.
    listed: int = field(default=5000, validator=ge(1))
    info: Implementation | None = None
