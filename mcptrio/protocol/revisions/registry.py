"""The supported revisions, from the oldest to the newest, and their negotiation.

The connection uses this module for each handshake and for each new envelope. Only this module compares versions.

Source: MCP 2025-11-25, basic/lifecycle, "Version Negotiation"; MCP 2026-07-28, basic/versioning.
"""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import Final

from mcptrio.protocol.revisions import v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28
from mcptrio.protocol.revisions.revision import NegotiationStyle, Revision

__all__ = ["HANDSHAKE_VERSIONS", "LATEST", "LATEST_HANDSHAKE", "MODERN_VERSIONS", "REVISIONS", "negotiate"]

REVISIONS: Final[Mapping[str, Revision]] = MappingProxyType(
    {
        module.REVISION.version: module.REVISION
        for module in (v2024_11_05, v2025_03_26, v2025_06_18, v2025_11_25, v2026_07_28)
    }
)
"""All revisions by version, from the oldest to the newest."""

HANDSHAKE_VERSIONS: Final = tuple(v for v, r in REVISIONS.items() if r.lifecycle is NegotiationStyle.HANDSHAKE)
"""The revisions that ``initialize`` can negotiate, from the oldest to the newest."""

MODERN_VERSIONS: Final = tuple(v for v, r in REVISIONS.items() if r.lifecycle is NegotiationStyle.PER_REQUEST)
"""The revisions that an envelope can name, from the oldest to the newest."""

# Dates in this form sort as text.
LATEST: Final = REVISIONS[max(REVISIONS)]
LATEST_HANDSHAKE: Final = REVISIONS[max(HANDSHAKE_VERSIONS)]


def negotiate(requested: str) -> Revision:
    """Return the revision for the response to ``initialize``: the requested one, or the newest with a handshake."""
    return REVISIONS[requested] if requested in HANDSHAKE_VERSIONS else LATEST_HANDSHAKE
