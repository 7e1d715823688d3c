"""A cache of parsed client info and capabilities.

The supervisor keeps it for all connections. In per-request revisions each request contains both, and they are nearly
always equal to those of the previous request.

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
"""Clients that are kept; one more clears the cache."""
_BYTES: Final = 4096
"""Bytes of info and capabilities; a longer entry is not kept."""


class ClientInfoCache:
    def __init__(self) -> None:
        self._peers: dict[tuple[str, bytes], Peer] = {}

    def peer(self, envelope: Envelope, revision: Revision) -> Peer:
        """Return the client of a request.

        Raises:
            InvalidParams: the client info or the capabilities are invalid in this revision.
        """
        info, capabilities = envelope.client_info, envelope.capabilities
        # The encoded bytes are the key: comparing them is cheaper than converting the values.
        key = (revision.version, orjson.dumps((info, capabilities)))
        peer = self._peers.get(key)
        if peer is None:
            peer = Peer(
                revision=revision,
                info=revision.structure(info, Implementation) if info is not None else None,
                capabilities=revision.structure(capabilities, ClientCapabilities),
            )
            # A client cannot fill the cache with large entries.
            if len(key[1]) <= _BYTES:
                if len(self._peers) >= _CACHE_SIZE:
                    # Simpler than evicting one, and rare: few servers have 256 different clients.
                    self._peers.clear()
                self._peers[key] = peer
        return peer
