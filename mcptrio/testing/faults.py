"""What can go wrong with a message on its way, as values.

Handed to a :class:`mcptrio.testing.FaultyChannel`, mostly through the fixture ``mcp_connect``.
The one rule: nothing is left to chance. A fault meets messages by number, by method or by a test's own judgement; one
that comes by chance has a seed, so the same messages meet the same faults each time.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Literal, TypeAlias

from attrs import frozen

from mcptrio.protocol.messages import Message

__all__ = ["Fault", "Which", "cut", "delay", "drop", "duplicate", "garble", "sometimes"]

Which: TypeAlias = "int | str | Callable[[Message], bool] | None"
"""The messages a fault meets: the one with this number, counted from 1 in its direction; those of this method and the
answers to it, with ``*`` as a wildcard; those for which a function says so; ``None``: all of them."""


@frozen(kw_only=True)
class Fault:
    """One thing that goes wrong. Made by :func:`drop`, :func:`delay`, :func:`duplicate`, :func:`garble`, :func:`cut`.

    A value: a channel counts for itself.
    """

    kind: Literal["drop", "delay", "duplicate", "garble", "cut"]
    which: Which = None
    seconds: float = 0.0
    times: int = 1
    after: int | None = None
    after_bytes: int | None = None
    clean: bool = False


def drop(which: Which = None) -> Fault:
    """The message is lost."""
    return Fault(kind="drop", which=_checked(which))


def delay(seconds: float, which: Which = None) -> Fault:
    """The message takes so long, and what is behind it waits.

    ``delay(0.1)`` for all that arrives is a slow reader, ``delay(math.inf)`` one that reads no more.
    """
    if not seconds >= 0:
        raise ValueError(f"expected seconds, got {seconds!r}")
    return Fault(kind="delay", which=_checked(which), seconds=seconds)


def duplicate(which: Which = None, *, times: int = 2) -> Fault:
    """The message comes so many times."""
    if times < 1:
        raise ValueError(f"times: expected at least 1, got {times!r}")
    return Fault(kind="duplicate", which=_checked(which), times=times)


def garble(which: Which = None) -> Fault:
    """Half of the message's bytes are something else. Only for what arrives: wrap the other end for what is sent."""
    return Fault(kind="garble", which=_checked(which))


def cut(after: int | None = None, *, after_bytes: int | None = None, clean: bool = False) -> Fault:
    """The channel ends, in both directions.

    Args:
        after: messages that get through before.
        after_bytes: bytes that do; the message in which the last of them lies is lost.
        clean: whether who receives sees an end, as of a peer that has closed; otherwise a connection that broke.
    """
    if (after is None) == (after_bytes is None):
        raise ValueError("cut: expected one of after and after_bytes")
    if min(after or 0, after_bytes or 0) < 0:
        raise ValueError(f"cut: expected 0 or more, got {after if after is not None else after_bytes}")
    return Fault(kind="cut", after=after, after_bytes=after_bytes, clean=clean)


def sometimes(chance: float, *, seed: int) -> Callable[[Message], bool]:
    """Messages by chance, and for one seed always the same ones: ``drop(sometimes(0.1, seed=7))``.

    Make one for each channel: it draws anew for each message it sees.

    Args:
        chance: from 0 to 1.
    """
    if not 0 <= chance <= 1:
        raise ValueError(f"chance: expected a number from 0 to 1, got {chance!r}")
    draw = random.Random(seed)
    return lambda _: draw.random() < chance


def _checked(which: Which) -> Which:
    if isinstance(which, int) and which < 1:
        raise ValueError(f"which: expected the number of a message from 1, got {which!r}")
    return which
