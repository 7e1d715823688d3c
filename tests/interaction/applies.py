"""Where a test applies: the revisions and transports it runs over, and why not over the others.

Used by the tests of this directory as a decorator, read by their conftest when tests are collected. What does not apply
is never collected, so nothing is reported as skipped.
The one rule: whatever is left out has a reason next to it.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterable, Iterator
from typing import Any, Final, TypeVar

from attrs import frozen

__all__ = [
    "BATCHES",
    "BYTES",
    "CARRIED",
    "HANDSHAKE",
    "MODERN",
    "REVISIONS",
    "SINCE_2025_03",
    "SINCE_2025_06",
    "SINCE_2025_11",
    "TRANSPORTS",
    "combinations",
    "needs_real_time",
    "only",
    "real_time",
    "without",
]

F = TypeVar("F", bound=Callable[..., Any])

REVISIONS: Final = ("2024-11-05", "2025-03-26", "2025-06-18", "2025-11-25", "2026-07-28")
TRANSPORTS: Final = ("memory", "stdio", "http")
"""What a test may be written for."""

HANDSHAKE: Final = REVISIONS[:4]
MODERN: Final = REVISIONS[4:]
SINCE_2025_03: Final = REVISIONS[1:]
SINCE_2025_06: Final = REVISIONS[2:]
SINCE_2025_11: Final = REVISIONS[3:]
BATCHES: Final = ("2025-03-26",)
CARRIED: Final = ("sse", "websocket", "stream")
"""Channels of messages like memory and stdio, served by the same lines: what is tried over those two is tried over
each of these, in a revision with a handshake."""
BYTES: Final = ("stdio", "http")
"""Transports on which a client can write what is no message."""

_RULES = "__applies__"
_REAL_TIME = "__real_time__"


@frozen(kw_only=True)
class _Rule:
    revisions: Collection[str]
    transports: Collection[str]
    reason: str

    def allows(self, revision: str, transport: str) -> bool:
        return revision in self.revisions and transport in self.transports


@frozen(kw_only=True)
class _Exception:
    revisions: Collection[str]
    transports: Collection[str]
    reason: str

    def allows(self, revision: str, transport: str) -> bool:
        return not (revision in self.revisions and transport in self.transports)


def only(
    *, revisions: Collection[str] = REVISIONS, transports: Collection[str] = TRANSPORTS, because: str
) -> Callable[[F], F]:
    """Run the test over these revisions and transports only."""
    return _adder(_Rule(revisions=revisions, transports=transports, reason=because))


def without(
    *, revisions: Collection[str] = REVISIONS, transports: Collection[str] = TRANSPORTS, because: str
) -> Callable[[F], F]:
    """Do not run the test where both the revision and the transport are among these."""
    return _adder(_Exception(revisions=revisions, transports=transports, reason=because))


def real_time(*, because: str) -> Callable[[F], F]:
    """Run the test on a real clock in memory too."""
    if not because:
        raise ValueError("expected a reason")

    def mark(function: F) -> F:
        setattr(function, _REAL_TIME, because)
        return function

    return mark


def needs_real_time(function: object) -> bool:
    return hasattr(function, _REAL_TIME)


def combinations(function: object) -> Iterator[tuple[str, str]]:
    """The pairs of revision and transport that a test runs over.

    In memory each revision that applies; over each other transport the newest one with a handshake and the one without:
    what carries the messages of one revision with a handshake carries those of another.
    """
    rules = getattr(function, _RULES, ())

    def allowed(transport: str) -> list[str]:
        return [each for each in REVISIONS if all(rule.allows(each, transport) for rule in rules)]

    def newest(revisions: Iterable[str]) -> list[str]:
        return [each for each in revisions if each in HANDSHAKE][-1:]

    yield from ((revision, "memory") for revision in allowed("memory"))
    for transport in ("stdio", "http"):
        revisions = allowed(transport)
        # Without memory there is no other place for the older ones.
        shown = newest(revisions) + [each for each in revisions if each in MODERN] if allowed("memory") else revisions
        yield from ((revision, transport) for revision in shown)
    for revision in newest(each for each in allowed("memory") if each in allowed("stdio")):
        yield from ((revision, transport) for transport in CARRIED)


def _adder(rule: _Rule | _Exception) -> Callable[[F], F]:
    if not rule.reason:
        raise ValueError("expected a reason")

    def add(function: F) -> F:
        setattr(function, _RULES, (*getattr(function, _RULES, ()), rule))
        return function

    return add
