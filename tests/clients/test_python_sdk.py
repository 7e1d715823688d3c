"""The official Python SDK's client, under asyncio as its users run it and under Trio, in every revision it supports."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from tests.clients.behaviours import HANDSHAKE, MODERN, REVISIONS, SSE, Run, behaviours_of, expected, runs_of
from tests.clients.python_sdk import Target, try_behaviours
from tests.clients.running import Reports, problems_in, run_script, serve_command

__all__: list[str] = []

RUNS = runs_of("asyncio", REVISIONS, sse=SSE)
TRIO_RUNS = runs_of("trio", (HANDSHAKE[-1], MODERN))


@pytest.fixture(scope="module")
def log(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("python-sdk") / "log"


@pytest.fixture(scope="module")
def reports(url: str, log: Path) -> Reports:
    return run_script([sys.executable, "-m", "tests.clients.python_sdk"], RUNS, url, log)


@pytest.mark.parametrize("run", RUNS, ids=str)
def test_asyncio_client_sees_the_expected_behaviour(reports: Reports, run: Run, subtests: pytest.Subtests) -> None:
    for behaviour, saw in reports[str(run)].items():
        with subtests.test(behaviour):
            assert saw == {"saw": expected(behaviour, run)}, saw.get("failed", "")


def test_servers_exit_when_their_clients_close_the_input(reports: Reports, log: Path) -> None:
    """They exit at the end of their input, not by the signal that the SDK sends later."""
    assert len(reports) == len(RUNS)
    assert not problems_in(log)
    assert "SIGTERM" not in log.read_text()


@pytest.mark.filterwarnings(
    "ignore:Async generator 'http(x|core)2:ResourceWarning"
)  # the SDK leaves them to the garbage collector
@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("run", TRIO_RUNS, ids=str)
async def test_trio_client_sees_the_expected_behaviour(run: Run, url: str, subtests: pytest.Subtests) -> None:
    """The client runs in a process where warnings are errors, and leaked tasks or sockets fail the test."""
    target = Target(url=url) if run.transport == "http" else Target(command=serve_command("stdio"))

    report = await try_behaviours(target, run.revision, behaviours_of(run))

    for behaviour, saw in report.items():
        with subtests.test(behaviour):
            assert saw == {"saw": expected(behaviour, run)}, saw.get("failed", "")
