"""The ways to run a test: protocol revision, transport, clock, and with or without replay.

The pytest plugin derives the cases from the ``mcp`` markers of a test during collection. An impossible combination is
an error, with a suggestion how to fix it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from pathlib import Path, PurePath
from typing import Any, Final, Literal, TypeAlias, get_args

from attrs import evolve, frozen

from mcptrio.errors import ConfigError
from mcptrio.protocol.revisions.registry import HANDSHAKE_VERSIONS, LATEST, MODERN_VERSIONS
from mcptrio.protocol.revisions.registry import REVISIONS as _REVISIONS
from mcptrio.protocol.revisions.revision import Inputs

__all__ = ["HANDSHAKE", "MODERN", "REVISIONS", "TRANSPORTS", "Case", "Transport", "cases_of"]

Transport: TypeAlias = Literal["memory", "stdio", "http"]
"""The transport between client and server in a test."""

TRANSPORTS: Final[tuple[Transport, ...]] = get_args(Transport)
"""All transports: ``memory`` is a pair of channels in this process, ``stdio`` a child process, ``http`` a socket on
127.0.0.1."""
REVISIONS: Final = tuple(_REVISIONS)
"""All supported revisions, oldest first."""
HANDSHAKE: Final = HANDSHAKE_VERSIONS
"""The revisions with ``initialize``, in which the server sends requests to the client."""
MODERN: Final = MODERN_VERSIONS
"""The revisions in which the server asks for input inside a result, so that its handler may be replayed."""

_IN_MEMORY: Final = ("memory",)
_RECORDING_SUFFIX: Final = ".jsonl"
_KEYWORDS: Final = ("revisions", "transports", "replay", "autojump")
"""The keywords of the ``mcp`` marker."""


@frozen(kw_only=True)
class Case:
    """One way to run a test; the value of the fixture ``mcp_case``.

    Args:
        revision: The protocol revision of the client.
        transport: The transport between client and server.
        replay: Whether the server replays a handler after each question, instead of suspending it.
        recording: The file of a recorded server, which answers instead of the server under test; empty for none.
        autojump: Whether the clock jumps to the next deadline when every task waits.
    """

    revision: str = LATEST.version
    transport: Transport = "memory"
    replay: bool = False
    autojump: bool = False
    recording: str = ""

    def beside(self, test: Path) -> Case:
        """Return this case with the path of its recording, which is relative to the folder of a test."""
        return evolve(self, recording=str(test.parent / self.recording)) if self.recording else self

    def __str__(self) -> str:
        if self.recording:
            return f"recorded-{PurePath(self.recording).stem}"
        return f"{self.transport}-{self.revision}{'-replayed' if self.replay else ''}"


def cases_of(markers: Iterable[Mapping[str, Any]], *, everywhere: bool, fixtures: Sequence[str] = ()) -> list[Case]:
    """Return the ways to run a test.

    Args:
        markers: The keywords of its ``mcp`` markers, closest first. For each keyword the closest marker counts.
        everywhere: Whether a test without a marker runs in all revisions and over all transports; otherwise it runs in
            the newest revision in memory.
        fixtures: The names of the fixtures that the test uses.

    Raises:
        ConfigError: A marker has an unknown keyword or value, or the combination is impossible.
    """
    options: dict[str, Any] = {}
    for marker in markers:
        for keyword, value in marker.items():
            if keyword not in _KEYWORDS:
                raise ConfigError(f"mcp: expected one of {', '.join(_KEYWORDS)}, got {keyword!r}")
            # The closest marker comes first.
            options.setdefault(keyword, value)
    replay, autojump = options.get("replay", False), options.get("autojump", False)
    if autojump not in (True, False):
        raise ConfigError(f"mcp: autojump: expected True or False, got {autojump!r}")
    if isinstance(replay, str) and replay.endswith(_RECORDING_SUFFIX):
        return [_recorded_case(replay, options, fixtures)]
    if replay not in (True, False, "both"):
        raise ConfigError(f'mcp: replay: expected True, False, "both" or a file *{_RECORDING_SUFFIX}, got {replay!r}')
    cases = list(
        _combinations(
            _choose("revisions", options.get("revisions", REVISIONS if everywhere else MODERN[-1:]), REVISIONS),
            _choose("transports", options.get("transports", TRANSPORTS if everywhere else _IN_MEMORY), TRANSPORTS),
            replay=replay,
            autojump=autojump,
        )
    )
    if autojump or "autojump_clock" in fixtures:
        # Trio cannot see sockets and processes at work, so the clock would jump past every deadline meanwhile.
        _check_in_memory(cases, "autojump_clock" if "autojump_clock" in fixtures else "autojump")
    for fixture in ("mcp_wire", "mcp_tasks"):
        if fixture in fixtures:
            _check_in_memory(cases, fixture)
    if "mcp_server" in fixtures and any(case.transport == "stdio" for case in cases):
        raise ConfigError(
            'mcp_server: over stdio the server is in another process; leave it out: transports=["memory", "http"]'
        )
    return cases


def _recorded_case(recording: str, options: Mapping[str, Any], fixtures: Sequence[str]) -> Case:
    """Return the case of a recorded server.

    Raises:
        ConfigError: The combination is impossible.
    """
    for keyword in ("revisions", "transports"):
        if keyword in options:
            raise ConfigError(
                f"mcp: {keyword}: expected none, because a recorded server has its own; got {options[keyword]!r}"
            )
    if "mcp_server" in fixtures:
        raise ConfigError("mcp_server: not available for a recorded server; use mcp_client or mcp_connect")
    return Case(recording=recording, autojump=bool(options.get("autojump", False)))


def _combinations(
    revisions: Sequence[str], transports: Sequence[Transport], *, replay: bool | Literal["both"], autojump: bool
) -> Iterator[Case]:
    # In handshake revisions the server asks with requests, and no handlers are replayed.
    replayed = [version for version in revisions if _REVISIONS[version].inputs is Inputs.ROUND_TRIPS]
    if replay and not replayed:
        raise ConfigError(
            f"mcp: replay: nothing is replayed in {', '.join(revisions)}; expected {' or '.join(MODERN)} "
            "among the revisions"
        )
    for transport in transports:
        for revision in revisions:
            case = Case(revision=revision, transport=transport, autojump=autojump)
            if replay is not True or revision not in replayed:
                yield case
            if replay and revision in replayed:
                yield evolve(case, replay=True)


def _choose(keyword: str, value: Any, known: Sequence[str]) -> tuple[Any, ...]:
    """Return the value of a keyword as a tuple of known names.

    Raises:
        ConfigError: The value is no list, or has no name or an unknown one.
    """
    chosen = (value,) if isinstance(value, str) else value
    if not isinstance(chosen, Iterable):
        raise ConfigError(f"mcp: {keyword}: expected a list, got {value!r}")
    chosen = tuple(dict.fromkeys(chosen))
    for each in chosen:
        if each not in known:
            raise ConfigError(f"mcp: {keyword}: expected some of {', '.join(known)}, got {each!r}")
    if not chosen:
        raise ConfigError(f"mcp: {keyword}: expected some of {', '.join(known)}, got none")
    return chosen


def _check_in_memory(cases: Iterable[Case], option: str) -> None:
    """Check that all cases run in memory, for an option or a fixture that needs this.

    Raises:
        ConfigError: A case has another transport.
    """
    others = dict.fromkeys(case.transport for case in cases if case.transport != "memory")
    if others:
        raise ConfigError(
            f"{option}: only in memory, but the test runs over {' and '.join(others)} as well;"
            ' use transports=["memory"]'
        )
