"""Runs the official conformance suite against a server, and judges its output.

test_conformance.py calls it; by hand: ``python -m tests.conformance.runner http://127.0.0.1:8000/mcp``. The suite's
exit status is not the verdict: it ignores warnings, skips and scenarios without checks. So the checks are read one by
one, and every scenario must have at least one success.

Source: @modelcontextprotocol/conformance, the version pinned in package.json; `server --help`.
"""

from __future__ import annotations

import argparse
import json
import re
import signal
import subprocess
import sys
import tempfile
import time
import tomllib
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path

from attrs import field, frozen

from tests.node import Node, find_node

__all__ = [
    "LEGS",
    "Allowed",
    "Check",
    "ConformanceError",
    "Scenario",
    "SuiteRun",
    "find_suite",
    "judge",
    "read_results",
    "run_leg",
    "serve",
]

HERE = Path(__file__).resolve().parent

WIRE_CHECK = "wire-schema-valid"
"""Added by the suite to every scenario; on a server that answers nothing it succeeds."""

LEG_SECONDS = 300
"""A leg takes 2 to 10 s on two cores; a scenario has its own deadline of 30 s inside the suite."""
START_SECONDS = 60
STOP_SECONDS = 60

_RESULT = re.compile(r"server-(?P<scenario>.+)-\d{4}-\d\d-\d\dT\d\d-\d\d-\d\d-\d{3}Z")
_URL = re.compile(r"serving (?P<url>http://\S+/mcp)\b")


class ConformanceError(Exception):
    """The suite could not be run; says nothing about the server's conformance."""


@frozen(kw_only=True)
class SuiteRun:
    """One run of the suite."""

    name: str
    options: tuple[str, ...]
    scenarios: int
    """How many scenarios the suite must have run; fewer means that something was left out silently."""


LEGS = (
    SuiteRun(name="2025-11-25", options=("--requirements", "2025-11-25"), scenarios=30 + 3),
    SuiteRun(name="2026-07-28", options=("--requirements", "2026-07-28"), scenarios=37 + 3 + 10),
    SuiteRun(name="2025-06-18", options=("--suite", "all", "--spec-version", "2025-06-18"), scenarios=27),
    SuiteRun(name="2025-03-26", options=("--suite", "all", "--spec-version", "2025-03-26"), scenarios=1),
)
"""Scored, unscored but ours, and the tasks extension, in this order."""


@frozen(kw_only=True)
class Check:
    id: str
    status: str
    """SUCCESS, FAILURE, WARNING, SKIPPED or INFO."""
    message: str = ""


@frozen
class Scenario:
    name: str
    checks: tuple[Check, ...]

    def count(self, status: str) -> int:
        """How many checks of the scenario's own have this status."""
        return sum(check.status == status for check in self.checks if check.id != WIRE_CHECK)


@frozen(kw_only=True)
class Allowed:
    """What need not pass, from ``skips.toml``."""

    unsupported: Mapping[str, str] = field(factory=dict)
    skipped: Mapping[str, str] = field(factory=dict)

    @classmethod
    def read(cls, path: Path) -> Allowed:
        entries = tomllib.loads(path.read_text("utf-8"))
        if unknown := entries.keys() - {"unsupported", "skipped"}:
            raise ConformanceError(f"{path}: expected the tables unsupported and skipped, got also {sorted(unknown)}")
        return cls(unsupported=entries.get("unsupported", {}), skipped=entries.get("skipped", {}))


def find_suite(node: Node) -> Path:
    """Return the suite's entry script, after installing the suite if needed.

    Raises:
        NodeError: The installation with npm failed.
        ConformanceError: The installed package lacks the script.
    """
    script = node.install(HERE) / "node_modules" / "@modelcontextprotocol" / "conformance" / "dist" / "index.js"
    if not script.exists():
        raise ConformanceError(f"npm ci left no {script}")
    return script


@contextmanager
def serve(command: Sequence[str], log: Path) -> Iterator[str]:
    """Start a server, yield its URL, and stop it with SIGTERM.

    Args:
        command: The command of the server, which writes ``serving http://…/mcp`` to stderr once it listens.
        log: The file for the server's output.

    Raises:
        ConformanceError: The server wrote no URL within START_SECONDS, exited early, or did not exit cleanly within
            STOP_SECONDS.
    """
    with log.open("wb") as output:
        server = subprocess.Popen(command, stdin=subprocess.DEVNULL, stdout=output, stderr=subprocess.STDOUT)
    try:
        yield _await_url(server, log)
        if server.poll() is not None:
            raise ConformanceError(f"the server ended by itself ({server.returncode}):\n{_tail(log)}")
        server.send_signal(signal.SIGTERM)
        try:
            status = server.wait(STOP_SECONDS)
        except subprocess.TimeoutExpired:
            raise ConformanceError(f"SIGTERM did not end the server in {STOP_SECONDS} s:\n{_tail(log)}") from None
        # Ended by the signal's default action, or regularly after it.
        if status not in (0, -signal.SIGTERM, 128 + signal.SIGTERM):
            raise ConformanceError(f"the server ended with status {status}:\n{_tail(log)}")
    finally:
        if server.poll() is None:
            server.kill()
            server.wait()


