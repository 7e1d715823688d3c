"""The lifecycle of a handshake connection as a table: the messages that each side may send in each phase.

The connection reads it. Per-request revisions have no lifecycle.

    NEW ── initialize received ──▶ INITIALIZING ── answered with a result ──▶ NEGOTIATED ── initialized ──▶ READY
     ▲                                  │
     └────────── answered with an error ┘

Source: MCP 2025-11-25, basic/lifecycle, "Initialization": before the response the client sends only pings; before
``initialized`` the server sends only pings and log messages (and messages about a request that it has received).
"""

from __future__ import annotations

from enum import Enum

__all__ = ["Phase", "may_receive", "may_send"]


class Phase(Enum):
    """The phase of a handshake connection. See the diagram in this module."""

    NEW = "new"
    INITIALIZING = "initializing"
    NEGOTIATED = "negotiated"
    READY = "ready"


_RECEIVABLE: dict[Phase, frozenset[str] | None] = {
    Phase.NEW: frozenset({"initialize", "ping"}),
    # The client may send a cancellation when it no longer waits for the result of initialize.
    Phase.INITIALIZING: frozenset({"ping", "notifications/cancelled"}),
    # All methods are allowed: over HTTP, each message is a request of its own, so a client's first call may arrive
    # before its `initialized`.
    Phase.NEGOTIATED: None,
    Phase.READY: None,
}

_SENDABLE: dict[Phase, frozenset[str] | None] = {
    Phase.NEW: frozenset(),
    Phase.INITIALIZING: frozenset({"ping"}),
    Phase.NEGOTIATED: frozenset({"ping", "notifications/message"}),
    Phase.READY: None,
}


def may_receive(phase: Phase, method: str) -> bool:
    """Return whether the server serves ``method`` in this phase."""
    allowed = _RECEIVABLE[phase]
    return allowed is None or method in allowed


def may_send(phase: Phase, method: str) -> bool:
    """Return whether the server may send ``method`` in this phase, apart from messages about a received request."""
    allowed = _SENDABLE[phase]
    return allowed is None or method in allowed
