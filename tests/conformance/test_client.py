"""The official conformance suite passes for our client, in every scenario and revision.

Without Node 22 the tests fail and name the package to install, as in test_conformance.py.
"""

from __future__ import annotations

import sys
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

from tests.conformance.client import DONE, SCENARIOS
from tests.conformance.client_runner import (
    CASES,
    EXTENSIONS,
    NEWEST,
    Case,
    Run,
    judge_run,
    listed,
    required,
    run_case,
    select,
)
from tests.conformance.forking import forking
from tests.conformance.runner import HERE, Allowed, Check, ConformanceError, Scenario, find_suite
from tests.node import Node, find_node

__all__: list[str] = []

AT_ONCE = 2
"""Some scenarios take time, and more at once would delay each other."""

ALLOWED = Allowed.read(HERE / "client_skips.toml")

CASE = Case("tools_call", "2026-07-28")
OK = Check(id="own/Own", status="SUCCESS")
WIRE = Check(id="wire-schema-valid", status="SUCCESS")


@pytest.fixture(scope="session")
def suite() -> tuple[Node, Path]:
    """Node and the suite's script."""
    node = find_node()
    return node, find_suite(node)


@pytest.fixture(scope="session")
def runs(
    request: pytest.FixtureRequest, suite: tuple[Node, Path], tmp_path_factory: pytest.TempPathFactory
) -> Mapping[Case, Run | ConformanceError]:
    """Run every scenario that a test of this session needs."""
    cases = [
        case
        for item in request.session.items
        if isinstance(item, pytest.Function) and "runs" in item.fixturenames
        if isinstance(case := item.callspec.params.get("case"), Case)
    ]
    home = tmp_path_factory.mktemp("client")

    def run(case: Case) -> Run | ConformanceError:
        try:
            return run_case(case, node=suite[0], suite=suite[1], out=home / str(case), command=command)
        except ConformanceError as error:
            return error

    with forking(home) as command, ThreadPoolExecutor(AT_ONCE) as pool:
        return dict(zip(cases, pool.map(run, cases), strict=True))


@pytest.mark.parametrize("case", CASES, ids=str)
def test_suite_reports_no_problem(case: Case, runs: Mapping[Case, Run | ConformanceError]) -> None:
    run = runs[case]
    if isinstance(run, ConformanceError):
        raise run

    complaints = judge_run(run, ALLOWED)

    assert not complaints, "\n".join(complaints)


# --- completeness


def test_every_scenario_runs_in_every_revision_it_applies_to(suite: tuple[Node, Path]) -> None:
    scenarios = listed(*suite)

    ours = select(scenarios, ALLOWED)
    expected = {Case(name, revision) for name in ours for revision in scenarios[name] or NEWEST}

    assert set(CASES) == expected
    assert set(EXTENSIONS) == {name for name in ours if not scenarios[name]}
    assert set(SCENARIOS) == {case.scenario for case in CASES}


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
def test_every_required_scenario_of_a_revision_is_run(revision: str, suite: tuple[Node, Path]) -> None:
    assert select(required(*suite, revision), ALLOWED) <= {case.scenario for case in CASES if case.revision == revision}


def test_allowances_match_scenarios_of_the_suite(suite: tuple[Node, Path]) -> None:
    scenarios = listed(*suite)

    for pattern, reason in ALLOWED.unsupported.items():
        without = Allowed(unsupported={pattern: reason})
        assert len(select(scenarios, without)) < len(scenarios), f"{pattern} fits nothing"
    assert {entry.partition(":")[0] for entry in ALLOWED.skipped} <= {case.scenario for case in CASES}


# --- failures of the runner


def ended(*checks: Check, passed: bool = True, message: str = f"{DONE}\n") -> Run:
    scenario = Scenario(CASE.scenario, (*checks, WIRE))
    return Run(case=CASE, scenario=scenario, passed=passed, stdout=message, output="output")


def test_successful_run_has_no_problem() -> None:
    assert judge_run(ended(OK, Check(id="note/Note", status="INFO")), Allowed()) == []


@pytest.mark.parametrize("status", ["FAILURE", "WARNING", "SKIPPED", "SOMETHING-NEW"])
def test_any_other_status_is_a_problem(status: str) -> None:
    complaints = judge_run(ended(OK, Check(id="bad/Bad", status=status, message="why")), Allowed())

    assert complaints == [f"tools_call:bad/Bad {status} why"]


def test_run_without_its_own_checks_is_a_problem() -> None:
    assert judge_run(ended(), Allowed()) == ["tools_call-2026-07-28: no check for it succeeded"]


@pytest.mark.parametrize(("passed", "message"), [(False, f"{DONE}\n"), (True, ""), (True, f"{DONE}\nand more\n")])
def test_unfinished_client_is_a_problem(passed: bool, message: str) -> None:
    [complaint] = judge_run(ended(OK, passed=passed, message=message), Allowed())

    assert complaint == "tools_call-2026-07-28: the client did not come to its end:\noutput"


def test_allowed_skip_must_happen() -> None:
    allowed = Allowed(skipped={"tools_call:later/Later": "why", "initialize:other/Other": "another scenario's"})

    assert judge_run(ended(OK, Check(id="later/Later", status="SKIPPED")), allowed) == []
    assert judge_run(ended(OK), allowed) == ["tools_call:later/Later is not skipped: take it out of [skipped]"]


@pytest.mark.parametrize("scenario", ["http-standard-headers", "http-invalid-tool-headers"])
def test_client_that_does_nothing_fails(scenario: str, suite: tuple[Node, Path], tmp_path: Path) -> None:
    """The suite passes the first, and tolerates an error in the second."""
    nothing = (sys.executable, "-c", f"import sys; print('{DONE}'); sys.exit({int('invalid' in scenario)})")

    run = run_case(Case(scenario, "2026-07-28"), node=suite[0], suite=suite[1], out=tmp_path / "out", command=nothing)

    assert judge_run(run, ALLOWED)


def test_scenario_that_does_not_apply_is_reported(suite: tuple[Node, Path], tmp_path: Path) -> None:
    """The suite skips it and reports success."""
    with pytest.raises(ConformanceError, match="SKIPPED"):
        run_case(Case("sse-retry", "2026-07-28"), node=suite[0], suite=suite[1], out=tmp_path / "out")
