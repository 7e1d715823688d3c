"""A cache of parsed client info and capabilities.

The supervisor keeps it for all connections. In per-request revisions each request contains both, nearly always equal to
those of the request before. The bytes are the key, and the revision's converter makes the value.

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
        """Return the client of a request.

        Raises:
            InvalidParams: The client info or the capabilities are invalid in this revision.
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
