"""The options of a mount, which are passed to :class:`mcptrio.Mount`. Every wait for the mounted server is bounded."""

from __future__ import annotations

from typing import Literal

from attrs import field, frozen
from attrs.validators import ge, gt, in_, optional

from mcptrio.client.timeouts import ClientTimeouts
from mcptrio.ground.expected import instance
from mcptrio.plugins.policy import ToolPolicy
from mcptrio.protocol.revisions.registry import REVISIONS

__all__ = ["MountOptions"]


@frozen(kw_only=True)
class MountOptions:
    """The prefix, timeouts and limits of a mounted server.

    Args:
        prefix: The prefix of the tools' and prompts' names, before an underscore; empty for none. By default the
            mount's name.
        tools: The tools to offer; globs match the names on the mounted server.
        timeout: Seconds for one call, with or without progress. With ``None``, the limits of this server apply.
        start_timeout: Seconds for which the start of this server waits for the mounted one. If the mounted server is
            slower, its entries are added later, and clients are notified.
        ready_timeout: Seconds that a call waits while the mounted server is disconnected. Then the call fails.
        idle_timeout: Seconds without a call after which the mounted server is stopped until the next call. Its tools
            stay listed. With ``None``, it is not stopped.
        revision: The revision to use, as a date; by default the newest that both support.
        lazy: True to stop the mounted server once its lists have been read. The first call starts it again.
        task: ``"optional"``: a call that takes longer than ``timeouts.task_after`` becomes a task of this server, if
            the client supports tasks; ``"never"``: it stays a call.
        required: True to quarantine the mount if the first connection fails within ``timeouts.connect``, even if this
            server has started in the meantime because ``start_timeout`` has expired.
        timeouts: The timeouts of the connection and of the requests for lists.
    """

    prefix: str | None = None
    tools: ToolPolicy = field(factory=ToolPolicy, validator=instance(ToolPolicy))
    timeout: float | None = field(default=None, validator=optional(gt(0)))
    start_timeout: float = field(default=5.0, validator=ge(0))
    ready_timeout: float = field(default=10.0, validator=gt(0))
    idle_timeout: float | None = field(default=None, validator=optional(gt(0)))
    revision: str | None = field(default=None, validator=optional(in_(tuple(REVISIONS))))
    lazy: bool = False
    task: Literal["never", "optional"] = field(default="optional", validator=in_(("never", "optional")))
    required: bool = False
    timeouts: ClientTimeouts = field(factory=ClientTimeouts, validator=instance(ClientTimeouts))
