"""Being introduced: ``initialize``, ``ping``, ``server/discover``.

A plugin over the hooks like any other.

Source: MCP 2025-11-25, basic/lifecycle and basic/utilities/ping; MCP 2026-07-28, server/discover.
"""

from __future__ import annotations

from mcptrio.capabilities.host import Host
from mcptrio.protocol.model.base import EmptyResult
from mcptrio.protocol.model.lifecycle import (
    DiscoverParams,
    DiscoverResult,
    InitializeParams,
    InitializeResult,
    PingParams,
)
from mcptrio.protocol.revisions.registry import MODERN_VERSIONS
from mcptrio.runtime.dispatch import Handler
from mcptrio.runtime.request_scope import RequestScope

__all__ = ["Lifecycle"]


class Lifecycle:
    def __init__(self, host: Host) -> None:
        self._host = host
        self.handlers: dict[str, Handler] = {
            "initialize": self._initialize,
            "ping": self._ping,
            "server/discover": self._discover,
        }

    async def _initialize(self, scope: RequestScope, params: InitializeParams) -> InitializeResult:
        return InitializeResult(
            protocol_version=scope.request.peer.revision.version,
            capabilities=self._host.capabilities,
            server_info=self._host.info,
            instructions=self._host.instructions,
        )

    async def _ping(self, scope: RequestScope, params: PingParams) -> EmptyResult:
        return EmptyResult()

    async def _discover(self, scope: RequestScope, params: DiscoverParams) -> DiscoverResult:
        return DiscoverResult(
            supported_versions=tuple(MODERN_VERSIONS),
            capabilities=self._host.capabilities,
            instructions=self._host.instructions,
            ttl_ms=self._host.settings.list_ttl_ms,
        )
