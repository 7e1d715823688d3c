"""Resumes an event stream that has ended without the response.

:mod:`mcptrio.http.client.link` uses it if the revision has resumable streams. It continues while attempts bring events,
because a server may close a stream at any time. It ends after several attempts in a row without an event.

Source: MCP 2025-11-25, basic/transports, "Resumability and Redelivery" and "Sending Messages to the Server" 6.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from mcptrio.errors import ConnectionClosed, ConsentNeeded, RequestFailed
from mcptrio.http.client.connection import HTTPResponse
from mcptrio.http.client.listening import MIN_STREAM_SECONDS, Get, is_temporary
from mcptrio.http.client.requests import CLIENT_DISCONNECTED
from mcptrio.http.client.responses import Answer, AnswerReader, read_refusal

__all__ = ["resume"]

MAX_ATTEMPTS: Final = 6
"""Consecutive attempts without an event: about half a minute, enough for a server to restart."""


async def resume(
    reader: AnswerReader,
    why: str,
    *,
    get: Get,
    read: Callable[[HTTPResponse], Awaitable[Answer | str]],
    closed: trio.Event,
) -> Answer:
    """Request the rest of a stream until it brings the response.

    Args:
        reader: The reader of the request, with the position at which the stream ended.
        why: The reason of its end.
        get: Sends a GET that continues after a position.
        read: Passes a response to the reader and closes it.
        closed: Set when the link is closed.

    Raises:
        RequestFailed: The server does not bring the response. It may have run the request.
        AuthorizationError: The user refused new credentials. The server may have run the request.
        ConnectionClosed: The link was closed.
    """
    bookmark = reader.bookmark
    while bookmark.last_event_id and bookmark.failures < MAX_ATTEMPTS:
        with trio.move_on_after(bookmark.pause()):
            await closed.wait()
            raise ConnectionClosed(CLIENT_DISCONNECTED)
        began, place = trio.current_time(), bookmark.last_event_id
        try:
            response = await get(bookmark)
            if response.status != 200:
                raise await read_refusal(response)
        except ConsentNeeded as needed:
            # Not raised: the caller would send the request again, which the server may have run already.
            await needed.ask()
            bookmark.failures += 1
            continue
        except RequestFailed as error:
            if error.status is not None and not is_temporary(error.status):
                message = f"{why} before the answer, and cannot be resumed: {error}"
                raise RequestFailed(message, status=error.status, reply=error.reply) from error
            bookmark.failures += 1
            continue
        answer = await read(response)
        if not isinstance(answer, str):
            return answer
        why = answer
        # A stream that lived for some time shows that the server is working on the request.
        moved = bookmark.last_event_id != place or trio.current_time() - began >= MIN_STREAM_SECONDS
        bookmark.failures = 0 if moved else bookmark.failures + 1
    if bookmark.last_event_id:
        raise RequestFailed(f"{why} before the answer, and {MAX_ATTEMPTS} attempts to resume it failed")
    raise RequestFailed(f"{why} before the answer")
