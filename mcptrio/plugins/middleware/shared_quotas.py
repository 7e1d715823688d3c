"""The quotas that the replicas of a server share, as the plugin ``rate_limit`` uses them.

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
"""Seconds after a failure until the store is asked again, so that requests do not wait for it meanwhile."""

_log = logging.getLogger("mcptrio.rate_limit")


class SharedQuotas:
    """The shared quotas of a server, with a pause after each failure of the store.

    Args:
        server: The server of the plugin. Its stores are known when it is open.
    """

    def __init__(self, server: PluginSetup) -> None:
        self._server = server
        self._retry_at: float | None = None
        """Trio time of the next attempt after a failure; ``None`` while the store works."""
        self._replicas = 1

    @property
    def exist(self) -> bool:
        """Whether the server shares quotas with other replicas."""
        return self._server.quotas is not None

    @property
    def replicas(self) -> int:
        """The replicas that share the limits while the store fails: as many as there were when it failed."""
        return self._replicas

    async def take(self, name: str, *, count: int, seconds: float, burst: int) -> float | None:
        """Take one from a quota; see :class:`mcptrio.abc.QuotaStore`.

        Returns:
            ``None`` if the store does not answer.
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
