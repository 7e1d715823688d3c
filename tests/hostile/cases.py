"""A hostile client's bytes, the allowed results, and the reason for each.

The tables of this directory make the cases, and :mod:`tests.hostile.playing` plays them. A case is data: the allowed
statuses, the end of the connection, and the section that requires them. Cases do not repeat what holds for all of them:
other clients and the process are not affected.
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
    """Send nothing for a while."""

    seconds: float


@frozen
class Await:
    """Send nothing until this number of responses is complete; interim ones (1xx) count."""

    answers: int


@frozen
class Drip:
    """Bytes that are sent one by one until the end, or until the server closes the connection."""

    data: bytes
    every: float


@frozen
class _End:
    reset: bool


HALF_CLOSE: Final = _End(False)
"""Shut down sending, and continue to receive."""
RESET: Final = _End(True)
"""Close with RST, without reading."""

Say: TypeAlias = bytes | Pause | Await | Drip | _End


@frozen(kw_only=True)
class Outcome:
    """One allowed result of a case.

    Args:
        answers: For each response, in order, the allowed statuses.
        then: ``open`` if the connection serves another request, ``closed`` if the server closes it.
        sees: The application's report of each request with status 200; see :mod:`tests.hostile.application`. Its
            ``header`` is a name and its values.
        interim: The statuses below 200 that precede the responses.
    """

    answers: tuple[frozenset[int], ...]
    then: Literal["open", "closed"]
    sees: tuple[Mapping[str, Any], ...] = ()
    interim: tuple[int, ...] = ()

    def seeing(self, *requests: Mapping[str, Any]) -> Outcome:
        return evolve(self, sees=requests)

    def after(self, *statuses: int) -> Outcome:
        """Require these interim responses before."""
        return evolve(self, interim=statuses)


def served(*statuses: int | frozenset[int]) -> Outcome:
    """The responses arrive, and the connection stays open."""
    return Outcome(answers=_sets(statuses or (200,)), then="open")


def served_and_closed(*statuses: int | frozenset[int]) -> Outcome:
    """The responses arrive, and the server closes the connection."""
    return Outcome(answers=_sets(statuses or (200,)), then="closed")


def refused(*any_of: int, after: tuple[int, ...] = ()) -> Outcome:
    """Return one of these statuses as the last response: nothing can follow invalid input (RFC 9112, 9.6).

    Args:
        after: The statuses of the responses before it.
    """
    return Outcome(answers=(*_sets(after), frozenset(any_of or (400,))), then="closed")


def dropped(*after: int) -> Outcome:
    """The server closes the connection without a response, except to the requests before."""
    return Outcome(answers=_sets(after), then="closed")


def _sets(statuses: tuple[int | frozenset[int], ...]) -> tuple[frozenset[int], ...]:
    return tuple(frozenset({each}) if isinstance(each, int) else each for each in statuses)


@frozen(kw_only=True)
class Case:
    """Bytes that a client sends to a server, and the results that are allowed.

    Args:
        name: A unique name; part of the test's id.
        says: The sent bytes, in order.
        allowed: The allowed results.
        why: The section that requires them, or the consequence otherwise.
        port: The server: ``roomy`` (ordinary limits), ``tight`` (deadlines of a few seconds), ``tls``.
        deaf: Seconds before the client starts to read.
        head: Whether the requests are HEAD, whose responses have no body.
        raw: Whether the response is not parsed. It must only end, without the last chunk of a complete response.
        takes: Minimum and maximum seconds until the connection is closed.
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
    """For the whole case; a case that fails by hanging takes this long."""


def get(target: bytes = b"/echo", *fields: bytes, version: bytes = b"HTTP/1.1", host: bytes = b"a") -> bytes:
    """A well-formed GET, if its parts are."""
    return b"GET %b %b\r\nhost: %b\r\n%b\r\n" % (target, version, host, _lines(fields))


def post(*fields: bytes, body: bytes = b"", target: bytes = b"/echo", version: bytes = b"HTTP/1.1") -> bytes:
    """A POST with these fields, which contain the framing."""
    return b"POST %b %b\r\nhost: a\r\n%b\r\n%b" % (target, version, _lines(fields), body)


def _lines(fields: tuple[bytes, ...]) -> bytes:
    return b"".join([line + b"\r\n" for line in fields])
