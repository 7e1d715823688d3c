"""The conformance runner fails in each case that the suite's exit code ignores."""

from __future__ import annotations

import json
import sys
from pathlib import Path

import pytest

from tests.conformance.runner import Allowed, Check, ConformanceError, Scenario, SuiteRun, judge, read_results, serve

__all__: list[str] = []

LEG = SuiteRun(name="x", options=(), scenarios=1)
OK = Check(id="own", status="SUCCESS")
WIRE = Check(id="wire-schema-valid", status="SUCCESS")

DEAF = "import signal; signal.signal(signal.SIGTERM, signal.SIG_IGN); "
ANNOUNCE = "import sys, time; print('serving http://127.0.0.1:1/mcp', file=sys.stderr, flush=True); "


def results(*checks: Check, name: str = "ping") -> dict[str, Scenario]:
    return {name: Scenario(name, (*checks, WIRE))}


def test_successful_scenario_has_no_problem() -> None:
    assert judge(LEG, results(OK, Check(id="note", status="INFO")), Allowed()) == []


@pytest.mark.parametrize("status", ["FAILURE", "WARNING", "SKIPPED", "SOMETHING-NEW"])
def test_any_other_status_is_a_problem(status: str) -> None:
    complaints = judge(LEG, results(OK, Check(id="bad", status=status, message="why")), Allowed())

    assert complaints == [f"ping:bad {status} why"]


def test_scenario_without_its_own_checks_is_a_problem() -> None:
    assert judge(LEG, results(), Allowed()) == ["ping: no check for it succeeded"]


def test_wire_violation_is_a_problem() -> None:
    broken = {"ping": Scenario("ping", (OK, Check(id="wire-schema-valid", status="FAILURE")))}

    assert judge(LEG, broken, Allowed()) == ["ping:wire-schema-valid FAILURE"]


def test_too_few_scenarios_are_a_problem() -> None:
    assert judge(LEG, {}, Allowed()) == ["expected 1 scenarios, the suite ran 0: []"]


def test_listed_skip_is_allowed_and_listed_failure_is_not() -> None:
    allowed = Allowed(skipped={"ping:later": "not ours"})

    assert judge(LEG, results(OK, Check(id="later", status="SKIPPED")), allowed) == []
    assert judge(LEG, results(OK, Check(id="later", status="FAILURE")), allowed) == ["ping:later FAILURE"]


def test_unsupported_scenario_must_fail() -> None:
    allowed = Allowed(unsupported={"ping": "no"})

    assert judge(LEG, results(OK, Check(id="bad", status="FAILURE")), allowed) == []
    assert judge(LEG, results(OK), allowed) == ["ping passes: take it out of [unsupported]"]


def test_unknown_kind_of_allowance_is_refused(tmp_path: Path) -> None:
    path = tmp_path / "skips.toml"
    path.write_text("[forgiven]\nping = 'because'\n")

    with pytest.raises(ConformanceError, match="forgiven"):
        Allowed.read(path)


def test_results_of_the_suite_are_read(tmp_path: Path) -> None:
    directory = tmp_path / "server-server-sse-polling-2026-11-21T12-58-31-863Z"
    directory.mkdir()
    entry = {"id": "a", "name": "A", "status": "FAILURE", "errorMessage": "why", "details": {}}
    (directory / "checks.json").write_text(json.dumps([entry]))

    assert read_results(tmp_path) == {
        "server-sse-polling": Scenario("server-sse-polling", (Check(id="a", status="FAILURE", message="why"),))
    }


def test_scenario_without_checks_is_read_as_empty(tmp_path: Path) -> None:
    (tmp_path / "server-ping-2026-11-21T12-58-31-863Z").mkdir()

    assert read_results(tmp_path) == {"ping": Scenario("ping", ())}


@pytest.mark.parametrize("text", ["{}}", '["SUCCESS"]', '[{"id": "a"}]'])
def test_malformed_results_are_refused(tmp_path: Path, text: str) -> None:
    directory = tmp_path / "server-ping-2026-11-21T12-58-31-863Z"
    directory.mkdir()
    (directory / "checks.json").write_text(text)

    with pytest.raises(ConformanceError, match="expected a list of checks"):
        read_results(tmp_path)


def test_server_that_does_not_start_is_reported_with_its_output(tmp_path: Path) -> None:
    with pytest.raises(ConformanceError, match=r"did not start.*\n.*no such plugin"):
        with serve((sys.executable, "-c", "raise SystemExit('no such plugin')"), tmp_path / "log"):
            pass


def test_server_that_exits_early_is_reported(tmp_path: Path) -> None:
    with pytest.raises(ConformanceError, match="ended"):
        with serve((sys.executable, "-c", DEAF + ANNOUNCE + "sys.exit(3)"), tmp_path / "log"):
            pass


def test_server_that_exits_with_an_error_is_reported(tmp_path: Path) -> None:
    bad_end = "import signal; signal.signal(signal.SIGTERM, lambda *_: sys.exit(3)); "
    program = bad_end.join(["import sys; ", ANNOUNCE]) + "time.sleep(60)"

    with pytest.raises(ConformanceError, match="status 3"):
        with serve((sys.executable, "-c", program), tmp_path / "log") as url:
            assert url == "http://127.0.0.1:1/mcp"
