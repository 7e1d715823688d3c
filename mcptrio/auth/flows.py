"""Authorization flows: generators that yield HTTP requests and receive the responses.

The other modules of :mod:`mcptrio.auth` write their flows as generators without sockets or clocks, so tests can
describe a whole flow as a table of requests and responses. :func:`drive` runs a flow with real requests.
"""

from __future__ import annotations

from collections.abc import Generator
from typing import TypeAlias, TypeVar

from mcptrio.abc import Fetch, FetchRequest, FetchResponse
from mcptrio.errors import RequestFailed

__all__ = ["Flow", "drive"]

T = TypeVar("T")

Flow: TypeAlias = Generator[FetchRequest, FetchResponse, T]
"""A generator that yields requests, receives the responses with ``send``, and returns its result."""


async def drive(flow: Flow[T], fetch: Fetch) -> T:
    """Send the requests of a flow sequentially and return the result of the flow.

    Raises:
        RequestFailed: A request failed, and the flow has no other URL to try.
        AuthorizationError: The flow raised it.
    """
    try:
        request = next(flow)
        while True:
            try:
                response = await fetch(request)
            except RequestFailed as failure:
                # Only the flow knows whether another URL is worth trying, so it receives the failure.
                request = flow.throw(failure)
            else:
                request = flow.send(response)
    except StopIteration as done:
        result: T = done.value
        return result
    finally:
        flow.close()
