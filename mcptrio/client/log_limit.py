"""A rate limit for the log messages of a server.

Each client session has one. Handling a message may take longer than reading it: the command line, for example, prints
each message.

Source: MCP 2025-11-25, basic/lifecycle, "Initialization"; server/utilities/logging, "Error Handling".
"""

from __future__ import annotations

import logging

import trio

from mcptrio.ground.token_bucket import TokenBucket

__all__ = ["MAX_LOGS_PER_SECOND", "MAX_LOGS_WHILE_CONNECTING", "LogLimit"]

MAX_LOGS_WHILE_CONNECTING = 100
"""Messages accepted before a revision is negotiated. Servers may log during the handshake."""
MAX_LOGS_PER_SECOND = 1000
"""Messages accepted per second afterwards, and in one burst. mcptrio servers send at most 200 per second by default."""
_NOTICE_INTERVAL = 60.0
"""Seconds between two log lines about dropped messages."""

_log = logging.getLogger("mcptrio.client")


class LogLimit:
    """The limit on the log messages of one session."""

    def __init__(self) -> None:
        self._left_while_connecting = MAX_LOGS_WHILE_CONNECTING
        self._bucket = TokenBucket(MAX_LOGS_PER_SECOND, MAX_LOGS_PER_SECOND)
        self._dropped = 0
        self._next_notice = 0.0

    def allows(self, name: str, *, is_connected: bool) -> bool:
        """Count one message, and return whether it is within the limit. Logs the number of dropped ones at intervals.

        Args:
            name: The server's name for the log.
            is_connected: True once a revision is negotiated.

        Returns:
            False if the message exceeds the limit.
        """
        if is_connected:
            is_allowed = self._bucket.take()
        else:
            is_allowed = self._left_while_connecting > 0
            self._left_while_connecting -= is_allowed
        if is_allowed:
            return True
        self._dropped += 1
        now = trio.current_time()
        if now >= self._next_notice:
            most, when = MAX_LOGS_PER_SECOND, "a second"
            if not is_connected:
                most, when = MAX_LOGS_WHILE_CONNECTING, "while connecting"
            _log.warning("%s: sends more than %d log messages %s; dropped: %d", name, most, when, self._dropped)
            self._dropped = 0
            self._next_notice = now + _NOTICE_INTERVAL
        return False
