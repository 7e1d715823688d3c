"""Faults of a connection, as values for :class:`mcptrio.testing.FaultyChannel`.

Tests usually pass them to the fixture ``mcp_connect``. Faults are reproducible: they select messages by number, by
method or with a function, and a random selection needs a seed.
"""

from __future__ import annotations

import random
from collections.abc import Callable
from typing import Literal, TypeAlias

from attrs import frozen

from mcptrio.protocol.messages import Message

__all__ = ["Fault", "Which", "cut", "delay", "drop", "duplicate", "garble", "sometimes"]

Which: TypeAlias = "int | str | Callable[[Message], bool] | None"
"""The messages that a fault affects: the message with this number, counted from 1 in its direction; messages of this
method and the answers to them, with ``*`` as a wildcard; messages for which a function returns True; ``None`` for
all."""


@frozen(kw_only=True)
class Fault:
    """A fault of a connection. Made by :func:`drop`, :func:`delay`, :func:`duplicate`, :func:`garble`, :func:`cut`.

    A fault has no state, so several channels can use the same fault. Each channel counts its own messages.
    """

    kind: Literal["drop", "delay", "duplicate", "garble", "cut"]
    which: Which = None
    seconds: float = 0.0
    times: int = 1
    after: int | None = None
    after_bytes: int | None = None
    clean: bool = False


def drop(which: Which = None) -> Fault:
    """Return a fault that loses messages."""
    return Fault(kind="drop", which=_check_selection(which))


def delay(seconds: float, which: Which = None) -> Fault:
    """Return a fault that delays messages, and all messages behind them.

    ``delay(0.1)`` for everything that is received simulates a slow reader, ``delay(math.inf)`` one that has stopped
    reading.

    Args:
        seconds: The delay of each message, at least 0.
        which: The messages to delay.
    """
    # "not >=" rejects NaN as well.
    if not seconds >= 0:
        raise ValueError(f"expected seconds, got {seconds!r}")
    return Fault(kind="delay", which=_check_selection(which), seconds=seconds)


def duplicate(which: Which = None, *, times: int = 2) -> Fault:
    """Return a fault that delivers messages several times.

    Args:
        which: The messages to repeat.
        times: The number of times that each one is delivered, at least 1.
    """
    if times < 1:
        raise ValueError(f"times: expected at least 1, got {times!r}")
    return Fault(kind="duplicate", which=_check_selection(which), times=times)


def garble(which: Which = None) -> Fault:
    """Return a fault that overwrites half the bytes of a message.

    It affects received messages only; to garble a sent message, wrap the receiving end.
    """
    return Fault(kind="garble", which=_check_selection(which))


def cut(after: int | None = None, *, after_bytes: int | None = None, clean: bool = False) -> Fault:
    """Return a fault that closes the channel in both directions.

    Args:
        after: Number of messages to deliver before.
        after_bytes: Number of bytes to deliver before. The message that contains the last of them is lost, unless it
            ends there.
        clean: Whether the receiver sees a regular end, as if the peer had closed the channel, instead of a broken
            connection.
    """
    if (after is None) == (after_bytes is None):
        raise ValueError("cut: expected either after or after_bytes, got both or neither")
    if min(after or 0, after_bytes or 0) < 0:
        raise ValueError(f"cut: expected 0 or more, got {after if after is not None else after_bytes}")
    return Fault(kind="cut", after=after, after_bytes=after_bytes, clean=clean)


def sometimes(chance: float, *, seed: int) -> Callable[[Message], bool]:
    """Return a random selection of messages, the same for the same seed: ``drop(sometimes(0.1, seed=7))``.

    Create a selection for each channel, because a selection takes the next random number for each message.

    Args:
        chance: Probability from 0 to 1.
        seed: Seed of the random numbers.
    """
    if not 0 <= chance <= 1:
        raise ValueError(f"chance: expected a number from 0 to 1, got {chance!r}")
    draw = random.Random(seed)
    return lambda _: draw.random() < chance


def _check_selection(which: Which) -> Which:
    """Return a selection of messages if it is valid.

    Raises:
        ValueError: The number of a message is below 1.
    """
    if isinstance(which, int) and which < 1:
        raise ValueError(f"which: expected the number of a message from 1, got {which!r}")
    return which
