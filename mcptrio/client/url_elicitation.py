"""Requests that are refused until the user has opened a page (2025-11-25).

Used by the client where a server refuses with -32042: the pages go to the handler, and the request is sent again when
the user is done with them.
The one rule: without the user's consent nothing is opened, and the refusal stands.

Source: MCP 2025-11-25, client/elicitation, "URL Elicitation Required Error" and "Completion Notifications".
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Any

import trio

from mcptrio.client.session import ClientSession
from mcptrio.errors import InvalidParams, URLElicitationRequired
from mcptrio.protocol.model.elicitation import ElicitURLParams

__all__ = ["send_after_urls"]

MAX_PAGES = 8
"""Pages one refusal may ask for."""
RETRY_INTERVAL = 10.0
"""Seconds after which the request is sent again although the server has not said that the user is done: it need not."""


async def send_after_urls(
    session: ClientSession, required: URLElicitationRequired, send: Callable[[], Awaitable[Any]], timeout: float
) -> Any:
    """Have the user open the pages, and send the request again until the server takes it.

    Args:
        timeout: seconds the user has, once they have agreed.

    Raises:
        URLElicitationRequired: the user declined, took too long, or the server wants other pages still.
    """
    pages = _pages(session, required)
    done = [session.url_done(page.elicitation_id) for page in pages if page.elicitation_id is not None]
    try:
        for page in pages:
            answer = await session.answer("elicitation/create", page)
            if answer.action != "accept":
                raise required
        deadline = trio.current_time() + timeout
        while True:
            with trio.move_on_at(min(deadline, trio.current_time() + RETRY_INTERVAL)):
                for event in done:
                    await event.wait()
            # They are done, or it is worth a look.
            is_last = all(event.is_set() for event in done) or trio.current_time() >= deadline
            try:
                return await send()
            except URLElicitationRequired as again:
                if is_last or {page.url for page in _pages(session, again)} - {page.url for page in pages}:
                    raise
    finally:
        for page in pages:
            if page.elicitation_id is not None:
                session.forget_url(page.elicitation_id)


def _pages(session: ClientSession, required: URLElicitationRequired) -> list[ElicitURLParams]:
    """
    Raises:
        URLElicitationRequired: what the server sent is no list of pages.
    """
    elicitations = required.elicitations[:MAX_PAGES]
    if not elicitations:
        raise required
    try:
        return [session.revision.structure({**each, "mode": "url"}, ElicitURLParams) for each in elicitations]
    except InvalidParams as error:
        raise required from error
