"""What clients say of themselves, read once and not with each request.

Kept by the supervisor for all connections. A request of a per-request revision carries who the client is and what it
can do, nearly always the same as in the request before.
The one rule: what is kept was read by the revision's own rules, and is found again by every byte of it.

Source: MCP 2026-07-28, basic/index, "Request Metadata".
"""

from __future__ import annotations

from typing import Final

import orjson

from mcptrio.protocol.envelope import Envelope
from mcptrio.protocol.events import Peer
from mcptrio.protocol.model.lifecycle import ClientCapabilities, Implementation
from mcptrio.protocol.revisions.revision import Revision

__all__ = ["ClientInfoCache"]

_CACHE_SIZE: Final = 256
"""ClientInfoCache that are kept; with one more all are forgotten."""
_BYTES: Final = 4096
"""A longer one is not kept."""


class ClientInfoCache:
    def __init__(self) -> None:
        self._peers: dict[tuple[str, bytes], Peer] = {}

    def peer(self, envelope: Envelope, revision: Revision) -> Peer:
        """
        Raises:
            InvalidParams: what the client says is not as the revision has it.
        """
        info, capabilities = envelope.client_info, envelope.capabilities
        key = (revision.version, orjson.dumps((info, capabilities)))
        peer = self._peers.get(key)
        if peer is None:
            peer = Peer(
                revision=revision,
                info=revision.structure(info, Implementation) if info is not None else None,
                capabilities=revision.structure(capabilities, ClientCapabilities),
            )
            if len(key[1]) <= _BYTES:
                if len(self._peers) >= _CACHE_SIZE:
                    self._peers.clear()
                self._peers[key] = peer
        return peer
