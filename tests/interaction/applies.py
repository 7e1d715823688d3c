"""The revisions and transports of a test, with the reason for each one that is left out.

The tests of this directory use it as a decorator, and their conftest reads it at collection. Combinations that are left
out are not collected, so nothing is reported as skipped.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from typing import Any, Final, TypeVar
from zlib import crc32

from attrs import frozen

__all__ = [
    "BATCHES",
    "BYTES",
    "CHANNELS",
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
"""The transports that a test can name."""

HANDSHAKE: Final = REVISIONS[:4]
MODERN: Final = REVISIONS[4:]
SINCE_2025_03: Final = REVISIONS[1:]
SINCE_2025_06: Final = REVISIONS[2:]
SINCE_2025_11: Final = REVISIONS[3:]
BATCHES: Final = ("2025-03-26",)
CHANNELS: Final = ("stdio", "sse", "websocket", "stream")
"""Transports with one message channel each, as memory has. A test that applies to stdio runs over all of them."""
BYTES: Final = ("stdio", "http")
"""Transports on which a client can write bytes that are not a message."""

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
    """Return the pairs of revision and transport that a test runs over.

    In memory, a test runs in each revision that applies. Over HTTP, it runs in the newest revision with a handshake
    and in the one without, because each has its own rules for headers, sessions and streams. The channels carry the
    messages of every revision alike, so a test runs in one revision over each of them, and the two revisions
    alternate: one pair of channels has the one, the other pair has the other, and the next test swaps them.
    """
    rules = getattr(function, _RULES, ())

    def allowed(transport: str) -> list[str]:
        return [each for each in REVISIONS if all(rule.allows(each, transport) for rule in rules)]

    in_memory = allowed("memory")
    yield from ((revision, "memory") for revision in in_memory)
    if not in_memory:
        # The older revisions are tested on this transport only.
        yield from ((revision, transport) for transport in BYTES for revision in allowed(transport))
        return
    yield from ((revision, "http") for revision in _newest(allowed("http")))
    turn = crc32(getattr(function, "__name__", "").encode())
    exceptions = [rule for rule in rules if isinstance(rule, _Exception)]
    for place, channel in enumerate(CHANNELS):
        over_channel = [each for each in allowed("stdio") if all(rule.allows(each, channel) for rule in exceptions)]
        if revisions := _newest(over_channel):
            yield revisions[(place + turn) % len(revisions)], channel


def _newest(revisions: Collection[str]) -> list[str]:
    """Return the newest revision with a handshake, and the one without."""
    return [each for each in revisions if each in HANDSHAKE][-1:] + [each for each in revisions if each in MODERN]


def _adder(rule: _Rule | _Exception) -> Callable[[F], F]:
    if not rule.reason:
        raise ValueError("expected a reason")

    def add(function: F) -> F:
        setattr(function, _RULES, (*getattr(function, _RULES, ()), rule))
        return function

    return add
