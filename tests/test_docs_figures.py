"""README.md repeats figures of docs/performance.md and benchmarks/RESULTS.md: they are equal, and README is short."""

from __future__ import annotations

import re
from pathlib import Path

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text("utf-8")
PERFORMANCE = (ROOT / "docs" / "performance.md").read_text("utf-8")
RESULTS = (ROOT / "benchmarks" / "RESULTS.md").read_text("utf-8")
ROWS = {
    "HTTP 2026-07-28, 16 connections, calls/s": "HTTP 2026-07-28, 16 connections, calls/s",
    "stdio, one call at a time, calls/s": "stdio, one call at a time, calls/s",
    "start over stdio, ms": "start over stdio, ms",
    "one notification to 10,000 open streams, s": "one notification to 10,000 open streams, s",
}
"""Row of the table in README to row of the table in docs/performance.md; the columns are the same."""


def cells_of(page: str, row: str) -> list[str]:
    """Return the cells of a table row; an empty one and a dash are equal."""
    [line] = re.findall(rf"^\| {re.escape(row)} \|(.*)\|$", page, re.MULTILINE)
    return [cell.strip().replace("–", "") for cell in line.split("|")]


def result(row: str, server: str) -> float:
    """Return a figure of RESULTS.md; the header of its table names the servers."""
    for table in re.findall(r"^\|  \|.*\n(?:\|.*\n)+", RESULTS, re.MULTILINE):
        header, _, *lines = [[cell.strip() for cell in line.split("|")[1:-1]] for line in table.splitlines()]
        for line in lines:
            if line[0] == row and server in header:
                return float(line[header.index(server)].partition(" (")[0].replace(",", ""))
    raise AssertionError(f"no figure of {server} in the row {row}")


def claim(pattern: str) -> float:
    [found] = re.findall(pattern, README)
    return float(found)


def test_table_of_readme_matches_the_performance_page() -> None:
    for row, measured in ROWS.items():
        assert cells_of(README, row) == cells_of(PERFORMANCE, measured), row


def test_readme_names_the_versions_that_were_measured() -> None:
    [versions] = re.findall(r"^Versions: (.*)\.$", PERFORMANCE, re.MULTILINE)
    [header] = re.findall(
        r"^\| \| mcptrio (\S+) \| mcp (\S+) \| FastMCP (\S+) \| TypeScript (\S+) \|$", README, re.MULTILINE
    )
    for name, version in zip(("mcptrio", "mcp", "fastmcp", "TypeScript"), header, strict=True):
        assert f"{name} {version}." in versions


def test_factors_of_readme_match_the_results() -> None:
    row = "HTTP 2026-07-28, 16 connections, calls/s"
    calls = result(row, "mcptrio")

    assert claim(r"serves ([\d.]+) times the calls of the TypeScript SDK") == round(
        calls / result(row, "TypeScript"), 1
    )
    assert claim(r"and ([\d.]+) times those of the official Python SDK") == round(calls / result(row, "mcp"), 1)


def test_session_memory_in_readme_matches_the_results() -> None:
    row = "memory of a handshake session, KiB"
    ours, theirs = result(row, "mcptrio"), result(row, "mcp")

    assert claim(r"A session takes ([\d.]+) KiB, an eighth of the Python SDK's") == round(ours, 1)
    assert round(theirs / ours) == 8


def test_memory_and_start_of_six_plugins_in_readme_match_the_results() -> None:
    memory, start = "memory of the set, MiB", "start of the set, ms"

    after = "memory of the set after calls, MiB"

    for subject, short, server in (
        ("Six plugins in one process", "the plugins use", "mcptrio"),
        ("The six reference servers of MCP, which they can replace,", "and the servers", "references"),
    ):
        assert claim(rf"{subject} start in ([\d.]+) s") == round(result(start, server) / 1000, 1)
        assert claim(rf"{subject} start in \S+ s with (\d+) MiB") == round(result(memory, server))
        assert claim(rf"After many calls, .*?{short} (\d+) MiB") == round(result(after, server))


def test_plugin_count_of_readme_matches_the_shipped_plugins() -> None:
    names = ("ten", "eleven", "twelve", "thirteen", "fourteen", "fifteen")
    [word] = re.findall(r"^(\w+) plugins are in this repository", README, re.MULTILINE)

    # Distributions of stores and the console do not count as plugins.
    manifests = [path.read_text("utf-8") for path in ROOT.glob("plugins/mcptrio-*/pyproject.toml")]
    groups = ("[project.entry-points.mcptrio]", '[project.entry-points."mcptrio.only-by-name"]')
    plugins = [text for text in manifests if any(group in text for group in groups)]

    assert names.index(word.lower()) + 10 == len(plugins)


def test_readme_is_within_its_length_limit() -> None:
    assert len(README.splitlines()) < 150


def test_performance_page_has_three_sentences_one_picture_and_one_table() -> None:
    before, *after = PERFORMANCE.removeprefix("# Performance\n").split("![")

    assert len(before.strip().splitlines()) == 3
    assert len(after) == 1
    assert len(re.findall(r"^\| --- \|", PERFORMANCE, re.MULTILINE)) == 1
