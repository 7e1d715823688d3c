"""The official Python SDK's client, under asyncio as its users run it and under Trio, in every revision it speaks."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import Any

import pytest

from tests.clients.behaviours import HANDSHAKE, MODERN, REVISIONS, TRANSPORTS, Run, behaviours_of, expected
from tests.clients.python_sdk import Target, run
from tests.clients.running import HERE, complaints, run_script, serve_command

__all__: list[str] = []

RUNS = [Run(revision=revision, transport=transport) for revision in REVISIONS for transport in TRANSPORTS]
TRIO_RUNS = [
    Run(revision=revision, transport=transport) for revision in (HANDSHAKE[-1], MODERN) for transport in TRANSPORTS
]


@pytest.fixture(scope="module")
def report(
    request: pytest.FixtureRequest, url: str, tmp_path_factory: pytest.TempPathFactory
) -> tuple[dict[str, dict[str, Any]], Path]:
    """What a client saw under asyncio, in a process of its own, and the log."""
    run: Run = request.param
    log = tmp_path_factory.mktemp("python-sdk") / "log"
    report = run_script(
        [sys.executable, HERE / "python_sdk.py"],
        revision=run.revision,
        url=url if run.transport == "http" else None,
        behaviours=behaviours_of(run),
        log=log,
    )
    return report, log


@pytest.mark.parametrize(
    ("report", "run", "behaviour"),
    [pytest.param(run, run, behaviour, id=f"{run}-{behaviour}") for run in RUNS for behaviour in behaviours_of(run)],
    indirect=["report"],
)
def test_asyncio_client_sees(report: tuple[dict[str, dict[str, Any]], Path], run: Run, behaviour: str) -> None:
    assert report[0][behaviour] == {"saw": expected(behaviour, run)}, report[0][behaviour].get("failed")


@pytest.mark.parametrize(
    "report", [pytest.param(run, id=str(run)) for run in RUNS if run.transport == "stdio"], indirect=True
)
def test_server_leaves_when_its_client_does(report: tuple[dict[str, dict[str, Any]], Path]) -> None:
    """At the end of its input, not by the signal that the SDK sends two seconds later."""
    assert "plugin entered" in report[1].read_text()
    assert not complaints(report[1])


@pytest.mark.filterwarnings("ignore::mcp.shared.exceptions.MCPDeprecationWarning")
@pytest.mark.parametrize("case", TRIO_RUNS, ids=str)
async def test_trio_client_sees(case: Run, url: str) -> None:
    """The same, and everything of it in a process where warnings are errors and nothing may be left behind."""
    target = Target(url=url) if case.transport == "http" else Target(command=serve_command("stdio"))

    report = await run(target, case.revision, behaviours_of(case))

    wanted = {behaviour: {"saw": expected(behaviour, case)} for behaviour in behaviours_of(case)}
    assert report == wanted, "\n".join(seen.get("failed", "") for seen in report.values())
