"""Where a test runs: in which revision, over which transport, on which clock, with or without parking.

Read from the ``mcp`` markers of a test when it is collected.
The one rule: a combination that cannot work is refused before anything runs, with the words that would mend it.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Final, Literal, TypeAlias, get_args

from attrs import field, frozen

from mcptrio.errors import ConfigError
from mcptrio.protocol.revisions.registry import HANDSHAKE_VERSIONS, LATEST, MODERN_VERSIONS
from mcptrio.protocol.revisions.registry import REVISIONS as _REVISIONS
from mcptrio.protocol.revisions.revision import Inputs

__all__ = ["HANDSHAKE", "MODERN", "REVISIONS", "TRANSPORTS", "Case", "Transport", "cases_of"]

Transport: TypeAlias = Literal["memory", "stdio", "http"]
"""What a test case runs over."""

TRANSPORTS: Final[tuple[Transport, ...]] = get_args(Transport)
"""``memory``: channels of this process. ``stdio``: a child process. ``http``: a socket on 127.0.0.1."""
REVISIONS: Final = tuple(_REVISIONS)
"""From the oldest to the newest."""
HANDSHAKE: Final = HANDSHAKE_VERSIONS
"""The revisions with ``initialize``, in which a server asks its client by a request of its own."""
MODERN: Final = MODERN_VERSIONS
"""The revisions in which a server asks inside a result, and its handler may be replayed."""

_IN_MEMORY: Final = ("memory",)
_WORDS: Final = ("revisions", "transports", "replay", "autojump")


@frozen(kw_only=True)
class Case:
    """One way in which a test is run; the fixture ``mcp_case``.

    Args:
        revision: what the client speaks.
        transport: how it is connected.
        replay: whether the server parks nothing, so that every question is followed by a replay of the handler.
        autojump: whether the clock jumps to the next deadline as soon as nothing else can happen.
    """

    revision: str = LATEST.version
    transport: Transport = "memory"
    replay: bool = False
    autojump: bool = False

    def __str__(self) -> str:
        return f"{self.transport}-{self.revision}{'-replayed' if self.replay else ''}"


def cases_of(markers: Iterable[Mapping[str, Any]], *, everywhere: bool, fixtures: Sequence[str] = ()) -> list[Case]:
    """The ways in which a test is run.

    Args:
        markers: the keywords of its ``mcp`` markers, the closest first; for each word the closest counts.
        everywhere: whether what no marker says means every revision and transport; otherwise the newest, in memory.
        fixtures: the names of the fixtures it uses.

    Raises:
        ConfigError: a marker has another word or value, or they do not go together.
    """
    wanted = _Wanted.of(markers, everywhere=everywhere)
    jumps = wanted.autojump or "autojump_clock" in fixtures
    cases = list(wanted.cases())
    if jumps:
        # A clock that jumps while a socket or a process is at work runs past every deadline.
        _only_in_memory(cases, "autojump_clock" if "autojump_clock" in fixtures else "autojump")
    if "mcp_wire" in fixtures:
        _only_in_memory(cases, "mcp_wire")
    if "mcp_server" in fixtures and any(case.transport == "stdio" for case in cases):
        raise ConfigError(
            'mcp_server: over stdio the server is in another process; leave it out: transports=["memory", "http"]'
        )
    return cases


@frozen(kw_only=True)
class _Wanted:
    revisions: tuple[str, ...]
    transports: tuple[Transport, ...]
    replay: bool | Literal["both"] = field(default=False)
    autojump: bool = field(default=False)

    @classmethod
    def of(cls, markers: Iterable[Mapping[str, Any]], *, everywhere: bool) -> _Wanted:
        said: dict[str, Any] = {}
        for marker in markers:
            for word, value in marker.items():
                if word not in _WORDS:
                    raise ConfigError(f"mcp: expected one of {', '.join(_WORDS)}, got {word!r}")
                said.setdefault(word, value)
        replay, autojump = said.get("replay", False), said.get("autojump", False)
        if replay not in (True, False, "both"):
            raise ConfigError(f'mcp: replay: expected True, False or "both", got {replay!r}')
        if autojump not in (True, False):
            raise ConfigError(f"mcp: autojump: expected True or False, got {autojump!r}")
        transports: Any = _chosen(
            "transports", said.get("transports", TRANSPORTS if everywhere else _IN_MEMORY), TRANSPORTS
        )
        return cls(
            revisions=_chosen("revisions", said.get("revisions", REVISIONS if everywhere else MODERN[-1:]), REVISIONS),
            transports=transports,
            replay=replay,
            autojump=autojump,
        )

    def cases(self) -> Iterator[Case]:
        replayed = [version for version in self.revisions if _REVISIONS[version].inputs is Inputs.ROUND_TRIPS]
        if self.replay and not replayed:
            raise ConfigError(
                f"mcp: replay: nothing is replayed in {', '.join(self.revisions)}; expected {' or '.join(MODERN)} "
                "among the revisions"
            )
        for transport in self.transports:
            for revision in self.revisions:
                case = Case(revision=revision, transport=transport, autojump=self.autojump)
                if self.replay is not True or revision not in replayed:
                    yield case
                if self.replay and revision in replayed:
                    yield Case(revision=revision, transport=transport, autojump=self.autojump, replay=True)


def _chosen(word: str, value: Any, known: Sequence[str]) -> tuple[Any, ...]:
    chosen = (value,) if isinstance(value, str) else value
    if not isinstance(chosen, Iterable):
        raise ConfigError(f"mcp: {word}: expected a list, got {value!r}")
    chosen = tuple(dict.fromkeys(chosen))
    for each in chosen:
        if each not in known:
            raise ConfigError(f"mcp: {word}: expected some of {', '.join(known)}, got {each!r}")
    if not chosen:
        raise ConfigError(f"mcp: {word}: expected some of {', '.join(known)}, got none")
    return chosen


def _only_in_memory(cases: Iterable[Case], what: str) -> None:
    others = dict.fromkeys(case.transport for case in cases if case.transport != "memory")
    if others:
        raise ConfigError(
            f'{what}: only in memory, but the test runs over {" and ".join(others)} as well; say transports=["memory"]'
        )
