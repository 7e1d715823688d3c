"""Runs single scenarios of the official conformance suite against a client, and judges its output.

test_client.py calls it; to run it alone: ``python -m tests.conformance.client_runner [scenario]``. Each scenario runs
alone: run together, the suite ignores how the clients end, and a client that does nothing passes some of them.

Source: @modelcontextprotocol/conformance, the version pinned in package.json; `client --help`; src/runner/client.ts.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterable, Sequence
from fnmatch import fnmatchcase
from pathlib import Path

from attrs import frozen

from tests.conformance.client import DONE
from tests.conformance.runner import HERE, WIRE_CHECK, Allowed, Check, ConformanceError, Scenario, find_suite
from tests.node import Node, find_node

__all__ = [
    "CASES",
    "COMMAND",
    "EXTENSIONS",
    "NEWEST",
    "Case",
    "Run",
    "judge_run",
    "listed",
    "required",
    "run_case",
    "select",
]

COMMAND = (sys.executable, str(HERE / "client.py"))

RUN_SECONDS = 120
"""A scenario takes 1 to 2 s on two cores; the client has its own deadline of 60 s, the suite one of 90."""
_CLIENT_SECONDS = 90

_OUTPUT = 6000
"""The number of shown characters of a failed run's output."""


@frozen(order=True)
class Case:
    scenario: str
    revision: str

    def __str__(self) -> str:
        return f"{self.scenario.replace('/', '-')}-{self.revision}"


def _cases(revision: str, *scenarios: str) -> tuple[Case, ...]:
    return tuple(Case(scenario, revision) for scenario in scenarios)


EXTENSIONS = (
    "auth/client-credentials-basic",
    "auth/client-credentials-jwt",
    "auth/dpop",
    "auth/dpop-nonce",
    "auth/enterprise-managed-authorization",
    "auth/wif-jwt-bearer",
)
"""Scenarios of extensions, which the suite lists without a revision; they are run in :data:`NEWEST`."""
NEWEST = ("2025-11-25", "2026-07-28")
"""The newest revision of each kind: with a handshake, and without."""

_AUTHORIZED = (
    "auth/basic-cimd",
    "auth/metadata-default",
    "auth/metadata-var1",
    "auth/metadata-var2",
    "auth/metadata-var3",
    "auth/pre-registration",
    "auth/scope-from-scopes-supported",
    "auth/scope-from-www-authenticate",
    "auth/scope-omitted-when-undefined",
    "auth/scope-retry-limit",
    "auth/scope-step-up",
)
_TOKEN_ENDPOINT = (
    "auth/token-endpoint-auth-basic",
    "auth/token-endpoint-auth-none",
    "auth/token-endpoint-auth-post",
)

CASES = (
    *_cases(
        "2025-03-26",
        "auth/2025-03-26-oauth-endpoint-fallback",
        "auth/2025-03-26-oauth-metadata-backcompat",
    ),
    *_cases("2025-06-18", *_TOKEN_ENDPOINT, "initialize", "tools_call"),
    *_cases(
        "2025-11-25",
        *_AUTHORIZED,
        *_TOKEN_ENDPOINT,
        *EXTENSIONS,
        "elicitation-sep1034-client-defaults",
        "initialize",
        "json-schema-2020-12-preservation",
        "sse-retry",
        "tools_call",
    ),
    *_cases(
        "2026-07-28",
        *_AUTHORIZED,
        *_TOKEN_ENDPOINT,
        *EXTENSIONS,
        "auth/authorization-server-migration",
        "auth/iss-normalized",
        "auth/iss-not-advertised",
        "auth/iss-supported",
        "auth/iss-supported-missing",
        "auth/iss-unexpected",
        "auth/iss-wrong-issuer",
        "auth/metadata-issuer-mismatch",
        "auth/offline-access-not-supported",
        "auth/offline-access-scope",
        "auth/resource-mismatch",
        "http-custom-headers",
        "http-invalid-tool-headers",
        "http-standard-headers",
        "json-schema-2020-12-preservation",
        "json-schema-ref-no-deref",
        "request-metadata",
        "sep-2322-client-request-state",
        "tools_call",
    ),
)
"""Every scenario in every revision it applies to, except those that client_skips.toml names."""


@frozen(kw_only=True)
class Run:
    """One scenario and how it ended."""

    case: Case
    scenario: Scenario
    passed: bool
    """The suite's verdict."""
    stdout: str
    """The client's standard output."""
    output: str
    """The suite's output, which repeats that of a failed client."""


