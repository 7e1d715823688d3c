"""The quotas that the replicas of a server share, for the plugin ``rate_limit``.

While the store fails, each replica limits requests with its own counters.
"""

from __future__ import annotations

import logging
from typing import Final

import trio

from mcptrio.errors import StoreFailed
from mcptrio.plugins.setup import PluginSetup

__all__ = ["SharedQuotas"]

_RETRY_INTERVAL: Final = 1.0
"""Seconds after a failure until the store is used again. Meanwhile, requests do not wait for it."""

_log = logging.getLogger("mcptrio.rate_limit")


class SharedQuotas:
    """The shared quotas of a server, with a pause after each failure of the store.

    Args:
        server: The plugin's server, which has stores when it is open.
    """

    def __init__(self, server: PluginSetup) -> None:
        self._server = server
        self._retry_at: float | None = None
        """Trio clock time of the next attempt after a failure; ``None`` while the store works."""
        self._replicas = 1

    @property
    def exist(self) -> bool:
        """True if the server shares quotas with other replicas."""
        return self._server.quotas is not None

    @property
    def replicas(self) -> int:
        """The number of replicas at the time when the store failed. While the store fails, they share the limits."""
        return self._replicas

    async def take(self, name: str, *, count: int, seconds: float, burst: int) -> float | None:
        """Count one request in a quota; see :class:`mcptrio.abc.QuotaStore`.

        Returns:
            The seconds to wait, 0 if the request is allowed; ``None`` if the store fails.
        """
        quotas = self._server.quotas
        if quotas is None or (self._retry_at is not None and trio.current_time() < self._retry_at):
            return None
        try:
            wait = await quotas.take(name, count=count, seconds=seconds, burst=burst)
        except StoreFailed as error:
            if self._retry_at is None:
                self._replicas = self._server.replicas
                _log.error(
                    "quotas are not shared while the store fails, each of %d replicas has its part: %s",
                    self._replicas,
                    error,
                )
            self._retry_at = trio.current_time() + _RETRY_INTERVAL
            return None
        if self._retry_at is not None:
            _log.info("quotas are shared again")
            self._retry_at = None
        return wait
