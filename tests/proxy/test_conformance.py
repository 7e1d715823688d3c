"""The official conformance suite passes behind nginx too, in the newest revision of each kind."""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.runner import HERE, LEGS, Allowed, SuiteRun, find_suite, judge, run_leg, serve
from tests.node import Node, find_node
from tests.proxy.nginx import proxying

__all__: list[str] = []

COMMAND = (sys.executable, "-m", "mcptrio", "serve", "--http", "--port", "0", "--plugin", "everything")
BOTH = [leg for leg in LEGS if leg.name in ("2025-11-25", "2026-07-28")]


@pytest.fixture(scope="module")
def suite() -> tuple[Node, Path]:
    """Node and the suite's script."""
    node = find_node()
    return node, find_suite(node)


@pytest.fixture(scope="module")
def url(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """One server and one nginx for both; the server must also have logged no traceback."""
    folder = tmp_path_factory.mktemp("nginx")
    with serve(COMMAND, folder / "log") as behind:
        with proxying(int(behind.split(":")[2].split("/")[0]), folder) as port:
            yield f"http://127.0.0.1:{port}/mcp"

    assert 'File "' not in (folder / "log").read_text("utf-8", "replace")


@pytest.mark.parametrize("leg", BOTH, ids=[leg.name for leg in BOTH])
def test_conformance_suite_passes_behind_nginx(
    leg: SuiteRun, suite: tuple[Node, Path], url: str, tmp_path: Path
) -> None:
    scenarios = run_leg(leg, node=suite[0], suite=suite[1], url=url, out=tmp_path / "results")

    complaints = judge(leg, scenarios, Allowed.read(HERE / "skips.toml"))

    assert not complaints, "\n".join(complaints)