def run_leg(leg: SuiteRun, *, node: Node, suite: Path, url: str, out: Path) -> dict[str, Scenario]:
    """Run one leg and read what it wrote.

    Args:
        out: An empty or missing directory for the results, because the suite adds to existing ones.

    Raises:
        ConformanceError: The suite failed, or did not end within LEG_SECONDS.
    """
    if out.exists() and any(out.iterdir()):
        raise ConformanceError(f"expected an empty directory for the results @ {out}")
    out.mkdir(parents=True, exist_ok=True)
    try:
        result = subprocess.run(
            [node.binary, suite, "server", "--url", url, *leg.options, "-o", out],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=LEG_SECONDS,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConformanceError(f"{leg.name}: the suite did not end in {LEG_SECONDS} s") from None
    if result.returncode not in (0, 1) or "=== SUMMARY ===" not in result.stdout:
        end = (result.stdout + result.stderr)[-2000:]
        raise ConformanceError(f"{leg.name}: the suite broke off ({result.returncode}):\n{end}")
    return read_results(out)


def read_results(out: Path) -> dict[str, Scenario]:
    """Return the results below ``out``, where each scenario has a directory with a ``checks.json``.

    A scenario that the suite abandoned has a directory without checks; its result is empty.

    Raises:
        ConformanceError: A directory or a file does not have the suite's layout.
    """
    scenarios: dict[str, Scenario] = {}
    for directory in sorted(out.iterdir()):
        name = _RESULT.fullmatch(directory.name)
        if name is None:
            raise ConformanceError(f"expected server-<scenario>-<time>, got {directory.name!r} @ {out}")
        path = directory / "checks.json"
        try:
            entries = json.loads(path.read_bytes()) if path.exists() else []
            checks = tuple(
                Check(id=entry["id"], status=entry["status"], message=str(entry.get("errorMessage") or ""))
                for entry in entries
            )
        except (ValueError, KeyError, TypeError) as wrong:
            raise ConformanceError(f"expected a list of checks, got {wrong!r} @ {path}") from wrong
        if name["scenario"] in scenarios:
            raise ConformanceError(f"{name['scenario']} was run twice @ {out}")
        scenarios[name["scenario"]] = Scenario(name["scenario"], checks)
    return scenarios


def judge(leg: SuiteRun, scenarios: Mapping[str, Scenario], allowed: Allowed) -> list[str]:
    """Return the problems of a leg, one line each; none if it conforms."""
    complaints = []
    if len(scenarios) != leg.scenarios:
        complaints.append(f"expected {leg.scenarios} scenarios, the suite ran {len(scenarios)}: {sorted(scenarios)}")
    for scenario in scenarios.values():
        if scenario.name in allowed.unsupported:
            if scenario.count("SUCCESS") and not any(map(scenario.count, ("FAILURE", "WARNING", "SKIPPED"))):
                complaints.append(f"{scenario.name} passes: take it out of [unsupported]")
            continue
        if not scenario.count("SUCCESS"):
            complaints.append(f"{scenario.name}: no check for it succeeded")
        complaints += [
            f"{scenario.name}:{check.id} {check.status} {check.message}".rstrip()
            for check in scenario.checks
            if check.status not in ("SUCCESS", "INFO")
            and not (check.status == "SKIPPED" and f"{scenario.name}:{check.id}" in allowed.skipped)
        ]
    return complaints


def _await_url(server: subprocess.Popen[bytes], log: Path) -> str:
    deadline = time.monotonic() + START_SECONDS
    while time.monotonic() < deadline:
        if match := _URL.search(log.read_text("utf-8", "replace")):
            return match["url"]
        if server.poll() is not None:
            raise ConformanceError(f"the server did not start ({server.returncode}):\n{_tail(log)}")
        time.sleep(0.02)
    raise ConformanceError(f"expected 'serving http://…/mcp' on stderr within {START_SECONDS} s:\n{_tail(log)}")


def _tail(log: Path) -> str:
    return log.read_text("utf-8", "replace")[-4000:]


def main() -> int:
    """Judge a running server on all legs, or on those named."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("url")
    parser.add_argument("--leg", action="append", choices=[leg.name for leg in LEGS])
    arguments = parser.parse_args()
    node = find_node()
    suite = find_suite(node)
    allowed = Allowed.read(HERE / "skips.toml")
    wrong = 0
    with tempfile.TemporaryDirectory() as out:
        for leg in LEGS:
            if arguments.leg and leg.name not in arguments.leg:
                continue
            began = time.monotonic()
            scenarios = run_leg(leg, node=node, suite=suite, url=arguments.url, out=Path(out, leg.name))
            complaints = judge(leg, scenarios, allowed)
            passed = sum(scenario.count("SUCCESS") for scenario in scenarios.values())
            print(f"{leg.name}: {len(scenarios)} scenarios, {passed} checks, {len(complaints)} complaints", end=" ")
            print(f"({time.monotonic() - began:.1f} s)")
            for complaint in complaints:
                print(f"  {complaint}")
            wrong += len(complaints)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
