"""A cache of the clients that envelopes describe.

The supervisor keeps it for all connections. In per-request revisions, each request contains its client's info and
capabilities. Both are nearly always equal to those of an earlier request, and need not be checked again.

Source: MCP 2026-07-28, basic/index, "Request Metadata".
"""

from __future__ import annotations

from typing import Final

from mcptrio.protocol.envelope import Envelope
from mcptrio.protocol.events import Peer
from mcptrio.protocol.model.lifecycle import ClientCapabilities, Implementation
from mcptrio.protocol.revisions.revision import Revision

__all__ = ["ClientInfoCache"]

_CACHE_SIZE: Final = 256
"""Clients that are kept. When the cache is full, it is cleared."""
_MAX_ENVELOPE_BYTES: Final = 4096
"""Bytes of an envelope; a longer one is not cached."""


class ClientInfoCache:
    """The clients of earlier envelopes."""

    def __init__(self) -> None:
        self.peers: dict[bytes, Peer] = {}
        """The clients of valid envelopes, by the JSON of the envelope, which is cheaper than reading the envelope."""

    def add(self, key: bytes, envelope: Envelope, revision: Revision) -> Peer:
        """Read the client of a request whose envelope is not in the cache, and add it.

        Args:
            key: The JSON of the envelope, without other members of ``_meta``.

        Raises:
            InvalidParams: The client info or the capabilities are invalid in this revision.
        """
        info = envelope.client_info
        peer = Peer(
            revision=revision,
            info=revision.structure(info, Implementation) if info is not None else None,
            capabilities=revision.structure(envelope.capabilities, ClientCapabilities),
        )
        # The bound prevents that a client fills the cache with large entries.
        if len(key) <= _MAX_ENVELOPE_BYTES:
            if len(self.peers) >= _CACHE_SIZE:
                # Clearing is simpler than evicting one entry, and rare: few servers have 256 different clients.
                self.peers.clear()
            self.peers[key] = peer
        return peer
