"""Every hostile case ends as the standards require, and affects no other connection.

All cases are played at the same time, once; the tests then check the outcomes of their cases.
"""

from __future__ import annotations

from collections import Counter
from types import ModuleType

import pytest
import trio
from attrs import frozen

from tests.hostile import chunks, conversations, fields, frames, framing, request_lines, tls
from tests.hostile.cases import Case
from tests.hostile.frames import FrameCase
from tests.hostile.playing import HealthyClient, PlayedCase, healthy_clients, judge, play_all, state
from tests.hostile.serving import HostileServer
from tests.hostile.sockets import ReceivedFrames, judge_frames, play_all_frames

__all__: list[str] = []

TABLES = (request_lines, fields, framing, chunks, conversations, tls)
CASES: tuple[Case, ...] = tuple(case for table in TABLES for case in table.CASES)
FRAMES: tuple[FrameCase, ...] = frames.CASES


@frozen
class Show:
    """Everything that happened while the cases were played."""

    played: dict[str, PlayedCase]
    heard: dict[str, ReceivedFrames]
    healthy_clients: list[HealthyClient]
    smuggled: list[str]
    truncated: list[str]
    running: int


@pytest.fixture(scope="module")
def show(server: HostileServer) -> Show:
    async def main() -> Show:
        with trio.fail_after(400):
            async with healthy_clients(server) as clients, trio.open_nursery() as nursery:
                heard: dict[str, ReceivedFrames] = {}

                async def listen() -> None:
                    heard.update(await play_all_frames(FRAMES, server.ports))

                nursery.start_soon(listen)
                played = await play_all(CASES, server.ports)
            counters = await state(server.ports["roomy"])
        return Show(played, heard, clients, counters["smuggled"], counters["truncated"], counters["running"])

    return trio.run(main)


@pytest.mark.parametrize("table", TABLES, ids=[table.__name__.rpartition(".")[2] for table in TABLES])
def test_hostile_requests_end_as_required(table: ModuleType, show: Show) -> None:
    """All cases of a table in one test: a test for each would take longer than the case."""
    complaints = [
        f"{case.name}: {problem} ({case.why})"
        for case in table.CASES
        if (problem := judge(case, show.played[case.name]))
    ]

    assert not complaints, "\n".join(complaints)


def test_hostile_frames_end_as_required(show: Show) -> None:
    complaints = [
        f"{case.name}: {problem} ({case.why})"
        for case in FRAMES
        if (problem := judge_frames(case, show.heard[case.name]))
    ]

    assert not complaints, "\n".join(complaints)


def test_smuggled_requests_are_not_served(show: Show) -> None:
    assert show.smuggled == []


def test_healthy_clients_are_served_during_the_cases(show: Show) -> None:
    for client in show.healthy_clients:
        assert not client.failure, client
        assert client.answered > 20, client


def test_nothing_is_in_flight_after_the_cases(show: Show) -> None:
    assert show.running == 0


def test_every_case_has_a_unique_name() -> None:
    names = Counter(case.name for case in (*CASES, *FRAMES))

    assert [name for name, count in names.items() if count > 1] == []
