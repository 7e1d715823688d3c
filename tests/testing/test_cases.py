"""Markers choose the revision and transport of a test; impossible combinations get an error with a fix."""

from __future__ import annotations

from typing import Any

import pytest

from mcptrio import ConfigError
from mcptrio.testing import HANDSHAKE, MODERN, REVISIONS, TRANSPORTS, Case, cases_of

__all__: list[str] = []


def names(*markers: dict[str, Any], everywhere: bool = False, fixtures: tuple[str, ...] = ()) -> list[str]:
    return [str(case) for case in cases_of(markers, everywhere=everywhere, fixtures=fixtures)]


def test_unmarked_test_runs_once_or_in_every_case() -> None:
    assert names() == ["memory-2026-07-28"]
    assert names(everywhere=True) == [f"{transport}-{revision}" for transport in TRANSPORTS for revision in REVISIONS]
    assert len(names(everywhere=True)) == 15
    assert HANDSHAKE + MODERN == REVISIONS


def test_closest_marker_applies_to_each_option() -> None:
    assert names({"revisions": "2024-11-05"}, {"revisions": MODERN, "transports": ["stdio"]}) == ["stdio-2024-11-05"]
    assert names({"transports": ("http",), "revisions": iter(REVISIONS[:2])}, everywhere=True) == [
        "http-2024-11-05",
        "http-2025-03-26",
    ]
    assert names({"revisions": ["2024-11-05", "2024-11-05"]}) == ["memory-2024-11-05"]


def test_replay_is_a_separate_case_if_supported() -> None:
    assert names({"replay": True}) == ["memory-2026-07-28-replayed"]
    assert names({"replay": "both", "revisions": REVISIONS[-2:]}) == [
        "memory-2025-11-25",
        "memory-2026-07-28",
        "memory-2026-07-28-replayed",
    ]
    assert names({"replay": True, "revisions": REVISIONS[-2:]}) == ["memory-2025-11-25", "memory-2026-07-28-replayed"]


def test_autojump_clock_is_part_of_each_case() -> None:
    assert cases_of([{"autojump": True, "replay": True}], everywhere=False) == [Case(replay=True, autojump=True)]


@pytest.mark.parametrize(
    ("marker", "fixtures", "problem"),
    [
        (
            {"revision": "2025-11-25"},
            (),
            "mcp: expected one of revisions, transports, replay, autojump, got 'revision'",
        ),
        (
            {"revisions": ["2025-11-26"]},
            (),
            "mcp: revisions: expected some of 2024-11-05, .*2026-07-28, got '2025-11-26'",
        ),
        ({"revisions": 7}, (), "mcp: revisions: expected a list, got 7"),
        ({"revisions": []}, (), "mcp: revisions: expected some of 2024-11-05, .*, got none"),
        ({"transports": "tcp"}, (), "mcp: transports: expected some of memory, stdio, http, got 'tcp'"),
        ({"replay": "all"}, (), "mcp: replay: expected True, False, \"both\" or a file .*.jsonl, got 'all'"),
        ({"replay": "a.jsonl", "revisions": REVISIONS}, (), "mcp: revisions: expected none, because a recorded server"),
        ({"replay": "a.jsonl"}, ("mcp_server",), "mcp_server: not available for a recorded server"),
        ({"replay": True, "revisions": HANDSHAKE}, (), "mcp: replay: nothing is replayed in 2024-11-05, .*2026-07-28"),
        ({"autojump": 1.5}, (), "mcp: autojump: expected True or False, got 1.5"),
        ({"autojump": True, "transports": TRANSPORTS}, (), "autojump: only in memory, .*over stdio and http as well"),
        ({"transports": "http"}, ("autojump_clock",), r'autojump_clock: only in memory, .*use transports=\["memory"\]'),
        ({"transports": "stdio"}, ("mcp_wire",), "mcp_wire: only in memory, but the test runs over stdio"),
        ({"transports": "stdio"}, ("mcp_server",), "mcp_server: over stdio the server is in another process"),
    ],
)
def test_invalid_case_marker_is_refused(marker: dict[str, Any], fixtures: tuple[str, ...], problem: str) -> None:
    with pytest.raises(ConfigError, match=f"^{problem}"):
        cases_of([marker], everywhere=False, fixtures=fixtures)
