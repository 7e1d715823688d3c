"""The official conformance suite passes for ``mcptrio serve --http --plugin everything``.

One server for all revisions, started like a user's. Without Node 22 the tests fail and name the package to install: a
run without the suite must not look like a success.
"""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.runner import HERE, LEG_SECONDS, LEGS, Allowed, SuiteRun, find_suite, judge, run_leg, serve
from tests.node import Node, find_node

__all__: list[str] = []

COMMAND = (sys.executable, "-m", "mcptrio", "serve", "--http", "--port", "0", "--plugin", "everything")


@pytest.fixture(scope="session")
def suite() -> tuple[Node, Path]:
    """Node and the suite's script."""
    node = find_node()
    return node, find_suite(node)


@pytest.fixture(scope="session")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """A server for the whole run; it must also have stopped cleanly, and have logged no traceback."""
    log = tmp_path_factory.mktemp("server") / "log"
    with serve(COMMAND, log) as url:
        yield url

    assert 'File "' not in log.read_text("utf-8", "replace")


@pytest.mark.parametrize("leg", LEGS, ids=[leg.name for leg in LEGS])
def test_suite_reports_no_problem(leg: SuiteRun, suite: tuple[Node, Path], url: str, tmp_path: Path) -> None:
    scenarios = run_leg(leg, node=suite[0], suite=suite[1], url=url, out=tmp_path / "results")

    complaints = judge(leg, scenarios, Allowed.read(HERE / "skips.toml"))

    assert not complaints, "\n".join(complaints)


def test_allowances_name_scenarios_of_the_suite(suite: tuple[Node, Path]) -> None:
    """An unknown name would allow nothing now, and something else in a later version."""
    listed = subprocess.run(
        [suite[0].binary, suite[1], "list", "--server"], capture_output=True, text=True, timeout=LEG_SECONDS, check=True
    ).stdout
    known = {word for line in listed.splitlines() for word in line.split()}
    allowed = Allowed.read(HERE / "skips.toml")

    named = set(allowed.unsupported) | {entry.partition(":")[0] for entry in allowed.skipped}

    assert named <= known
