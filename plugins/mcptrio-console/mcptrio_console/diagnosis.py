"""Describes the problems of the server in sentences, the most urgent first."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator
from typing import Final

import trio
from attrs import frozen

from mcptrio.serving import RequestStatus, ServerStatus

from .charts import TrafficFigures
from .samples import Samples
from .text import LISTENING, cut, duration, milliseconds, state_of, user_of

__all__ = ["Problem", "find_problems", "is_slow"]

_SLOW_SECONDS: Final = 10.0
_NEAR_DEADLINE: Final = 0.25
"""The share of a request's time that remains when its deadline is near."""
_MANY_FAILURES: Final = 0.05
_MAX_SLOW: Final = 5
_MINUTE: Final = 60.0
_LAG_SECONDS: Final = 0.1
_REFUSED: Final = {
    "stopping": "the server is stopping",
    "requests": "too many requests were in flight",
    "session": "a session had too many requests in flight",
    "memory": "the parameters of all requests were too large together",
}


@frozen
class Problem:
    """A problem of the server.

    Args:
        page: The page with the details.
    """

    text: str
    page: str
    is_urgent: bool = False


def find_problems(status: ServerStatus, samples: Samples) -> list[Problem]:
    """Return the current problems, and those of the last minute."""
    return [*_of_server(status), *_of_traffic(samples), *_of_requests(status)]


def is_slow(request: RequestStatus) -> bool:
    """Return whether an operator should look at a request, because it runs long or its deadline is near."""
    if request.method == LISTENING:
        return False
    seconds_left = request.deadline
    return request.age > _SLOW_SECONDS or (
        seconds_left is not None and seconds_left < _NEAR_DEADLINE * (request.age + seconds_left)
    )


def _of_server(status: ServerStatus) -> Iterator[Problem]:
    if status.draining:
        yield Problem("The server is stopping and accepts no new requests.", "tree", is_urgent=True)
    for plugin in status.plugins:
        if plugin.state == "quarantined":
            text = f"The plugin {cut(plugin.name)} failed and is left out: {cut(plugin.failure or 'no reason')}"
            yield Problem(text, "plugins", is_urgent=True)
    stores = status.stores
    if stores is not None and not stores.is_reachable:
        since = f" for {duration(stores.failing_since)}" if stores.failing_since else ""
        text = f"The shared store ({stores.kind}) has not been reachable{since}."
        yield Problem(text, "replicas", is_urgent=True)
    if status.threads.busy >= status.threads.limit:
        text = f"{status.threads.busy} threads are busy: sync functions of a plugin may wait for a free one."
        yield Problem(text, "tree")
    for plugin in status.plugins:
        if plugin.withheld:
            names = ", ".join(cut(name, 60) for name in list(plugin.withheld)[:3])
            yield Problem(f"{len(plugin.withheld)} tools of {cut(plugin.name)} are not offered: {names}", "plugins")


def _of_traffic(samples: Samples) -> Iterator[Problem]:
    minute = TrafficFigures.of(samples, _MINUTE)
    if minute.refusals:
        reason, _ = samples.refusals.most_common(1)[0]
        text = f"Requests refused in the last minute: {minute.refusals}, mostly because {_REFUSED[reason]}."
        yield Problem(text, "tree", is_urgent=True)
    if minute.failures > max(1, _MANY_FAILURES * minute.requests):
        since = trio.current_time() - _MINUTE
        failures = Counter((each.label, each.message or each.outcome) for at, each in samples.failures if at >= since)
        text = f"{minute.failures} of {minute.requests} requests failed in the last minute"
        if failures:
            (label, message), _ = failures.most_common(1)[0]
            text += f", mostly “{cut(label, 80)}”: {cut(message)}"
        yield Problem(text, "tools")
    lags = [sample.lag for sample in samples.recent(_MINUTE) if sample.lag is not None]
    if lags and max(lags) > _LAG_SECONDS:
        text = f"The event loop was blocked for up to {milliseconds(max(lags))} in the last minute."
        yield Problem(text, "log")


def _of_requests(status: ServerStatus) -> Iterator[Problem]:
    slow = [(request, session) for session in status.sessions for request in session.requests if is_slow(request)]
    slow.sort(key=lambda each: -each[0].age)
    for request, session in slow[:_MAX_SLOW]:
        deadline_note = f"; its deadline is in {duration(request.deadline)}" if request.deadline is not None else ""
        text = (
            f"“{cut(request.label, 80)}” of {user_of(request)} (session {session.number})"
            f" has been open for {duration(request.age)} and"
            f" {state_of(request, session.questions)}{deadline_note}."
        )
        yield Problem(text, "tree")
    if len(slow) > _MAX_SLOW:
        more = len(slow) - _MAX_SLOW
        yield Problem(f"{more} more {'request takes' if more == 1 else 'requests take'} long.", "tree")
