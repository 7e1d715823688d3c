"""Every part of the benchmark runs. Its figures are not checked here."""

from __future__ import annotations

import re
import subprocess
import sys
from importlib.util import find_spec
from pathlib import Path

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent

ERAS = ("2026-07-28", "2025-11-25")
ROWS = (
    "start, ms",
    "stdio, 1 in flight, calls/s",
    "stdio, 64 in flight, calls/s",
    "memory at rest, stdio, MiB",
    "memory after load, stdio, MiB",
    *(
        f"HTTP {era}, {connections}, {figure}"
        for era in ERAS
        for connections in ("1 connection", "4 connections", "16 connections", "64 connections")
        for figure in ("calls/s", "p50 ms", "p99 ms")
    ),
    "memory at rest, HTTP, MiB",
    "memory after load, HTTP, MiB",
    *(f"SSE {era}, one stream, events/s" for era in ERAS),
    "memory with 10 sessions, MiB",
    "memory with 30 streams, MiB",
    "fan-out to 100 streams, s",
    "opening 100 streams, s",
    "a call with 10 tools, µs",
    "cost with 10 tools ÷ with 1",
    "a call with 20 sessions, µs",
    "cost with 20 sessions ÷ with 1",
    *(f"client, {way}, 16 in flight, calls/s" for way in ("stdio", *(f"HTTP {era}" for era in ERAS))),
    "start of the set, ms",
    "memory of the set, MiB",
    "memory of the set after calls, MiB",
    *(f"set, {kind}, calls/s" for kind in ("one of each", "files", "git", "fetch", "memory", "thinking", "time")),
)
GROWTHS = ("memory of a handshake session, KiB", "memory of an open stream, KiB")
"""Of a few sessions only they may be nothing."""


def test_quick_run_measures_every_row(tmp_path: Path) -> None:
    command = [sys.executable, "benchmarks/run.py", "--quick", "--only", "mcptrio", "--here", "--write", str(tmp_path)]

    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=900)

    # Status 1 means that an expectation was not met, which is no evidence on a busy machine.
    assert result.returncode in (0, 1), result.stderr
    assert "failed" not in result.stderr
    text = (tmp_path / "benchmarks" / "RESULTS.md").read_text("utf-8")
    short = (tmp_path / "docs" / "performance.md").read_text("utf-8")
    assert re.search(r"^Over HTTP with 16 connections, mcptrio serves [\d,]+ calls a second: ", short, re.MULTILINE)
    assert re.search(r"^\| stdio, one call at a time, calls/s \| \*\*[\d,]+\*\* \|", short, re.MULTILINE)
    cells = [[cell.strip() for cell in line.split("|")] for line in text.splitlines() if line.startswith("|")]
    measured = {
        row[1]: row[2].partition(" (")[0].replace(",", "") for row in cells if not row[2].startswith(("≥", "≤"))
    }
    for row in ROWS:
        assert float(measured[row]) > 0, row
        assert row in result.stdout, row
    for row in GROWTHS:
        float(measured[row])
    pictures = re.findall(r"\]\(\.\./(docs/performance/[^)]*)\)", text)
    if find_spec("matplotlib") is None:
        assert pictures == []
        assert "tables only" in result.stderr
    else:
        assert len(pictures) == 3
        assert all((tmp_path / name).read_text("utf-8").startswith("<?xml") for name in pictures)


def test_soak_measures_memory_and_descriptors() -> None:
    command = [sys.executable, "benchmarks/run.py", "--soak", "0.001", "--here"]

    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)

    # Status 1 means that memory has grown, as it does during the warm-up.
    assert result.returncode in (0, 1), result.stderr
    assert "Traceback" not in result.stderr
    assert re.search(r"^HTTP .* (pass|FAIL)$", result.stdout, re.MULTILINE)
    assert re.search(r"^stdio .* (pass|FAIL)$", result.stdout, re.MULTILINE)


def test_latency_under_attack_is_compared_with_idle_latency() -> None:
    command = [sys.executable, "-m", "benchmarks.attacked", "offers", "--calls", "20"]

    result = subprocess.run(command, cwd=ROOT, capture_output=True, text=True, timeout=600)

    assert (result.returncode, result.stderr) == (0, "")
    assert re.search(r"^offers( +[0-9.]+ ms +[0-9.]+ ms +[0-9.]+){2} +[0-9]+$", result.stdout, re.MULTILINE)
