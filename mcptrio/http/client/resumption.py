"""Resumes an event stream that has ended without the response.

:mod:`mcptrio.http.client.link` calls :func:`resume` if the revision has resumable streams. A server may close a stream
at any time, so the number of attempts that bring events is not limited. Several attempts in a row without an event are
an error.

Source: MCP 2025-11-25, basic/transports, "Resumability and Redelivery" and "Sending Messages to the Server" 6.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from typing import Final

import trio

from mcptrio.errors import ConnectionClosed, ConsentNeeded, RequestFailed
from mcptrio.http.client.connection import HTTPResponse
from mcptrio.http.client.get_stream import MIN_STREAM_SECONDS, Get, is_temporary
from mcptrio.http.client.requests import CLIENT_DISCONNECTED
from mcptrio.http.client.responses import Answer, AnswerReader, read_refusal

__all__ = ["resume"]

MAX_ATTEMPTS: Final = 6
"""Consecutive attempts without an event. They take about half a minute, which is enough for a server to restart."""


async def resume(
    reader: AnswerReader,
    end_reason: str,
    *,
    get: Get,
    read: Callable[[HTTPResponse], Awaitable[Answer | str]],
    closed: trio.Event,
) -> Answer:
    """Request the rest of a stream until it brings the response.

    Args:
        reader: The reader of the request, with the position at which the stream ended.
        end_reason: Why the stream has ended.
        get: Sends a GET that continues after a position.
        read: Passes a response to the reader and closes it.
        closed: Set when the link is closed.

    Raises:
        RequestFailed: The response has not come. The server may have run the request.
        AuthorizationError: The user has refused new credentials. The server may have run the request.
        ConnectionClosed: The link was closed.
    """
    position = reader.position
    while position.last_event_id and position.failures < MAX_ATTEMPTS:
        with trio.move_on_after(position.pause()):
            await closed.wait()
            raise ConnectionClosed(CLIENT_DISCONNECTED)
        began, last_event_id = trio.current_time(), position.last_event_id
        try:
            response = await get(position)
            if response.status != 200:
                raise await read_refusal(response)
        except ConsentNeeded as needed:
            # If this were raised, the caller would send the request again, which the server may already have run.
            await needed.ask()
            position.failures += 1
            continue
        except RequestFailed as error:
            if error.status is not None and not is_temporary(error.status):
                message = f"{end_reason} before the answer, and cannot be resumed: {error}"
                raise RequestFailed(message, status=error.status, reply=error.reply) from error
            position.failures += 1
            continue
        answer = await read(response)
        if not isinstance(answer, str):
            return answer
        end_reason = answer
        # A stream that lasts for some time shows that the server is working on the request.
        has_lasted = trio.current_time() - began >= MIN_STREAM_SECONDS
        position.failures = 0 if has_lasted or position.last_event_id != last_event_id else position.failures + 1
    if position.last_event_id:
        raise RequestFailed(f"{end_reason} before the answer, and {MAX_ATTEMPTS} attempts to resume it failed")
    raise RequestFailed(f"{end_reason} before the answer")
