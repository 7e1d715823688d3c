"""The settings of one server: limits, timeouts, keys and switches.

A program passes them as ``Server(settings=)``; the command line reads them from ``[server]`` of the configuration.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any, Literal

from attrs import field, frozen
from attrs.validators import in_

from mcptrio.abc import Stores
from mcptrio.ground.expected import PROGRAM_ONLY, instance, integer, number
from mcptrio.runtime.limits import ServerLimits
from mcptrio.runtime.timeouts import Timeouts

__all__ = ["ServerSettings"]


@frozen(kw_only=True)
class ServerSettings:
    """The settings of one server, for :class:`mcptrio.Server`.

    Args:
        timeouts: The timeouts of requests, plugins and clients.
        limits: The limits of sessions, requests and queues.
        page_size: Entries on one page of a list, at least 1.
        list_ttl_ms: Milliseconds for which clients may cache a list (2026-07-28); the server announces changes anyway.
        list_all: Whether lists contain entries that need more scopes than the client has, so that the client can
            request these scopes.
        log_level: Level of log messages for a handshake session until it sends ``logging/setLevel``; ``None`` for none.
        ping_interval: Seconds between keepalive pings, in revisions that have them; 0 sends none.
        audience: The name of this service in sealed state; the same on every replica.
        keys: Keys that seal state which passes through clients; the same on every replica. By default, each process
            generates one.
        repair_arguments: Whether arguments of tools in a slightly wrong form are repaired, if only one repair fits.
        run_tasks: Where tasks run: ``here`` for this process, ``workers`` for processes of ``mcptrio worker`` that use
            the same store.
        stores: The stores that the server shares with other replicas, from :func:`mcptrio.stores.open_stores`;
            ``None`` for a single process.
        experimental: Capabilities outside the specification that are advertised, by name, each with its settings.
        strict: Raise the error of a plugin that fails, instead of running without the plugin.
    """

    timeouts: Timeouts = field(factory=Timeouts, validator=instance(Timeouts))
    limits: ServerLimits = field(factory=ServerLimits, validator=instance(ServerLimits))
    page_size: int = field(default=100, validator=integer(1))
    list_ttl_ms: int = field(default=0, validator=integer(0), metadata=PROGRAM_ONLY)
    list_all: bool = False
    log_level: str | None = field(default="info", metadata=PROGRAM_ONLY)
    ping_interval: float = field(default=0.0, validator=number(0))
    audience: str = "mcptrio"
    keys: Sequence[bytes] = field(default=(), repr=False, metadata=PROGRAM_ONLY)
    repair_arguments: bool = True
    run_tasks: Literal["here", "workers"] = field(default="here", validator=in_(("here", "workers")))
    stores: Stores | None = field(default=None, metadata=PROGRAM_ONLY)
    experimental: Mapping[str, Mapping[str, Any]] = field(factory=dict, metadata=PROGRAM_ONLY)
    strict: bool = field(default=False, metadata=PROGRAM_ONLY)
