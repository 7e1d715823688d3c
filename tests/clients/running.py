"""Starts the server with plugin.py, and the scripts of clients.

The tests of the clients use it. Every process that it starts ends before the test, and logs the reason.
"""

from __future__ import annotations

import json
import re
import subprocess
import sys
from collections.abc import Sequence
from pathlib import Path
from typing import Any, TypeAlias

from tests.clients.behaviours import Run, behaviours_of

__all__ = ["HERE", "Reports", "problems_in", "run_script", "serve_command", "sse_url"]

HERE = Path(__file__).resolve().parent
ROOT = HERE.parents[1]

Reports: TypeAlias = dict[str, dict[str, dict[str, Any]]]
"""By run and behaviour: ``{"saw": …}`` or ``{"failed": …}``."""

SCRIPT_SECONDS = 600
"""A script takes 10 to 15 s on two cores; one behaviour that hangs costs it 60."""


def serve_command(transport: str) -> tuple[str, ...]:
    """Return the command of a user."""
    where = ("--stdio",) if transport == "stdio" else ("--http", "--port", "0")
    options = ("--config", str(HERE / "mcptrio.toml"), "--plugin", str(HERE / "plugin.py"))
    return (sys.executable, "-m", "mcptrio", "serve", *where, *options)


def sse_url(url: str) -> str:
    """Return the URL of the HTTP+SSE stream of the server with this endpoint."""
    return f"{url.removesuffix('/mcp')}/sse"


def run_script(command: Sequence[str | Path], runs: Sequence[Run], url: str, log: Path) -> Reports:
    """Run a client's script and read its reports.

    Args:
        command: The command of the script. The script reads a plan, a JSON list of runs; a run has a name, a revision,
            the server's address or command, and the behaviours to try. It writes a JSON object that maps the name of
            each behaviour to what it returned, or to how it failed.
        url: The URL of the server for runs over HTTP. Over stdio the client starts a server itself.
        log: Receives the standard error of the script and, over stdio, of the servers.
    """
    plan = [
        {
            "name": str(run),
            "revision": run.revision,
            "target": _target(run, url),
            "behaviours": behaviours_of(run),
        }
        for run in runs
    ]
    with log.open("wb") as errors:
        result = subprocess.run(
            [*command, json.dumps(plan)],
            cwd=ROOT,
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=errors,
            timeout=SCRIPT_SECONDS,
            check=False,
        )
    assert result.returncode == 0, log.read_text("utf-8", "replace")
    reports: Reports = json.loads(result.stdout)
    assert {name: list(report) for name, report in reports.items()} == {run["name"]: run["behaviours"] for run in plan}
    return reports


def problems_in(log: Path) -> list[str]:
    """Return the problems in a server's log; none after a proper end."""
    written = log.read_text("utf-8", "replace")
    wrong = []
    if "plugin entered" not in written:
        wrong.append(f"no server has begun:\n{written[-4000:]}")
    if (entered := written.count("plugin entered")) != (left := written.count("plugin left")):
        wrong.append(f"{entered} servers have begun and {left} have ended in order:\n{written[-4000:]}")
    # The plugin writes one line on purpose.
    if len(re.findall(r"ERROR|Traceback", written)) != written.count("tool crash failed"):
        wrong.append(f"unexpected error:\n{written[-4000:]}")
    return wrong


def _target(run: Run, url: str) -> dict[str, Any]:
    targets: dict[str, dict[str, Any]] = {
        "http": {"url": url},
        "sse": {"sse": sse_url(url)},
        "stdio": {"command": serve_command("stdio")},
    }
    return targets[run.transport]
