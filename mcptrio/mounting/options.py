"""How a server is mounted, stated once.

Given to :class:`mcptrio.Mount`; read by everything in it.
The one rule: nothing waits for ever for the other server.
"""

from __future__ import annotations

from attrs import field, frozen
from attrs.validators import ge, gt, in_, optional

from mcptrio.client.timeouts import ClientTimeouts
from mcptrio.ground.expected import instance
from mcptrio.plugins.policy import ToolPolicy
from mcptrio.protocol.revisions.registry import REVISIONS

__all__ = ["MountOptions"]


@frozen(kw_only=True)
class MountOptions:
    """
    Args:
        prefix: what the names of its tools and prompts begin with here, before an underscore; by default the mount's
            name; empty for nothing.
        tools: which of its tools are offered; globs match their own names.
        timeout: seconds for one call, whatever is reported; ``None``: what the server it is mounted in allows.
        start_timeout: seconds that our server waits for the other one while it opens. After that the other server's
            lists come later, and clients are notified.
        ready_timeout: seconds that a call waits for the other server where that is away; then it fails, and says so.
        idle_timeout: seconds without a call after which the other server is ended until the next call. Its tools stay
            listed. ``None``: it is kept.
        revision: the one to speak, as a date, with a server that speaks several; by default the newest that both do.
        lazy: whether it is let go of as soon as it has said what it has, until the first call.
        required: whether our plugin fails, and is quarantined, where the other server cannot be reached at first:
            within ``timeouts.connect``, even if our server has opened meanwhile because ``start_timeout`` is over.
        timeouts: of the connection, and of the requests for lists.
    """

    prefix: str | None = None
    tools: ToolPolicy = field(factory=ToolPolicy, validator=instance(ToolPolicy))
    timeout: float | None = field(default=None, validator=optional(gt(0)))
    start_timeout: float = field(default=5.0, validator=ge(0))
    ready_timeout: float = field(default=10.0, validator=gt(0))
    idle_timeout: float | None = field(default=None, validator=optional(gt(0)))
    revision: str | None = field(default=None, validator=optional(in_(tuple(REVISIONS))))
    lazy: bool = False
    required: bool = False
    timeouts: ClientTimeouts = field(factory=ClientTimeouts, validator=instance(ClientTimeouts))
