"""Passes notifications of a client to the functions of plugins that listen for them."""

from __future__ import annotations

import logging
from collections.abc import Awaitable, Callable
from typing import Any, TypeAlias

import trio

from mcptrio.ground.guarded import Done, Failure, run_guarded
from mcptrio.protocol.events import NotificationReceived
from mcptrio.runtime.conversation import Conversation

__all__ = ["Listener", "handle_notification"]

_log = logging.getLogger("mcptrio.session")

Listener: TypeAlias = Callable[[Conversation, Any], Awaitable[None]]
"""A function called with the session of a notification and its params."""


async def handle_notification(listener: Listener, session: Conversation, event: NotificationReceived) -> None:
    """Call a listener, and log its exception. Its timeout is that of a request."""
    outcome: Done[None] | Failure | None = None
    # A notification has no response, so nothing else would end a listener that hangs.
    with trio.move_on_after(session.settings.timeouts.request) as timeout:
        outcome = await run_guarded(listener, session, event.params)
    if isinstance(outcome, Failure):
        _log.error("%s failed", event.method.name, exc_info=outcome.error)
    elif timeout.cancelled_caught:
        _log.error("notification handler timed out: method=%s", event.method.name)
