"""A flow of authorization: HTTP requests one after another, and what comes of them.

Written in the other modules of :mod:`mcptrio.auth` as generators, which know no socket and no clock of their own, so
that a whole flow is tested as a table of requests and responses.
The one rule: a request that fails is thrown into the flow as :class:`RequestFailed`, since only the flow knows whether
there is another place to ask.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

from mcptrio.abc import Fetch, FetchRequest, FetchResponse
from mcptrio.errors import RequestFailed

__all__ = ["Flow", "drive"]

T = TypeVar("T")

Flow: TypeAlias = Generator[FetchRequest, FetchResponse, T]
"""Yields requests, is sent their responses, returns what it was for."""


async def drive(flow: Flow[T], fetch: Fetch) -> T:
    """Send the requests of a flow, one after another, and return what it returns.

    Raises:
        RequestFailed: a request failed without which the flow cannot go on.
        AuthorizationError: what the flow raises.
    """
    try:
        request = next(flow)
        while True:
            try:
                response = await fetch(request)
            except RequestFailed as failure:
                request = flow.throw(failure)
            else:
                request = flow.send(response)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        flow.close()
