"""The clients of the official TypeScript SDKs on Node: version 2 in every revision, version 1 in its own.

Without Node 22 the tests fail and name the package to install: a run without them must not look like a success.
"""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.clients.behaviours import HANDSHAKE, REVISIONS, SSE, Run, expected, runs_of
from tests.clients.running import HERE, Reports, problems_in, run_script
from tests.node import find_node

__all__: list[str] = []

FOLDER = HERE / "typescript"
RUNS = {"v1": runs_of("typescript-1", HANDSHAKE, sse=SSE), "v2": runs_of("typescript-2", REVISIONS, sse=SSE)}


@pytest.fixture(scope="module")
def node() -> tuple[Path, Path]:
    """Node, and the folder of the packages."""
    node = find_node()
    return node.binary, node.install(FOLDER)


@pytest.fixture(scope="module")
def logs(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return tmp_path_factory.mktemp("typescript-sdk")


@pytest.fixture(scope="module")
def v1(node: tuple[Path, Path], url: str, logs: Path) -> Reports:
    return run_script([node[0], FOLDER / "v1.mjs", node[1]], RUNS["v1"], url, logs / "v1")


@pytest.fixture(scope="module")
def v2(node: tuple[Path, Path], url: str, logs: Path) -> Reports:
    return run_script([node[0], FOLDER / "v2.mjs", node[1]], RUNS["v2"], url, logs / "v2")


@pytest.mark.parametrize(
    ("script", "run"), [pytest.param(script, run, id=str(run)) for script, runs in RUNS.items() for run in runs]
)
def test_client_sees_the_expected_behaviour(
    request: pytest.FixtureRequest, script: str, run: Run, subtests: pytest.Subtests
) -> None:
    reports: Reports = request.getfixturevalue(script)

    for behaviour, saw in reports[str(run)].items():
        with subtests.test(behaviour):
            assert saw == {"saw": expected(behaviour, run)}, saw.get("failed", "")


@pytest.mark.parametrize("script", RUNS)
def test_servers_exit_when_their_clients_close_the_input(
    request: pytest.FixtureRequest, logs: Path, script: str
) -> None:
    """They exit at the end of their input, not by the signal that the SDK sends later."""
    reports: Reports = request.getfixturevalue(script)

    assert len(reports) == len(RUNS[script])
    assert not problems_in(logs / script)
    assert "SIGTERM" not in (logs / script).read_text()
