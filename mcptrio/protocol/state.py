"""The lifecycle of a handshake connection as a table: who may send what, when.

Read by the connection. Per-request revisions have no lifecycle and never come here.

    NEW ── initialize received ──▶ INITIALIZING ── answered with a result ──▶ NEGOTIATED ── initialized ──▶ READY
     ▲                                  │
     └────────── answered with an error ┘

Source: MCP 2025-11-25, basic/lifecycle, "Initialization": before the answer the client sends only pings; before
``initialized`` the server sends only pings and log messages (and what belongs to a request it was given).
"""

from __future__ import annotations

from enum import Enum

__all__ = ["Phase", "may_receive", "may_send"]


class Phase(Enum):
    NEW = "new"
    INITIALIZING = "initializing"
    NEGOTIATED = "negotiated"
    READY = "ready"


_RECEIVABLE: dict[Phase, frozenset[str] | None] = {
    Phase.NEW: frozenset({"initialize", "ping"}),
    Phase.INITIALIZING: frozenset({"ping", "notifications/cancelled"}),
    # A client that pipelines its first call behind `initialized` may be overtaken by itself on HTTP, where each message
    # is a request of its own: what comes after the answer is served.
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
    """Whether the server serves ``method`` in this phase."""
    allowed = _RECEIVABLE[phase]
    return allowed is None or method in allowed


def may_send(phase: Phase, method: str) -> bool:
    """Whether the server may send ``method`` unasked in this phase."""
    allowed = _SENDABLE[phase]
    return allowed is None or method in allowed
