"""Repeats a request that the server refuses until the user has visited a page (2025-11-25, error -32042).

ClientRequests calls :func:`send_after_urls`. The handler asks the user for consent to each page; without it, the
server's error is raised and no page is opened.

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
"""Pages that one error may ask for; the rest is ignored."""
RETRY_INTERVAL = 10.0
"""Seconds after which the request is repeated without a completion notification, which servers need not send."""


async def send_after_urls(
    session: ClientSession, required: URLElicitationRequired, send: Callable[[], Awaitable[Any]], timeout: float
) -> Any:
    """Ask the user to open the pages, and repeat the request until the server accepts it.

    Args:
        timeout: Seconds that the user has to finish, counted from the consent.

    Raises:
        URLElicitationRequired: The user declined or took too long, or the server asks for further pages.
    """
    pages = _pages(session, required)
    # Registered before the user is asked: a quick user may finish before the handler returns.
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
            # All pages are done, or the interval has passed.
            is_last = all(event.is_set() for event in done) or trio.current_time() >= deadline
            try:
                return await send()
            except URLElicitationRequired as again:
                # A page that the user has not seen needs a new consent, so the error goes to the caller.
                if is_last or {page.url for page in _pages(session, again)} - {page.url for page in pages}:
                    raise
    finally:
        for page in pages:
            if page.elicitation_id is not None:
                session.forget_url(page.elicitation_id)


def _pages(session: ClientSession, required: URLElicitationRequired) -> list[ElicitURLParams]:
    """Return the pages of the error; raise the error itself if its list is empty or malformed."""
    elicitations = required.elicitations[:MAX_PAGES]
    if not elicitations:
        raise required
    try:
        return [session.revision.structure({**each, "mode": "url"}, ElicitURLParams) for each in elicitations]
    except InvalidParams as error:
        raise required from error
