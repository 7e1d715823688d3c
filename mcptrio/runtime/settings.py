"""The settings of one server: bounds, times, keys and switches. A value.

Given to ``Server(settings=)`` by a program, and read from ``[server]`` of the configuration by the command line.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from attrs import field, frozen

from mcptrio.abc import Stores
from mcptrio.ground.expected import PROGRAM_ONLY, instance, integer, number
from mcptrio.runtime.limits import ServerLimits
from mcptrio.runtime.timeouts import Timeouts

__all__ = ["ServerSettings"]


@frozen(kw_only=True)
class ServerSettings:
    """
    Args:
        timeouts: how long things may take.
        limits: how many there may be at once.
        page_size: entries on one page of a list, at least 1.
        list_ttl_ms: milliseconds for which clients may keep a list (2026-07-28); the server announces changes anyway.
        list_all: whether lists also hold entries that need further scopes, so that clients can ask for these.
        log_level: of log messages to a handshake session until it sends ``logging/setLevel``; ``None`` for none.
        ping_interval: seconds between keep-alive pings in revisions that have them; 0 sends none.
        audience: names this service inside sealed state; the same on every replica.
        keys: for sealing what travels through clients; shared by all replicas. Without, each process has its own.
        stores: what the server shares with other replicas, from :func:`mcptrio.stores.open_stores`; ``None`` for
            a single process.
        experimental: capabilities outside the specification that are advertised, by name, each with its settings.
        strict: whether a plugin that fails is an error; if not, the server runs without it.
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
    stores: Stores | None = field(default=None, metadata=PROGRAM_ONLY)
    experimental: Mapping[str, Mapping[str, Any]] = field(factory=dict, metadata=PROGRAM_ONLY)
    strict: bool = field(default=False, metadata=PROGRAM_ONLY)