def run_case(
    case: Case, *, node: Node, suite: Path, out: Path, command: Sequence[str] = COMMAND, seconds: float = RUN_SECONDS
) -> Run:
    """Run one scenario and read what it wrote.

    Args:
        out: An empty or missing directory for the results.
        command: The command of the client, to which the suite appends the URL.

    Raises:
        ConformanceError: The suite failed, or did not end within ``seconds``.
    """
    # The suite splits the command at blanks and hands the parts, joined again, to a shell.
    options = ["--command", shlex.join(command), "--scenario", case.scenario, "--spec-version", case.revision]
    options += ["--timeout", str(_CLIENT_SECONDS * 1000)]
    if case.scenario in EXTENSIONS:
        options.append("--force")
    try:
        result = subprocess.run(
            [node.binary, suite, "client", *options, "-o", out],
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            timeout=seconds,
            check=False,
        )
    except subprocess.TimeoutExpired:
        raise ConformanceError(f"{case}: the suite did not end in {seconds:g} s") from None
    output = (result.stderr + result.stdout)[-_OUTPUT:]
    directories = [path.parent for path in out.rglob("checks.json")]
    if result.returncode not in (0, 1) or len(directories) != 1:
        raise ConformanceError(
            f"{case}: expected one checks.json, got {len(directories)} ({result.returncode}):\n{output}"
        )
    [directory] = directories
    return Run(
        case=case,
        scenario=Scenario(case.scenario, _read_checks(directory / "checks.json")),
        passed=result.returncode == 0,
        stdout=(directory / "stdout.txt").read_text("utf-8"),
        output=output,
    )


def judge_run(run: Run, allowed: Allowed) -> list[str]:
    """Return the problems of a run, one line each; none if it conforms."""
    complaints = []
    name = run.case.scenario
    if not run.passed or run.stdout.splitlines()[-1:] != [DONE]:
        complaints.append(f"{run.case}: the client did not come to its end:\n{run.output}")
    if not run.scenario.count("SUCCESS"):
        complaints.append(f"{run.case}: no check for it succeeded")
    skipped = {f"{name}:{check.id}" for check in run.scenario.checks if check.status == "SKIPPED"}
    complaints += [
        f"{name}:{check.id} {check.status} {check.message}".rstrip()
        for check in run.scenario.checks
        if check.status not in ("SUCCESS", "INFO")
        and not (check.status == "SKIPPED" and f"{name}:{check.id}" in allowed.skipped)
    ]
    complaints += [
        f"{entry} is not skipped: take it out of [skipped]"
        for entry in allowed.skipped
        if entry.partition(":")[0] == name and entry not in skipped
    ]
    return complaints


def listed(node: Node, suite: Path) -> dict[str, frozenset[str]]:
    """The suite's client scenarios, and the revisions each applies to; none for extensions."""
    scenarios = {}
    for line in _list(node, suite, "--client"):
        match = re.fullmatch(r"  - (\S+) \[(.+)\]", line)
        if match is not None:
            scenarios[match[1]] = frozenset(re.findall(r"\d{4}-\d\d-\d\d", match[2]))
    if not scenarios:
        raise ConformanceError("expected lines like '  - tools_call [2025-11-25]' from list --client, got none")
    return scenarios


def required(node: Node, suite: Path, revision: str) -> frozenset[str]:
    """The client scenarios that a revision requires."""
    lines = iter(_list(node, suite, "--requirements", revision))
    for line in lines:
        if line.startswith("Client scenarios"):
            break
    names = set()
    for line in lines:
        if not line.startswith("  - "):
            break
        names.add(line.removeprefix("  - ").strip())
    if not names:
        raise ConformanceError(f"expected client scenarios from list --requirements {revision}, got none")
    return frozenset(names)


def select(names: Iterable[str], allowed: Allowed) -> frozenset[str]:
    """Return the scenarios to run."""
    return frozenset(name for name in names if not any(fnmatchcase(name, each) for each in allowed.unsupported))


def _list(node: Node, suite: Path, *options: str) -> list[str]:
    listing = subprocess.run(
        [node.binary, suite, "list", *options], capture_output=True, text=True, timeout=RUN_SECONDS, check=True
    )
    return listing.stdout.splitlines()


def _read_checks(path: Path) -> tuple[Check, ...]:
    try:
        # One id may stand for several checks, which then differ in their names.
        return tuple(
            Check(
                id=WIRE_CHECK if entry["id"] == WIRE_CHECK else f"{entry['id']}/{entry['name']}",
                status=entry["status"],
                message=str(entry.get("errorMessage") or ""),
            )
            for entry in json.loads(path.read_bytes())
        )
    except (ValueError, KeyError, TypeError) as wrong:
        raise ConformanceError(f"expected a list of checks, got {wrong!r} @ {path}") from wrong


def main() -> int:
    """Run our client through all scenarios, or those named, and judge it."""
    parser = argparse.ArgumentParser(description=main.__doc__)
    parser.add_argument("scenario", nargs="*")
    arguments = parser.parse_args()
    node = find_node()
    suite = find_suite(node)
    allowed = Allowed.read(HERE / "client_skips.toml")
    wrong = 0
    for case in CASES:
        if arguments.scenario and case.scenario not in arguments.scenario:
            continue
        began = time.monotonic()
        with tempfile.TemporaryDirectory() as out:
            run = run_case(case, node=node, suite=suite, out=Path(out))
        complaints = judge_run(run, allowed)
        print(f"{case}: {run.scenario.count('SUCCESS')} checks, {len(complaints)} complaints", end=" ")
        print(f"({time.monotonic() - began:.1f} s)")
        for complaint in complaints:
            print(f"  {complaint}")
        wrong += len(complaints)
    return 1 if wrong else 0


if __name__ == "__main__":
    sys.exit(main())
