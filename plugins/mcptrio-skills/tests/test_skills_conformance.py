"""The official conformance suite passes for the plugin: three scenarios, 45 checks.

Without Node 22 the tests fail and name the package to install: a run without the suite must not look like a success.
"""

from __future__ import annotations

from pathlib import Path

import pytest
import trio
from mcptrio_skills import Config, Skills

from mcptrio.testing import Case, ServerSpec, open_served
from tests.conformance.runner import Allowed, SuiteRun, find_suite, judge, read_results
from tests.node import Node, find_node

from .conftest import write_skill

CHECKS = {"sep-2640-skills-enumeration": 31, "sep-2640-skills-manifest": 5, "sep-2640-skills-directory": 6}


@pytest.fixture(scope="module")
def suite() -> tuple[Node, Path]:
    """Node and the suite's script."""
    node = find_node()
    return node, find_suite(node)


async def test_conformance_suite_passes(suite: tuple[Node, Path], tmp_path: Path) -> None:
    node, script = suite
    folder = tmp_path / "skills"
    # The suite reads the folder of the first skill, and expects a folder in it.
    first = write_skill(folder / "a-first", license="MIT", metadata='{version: "2.1.0", since: 2026-01-02, on: yes}')
    (first / "references").mkdir()
    (first / "references" / "FORMS.md").write_text("# Forms\n")
    for number in range(5):
        write_skill(folder / "acme" / f"skill-{number}")
    spec = ServerSpec(plugins=[Skills(Config(folders=(folder,), page_size=2))])
    complaints: list[str] = []
    succeeded: dict[str, int] = {}
    with trio.fail_after(180):
        async with open_served(spec, Case(revision="2026-07-28", transport="http")) as served:
            for name in CHECKS:
                out = tmp_path / name
                out.mkdir()
                options = ("--scenario", name, "--spec-version", "2026-07-28", "--force", "-o", str(out))
                command = [node.binary, script, "server", "--url", str(served.target), *options]
                await trio.run_process(command, capture_stdout=True, capture_stderr=True, check=False)
                scenarios = read_results(out)
                complaints += judge(SuiteRun(name=name, options=options, scenarios=1), scenarios, Allowed())
                succeeded |= {each.name: each.count("SUCCESS") for each in scenarios.values()}

    assert not complaints, "\n".join(complaints)
    assert succeeded == CHECKS
    assert sum(CHECKS.values()) + len(CHECKS) == 45  # each scenario has one more check, that of the messages
