"""The official conformance suite finds nothing wrong with ``http.http2 = true`` either: Hypercorn serves.

The requirements of both eras; what differs between the revisions of one is above the HTTP server.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.conformance.runner import HERE, LEGS, Allowed, Leg, find_suite, judge, run_leg, serve
from tests.node import Node, find_node

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
    """One server for both; it must also have logged no traceback."""
    log = tmp_path_factory.mktemp("hypercorn") / "log"
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("MCPTRIO_HTTP_HTTP2", "true")
        with serve(COMMAND, log) as url:
            yield url

    assert 'File "' not in log.read_text("utf-8", "replace")


@pytest.mark.parametrize("leg", BOTH, ids=[leg.name for leg in BOTH])
def test_suite_has_no_complaint(leg: Leg, suite: tuple[Node, Path], url: str, tmp_path: Path) -> None:
    scenarios = run_leg(leg, node=suite[0], suite=suite[1], url=url, out=tmp_path / "results")

    complaints = judge(leg, scenarios, Allowed.read(HERE / "skips.toml"))

    assert not complaints, "\n".join(complaints)
