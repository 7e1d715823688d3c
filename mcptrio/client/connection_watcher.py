"""Receives reports about a client's connections: opened, negotiated, and ended with a reason.

The client's supervisor makes the reports. The host needs them, because a client reconnects on its own.
"""

from __future__ import annotations

from mcptrio.client.subscriptions import Change

__all__ = ["ConnectionWatcher"]


class ConnectionWatcher:
    """Base class of the watchers, which ignores all reports. The methods must not block or raise."""

    def opening(self) -> None:
        """Called when a link is being opened."""

    def settled(self) -> None:
        """Called when client and server have agreed on a revision, and again when the session is renewed."""

    def changed(self, change: Change) -> None:
        """Called with each change that the server reports, before subscriptions receive it."""

    def ended(self, reason: str) -> None:
        """Called when a link has ended or could not be opened."""
