"""What a hostile client says, what has to come back, and why.

Made by the tables of this directory, played by :mod:`tests.hostile.playing`.
The one rule: a case is data. It names the status (or the several that the standard allows), how the connection ends,
and the section that says so; what every case has to leave alone (other clients, the process) is not repeated in it.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Literal, TypeAlias

from attrs import evolve, field, frozen

__all__ = [
    "HALF_CLOSE",
    "RESET",
    "Await",
    "Case",
    "Drip",
    "Outcome",
    "Pause",
    "Say",
    "dropped",
    "get",
    "post",
    "refused",
    "served",
    "served_and_closed",
]


@frozen
class Pause:
    """Say nothing for a while."""

    seconds: float


@frozen
class Await:
    """Say nothing until so many answers are complete; interim ones (1xx) count."""

    answers: int


@frozen
class Drip:
    """Byte by byte, until it is said or the server has closed."""

    data: bytes
    every: float


@frozen
class _End:
    reset: bool


HALF_CLOSE: Final = _End(False)
"""The end of what the client says. It still listens."""
RESET: Final = _End(True)
"""Close with RST. Nobody listens any more."""

Say: TypeAlias = bytes | Pause | Await | Drip | _End


@frozen(kw_only=True)
class Outcome:
    """One way in which a case may end.

    Args:
        answers: for each response, in order, the statuses allowed.
        then: ``open``: the connection serves another request; ``closed``: the server closes it.
        sees: what the application must have seen of the requests that it answered with 200, by answer; see
            :mod:`tests.hostile.application`. ``header`` is a name and its values.
        interim: the statuses below 200 that come with them.
    """

    answers: tuple[frozenset[int], ...]
    then: Literal["open", "closed"]
    sees: tuple[Mapping[str, Any], ...] = ()
    interim: tuple[int, ...] = ()

    def seeing(self, *requests: Mapping[str, Any]) -> Outcome:
        return evolve(self, sees=requests)

    def after(self, *statuses: int) -> Outcome:
        """With these interim answers."""
        return evolve(self, interim=statuses)


def served(*statuses: int | frozenset[int]) -> Outcome:
    """Answered, and ready for more."""
    return Outcome(answers=_sets(statuses or (200,)), then="open")


def served_and_closed(*statuses: int | frozenset[int]) -> Outcome:
    """Answered; no more on this connection."""
    return Outcome(answers=_sets(statuses or (200,)), then="closed")


def refused(*any_of: int, after: tuple[int, ...] = ()) -> Outcome:
    """One of these statuses, and nothing more. What cannot be parsed cannot be followed by anything (RFC 9112, 9.6).

    Args:
        after: the statuses of the requests before it.
    """
    return Outcome(answers=(*_sets(after), frozenset(any_of or (400,))), then="closed")


def dropped(*after: int) -> Outcome:
    """Closed without an answer, but for the requests before."""
    return Outcome(answers=_sets(after), then="closed")


def _sets(statuses: tuple[int | frozenset[int], ...]) -> tuple[frozenset[int], ...]:
    return tuple(frozenset({each}) if isinstance(each, int) else each for each in statuses)


@frozen(kw_only=True)
class Case:
    """
    Args:
        name: unique; part of the test's id.
        says: what goes over the wire, in order.
        allowed: the ways it may end.
        why: where that is written, or what would happen otherwise.
        port: which of the servers: ``roomy`` (ordinary limits), ``tight`` (deadlines of a few seconds), ``tls``.
        deaf: seconds in which the client reads nothing.
        head: the answers are to HEAD, so they have no body.
        raw: what comes back is not looked at; it only has to end, and not with the last chunk of a whole answer.
        takes: seconds until the connection is closed, at least and at most.
    """

    name: str
    says: tuple[Say, ...]
    allowed: tuple[Outcome, ...]
    why: str
    port: str = "roomy"
    deaf: float = 0.0
    head: bool = False
    raw: bool = False
    takes: tuple[float, float] | None = None
    seconds: float = field(default=90.0)
    """For the whole case; a case that fails by hanging takes so long."""


def get(target: bytes = b"/echo", *fields: bytes, version: bytes = b"HTTP/1.1", host: bytes = b"a") -> bytes:
    """A well-formed GET, as far as its parts are."""
    return b"GET %b %b\r\nhost: %b\r\n%b\r\n" % (target, version, host, _lines(fields))


def post(*fields: bytes, body: bytes = b"", target: bytes = b"/echo", version: bytes = b"HTTP/1.1") -> bytes:
    """A POST with these fields; the framing is among them."""
    return b"POST %b %b\r\nhost: a\r\n%b\r\n%b" % (target, version, _lines(fields), body)


def _lines(fields: tuple[bytes, ...]) -> bytes:
    return b"".join([line + b"\r\n" for line in fields])
