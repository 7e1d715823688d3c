"""What the supervisor is told: bounds, times, and the switches of one server. A value."""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, instance_of

from mcptrio.expected import instance
from mcptrio.runtime.limits import ServerLimits
from mcptrio.runtime.timeouts import Timeouts

__all__ = ["Settings"]


@frozen(kw_only=True)
class Settings:
    """
    Args:
        ping_interval: seconds between keep-alive pings in revisions that have them; 0 sends none.
        log_level: what a handshake session gets before it says ``logging/setLevel``; ``None``: nothing.
        audience: names this service inside sealed state; the same on every replica.
        server_info: the wire form of Implementation, stamped on results of per-request revisions.
    """

    limits: ServerLimits = field(factory=ServerLimits, validator=instance(ServerLimits))
    timeouts: Timeouts = field(factory=Timeouts, validator=instance(Timeouts))
    ping_interval: float = field(default=0.0, validator=[instance_of(int | float), ge(0)])
    log_level: str | None = "info"
    audience: str = "mcptrio"
    server_info: dict[str, object] = field(factory=dict)
