"""Reports of a client's connections: opening, negotiated, and why one has ended.

The supervisor makes the reports. The host needs them, because its clients open and lose connections on their own.
"""

from __future__ import annotations

from mcptrio.client.subscriptions import Change

__all__ = ["ConnectionWatcher"]


class ConnectionWatcher:
    """Receives the reports; this class ignores them. The methods must not block or raise."""

    def opening(self) -> None:
        """Called when a link is being opened."""

    def settled(self) -> None:
        """Called when client and server have agreed on a revision; again when the session is renewed."""

    def changed(self, change: Change) -> None:
        """Called with each change that the server reports, before subscriptions receive it."""

    def ended(self, reason: str) -> None:
        """Called when a link has ended or could not be opened."""
