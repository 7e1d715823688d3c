"""The options of a client.

``connect`` and the host make them. The client passes them on to its supervisor, sessions and negotiations.
"""

from __future__ import annotations

from attrs import frozen

from mcptrio.client.handlers import Handlers
from mcptrio.client.timeouts import ClientTimeouts
from mcptrio.ground.version import __version__
from mcptrio.protocol.model.lifecycle import Implementation
from mcptrio.protocol.model.logging import LoggingLevel

__all__ = ["OWN_INFO", "ClientOptions"]

OWN_INFO = Implementation(name="mcptrio", version=__version__)
"""The name and version of clients whose program gives none."""


@frozen(kw_only=True)
class ClientOptions:
    """The options of one client.

    Args:
        name: The name that the user gave the server, which is shown until the server has sent its own.
        info: Name and version of the client.
        revision: The only acceptable revision, or ``None``.
        known: The version that an earlier client negotiated with this server, or ``None``. Skips the discovery.
        prefers_handshake: Try a handshake first if both ``revision`` and ``known`` are ``None``.
        restart: Reconnect when the link closes.
        ping_interval: Seconds without a message after which the server is pinged; 0 disables pings.
        log_level: The least severe log level to request, or ``None``.
        cache_entries: Number of results to cache; 0 disables the cache.
    """

    name: str
    info: Implementation
    handlers: Handlers
    timeouts: ClientTimeouts
    revision: str | None = None
    known: str | None = None
    prefers_handshake: bool = False
    restart: bool = False
    ping_interval: float = 30.0
    log_level: LoggingLevel | None = None
    cache_entries: int = 256
