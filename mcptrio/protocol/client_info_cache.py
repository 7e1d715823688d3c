"""A cache of the clients that envelopes describe.

The supervisor keeps it for all connections. In per-request revisions each request contains its client's info and
capabilities, and both are nearly always equal to those of an earlier request, whose envelope was checked then.

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
"""Clients that are kept; one more clears the cache."""
_BYTES: Final = 4096
"""Bytes of an envelope; a longer one is not kept."""


class ClientInfoCache:
    def __init__(self) -> None:
        self.peers: dict[bytes, Peer] = {}
        """The clients of valid envelopes, by the JSON of the envelope: comparing bytes is cheaper than reading it."""

    def add(self, key: bytes, envelope: Envelope, revision: Revision) -> Peer:
        """Return the client of a request whose envelope is not in the cache.

        Args:
            key: The JSON of the envelope, without anything else that ``_meta`` has.

        Raises:
            InvalidParams: The client info or the capabilities are invalid in this revision.
        """
        info = envelope.client_info
        peer = Peer(
            revision=revision,
            info=revision.structure(info, Implementation) if info is not None else None,
            capabilities=revision.structure(envelope.capabilities, ClientCapabilities),
        )
        # A client cannot fill the cache with large entries.
        if len(key) <= _BYTES:
            if len(self.peers) >= _CACHE_SIZE:
                # Simpler than evicting one, and rare: few servers have 256 different clients.
                self.peers.clear()
            self.peers[key] = peer
        return peer
