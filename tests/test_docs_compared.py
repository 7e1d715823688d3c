"""The page that compares our plugins with the reference servers has the content that its script writes.

Only the script installs and runs the reference servers: python docs/compare_plugins.py
"""

from __future__ import annotations

import importlib
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest
import trio

from benchmarks.transcripts.repository import run_ours

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
PAGE = ROOT / "docs" / "plugins-compared.md"


def script(*options: str) -> Any:
    command = [sys.executable, str(ROOT / "docs" / "compare_plugins.py"), *options]
    result = subprocess.run(command, capture_output=True, text=True, timeout=240, check=False)
    assert result.returncode == 0, result.stderr
    return json.loads(result.stdout)


@pytest.fixture(scope="module")
def shapes() -> Any:
    """Return by plugin: the rows' titles, the measured ones, and the notes below the table."""
    return script("--titles")


def sections() -> dict[str, str]:
    _, *parts = re.split(r"^## (.*)\n", PAGE.read_text("utf-8"), flags=re.MULTILINE)
    return dict(zip(parts[::2], parts[1::2], strict=True))


TOKENS, TRANSCRIPT = "Tokens", "A repository explored and changed"


def plugins() -> dict[str, str]:
    """Return the sections about one plugin each."""
    return {name: text for name, text in sections().items() if name not in (TOKENS, TRANSCRIPT)}


def table(section: str) -> list[list[str]]:
    """Return the rows below the head."""
    lines = [line for line in section.splitlines() if line.startswith("|")]
    return [[cell.strip() for cell in re.split(r"(?<!\\)\|", line)[1:-1]] for line in lines[2:]]


def test_page_has_every_row(shapes: Any) -> None:
    """To fix it, run: python docs/compare_plugins.py"""
    written = plugins()

    assert list(sections())[:2] == [TOKENS, TRANSCRIPT]
    assert list(written) == list(shapes)
    for plugin, shape in shapes.items():
        rows = table(written[plugin])
        assert [row[0] for row in rows] == shape["titles"]
        assert all(len(row) == 3 and all(row) for row in rows)
        assert [sentence for sentence in shape["beside"] if sentence not in written[plugin]] == []
        assert len(rows) >= 15


def test_page_contains_no_failed_probe_and_no_machine() -> None:
    cells = [cell for section in plugins().values() for row in table(section) for cell in row[1:]]

    assert [cell for cell in cells if cell.startswith(("failed", "not tried", "no end"))] == []
    assert [cell for cell in cells if re.search(r"/(home|root|usr|tmp|work)/", cell)] == []


# The page has the reasons below its table, or the README of the plugin.
KNOWN = {
    "fs": {
        "no `read_file`",
        "`read_text_file`: no `tail`",
        "`read_text_file`: no `head`",
        "`directory_tree`: no `exclude_patterns`",
        "`search_files`: no `exclude_patterns`",
    },
    "fetch": {"`fetch`: no `max_length`", "`fetch`: no `start_index`"},
    "documents": {"no `convert_to_markdown`"},
}


def test_every_other_argument_of_the_references_exists_in_ours() -> None:
    for plugin, section in plugins().items():
        row = table(section)[1]
        assert row[1] == row[2] or set(row[2].split("; ")) == KNOWN[plugin], plugin


def test_no_definition_or_typical_answer_has_grown_by_a_tenth() -> None:
    """To accept a growth, run: python docs/compare_plugins.py"""
    known = {title: int(ours.replace(",", "")) for title, _, ours in table(sections()[TOKENS])}
    now = {title: ours for title, (_, ours) in script("--tokens", "--ours", "--json").items()}

    assert list(now) == list(known)
    # A few tokens more, because the names of folders in answers have other lengths on other machines.
    assert {title: size for title, size in now.items() if size > known[title] * 1.1 + 10} == {}


def test_transcript_takes_fewer_tokens_and_refused_calls_than_the_references() -> None:
    *_, everything = table(sections()[TRANSCRIPT])
    (their_tokens, their_refused), (our_tokens, our_refused) = (
        re.fullmatch(r"\*\*([\d,]+) in \d+, (\d+) refused\*\*", cell).groups()
        for cell in everything[1:]  # type: ignore[union-attr]
    )

    assert int(our_tokens.replace(",", "")) < int(their_tokens.replace(",", ""))
    assert int(our_refused) < int(their_refused)


async def test_transcript_can_be_repeated(tmp_path: Path) -> None:
    with trio.fail_after(120):
        took = (await run_ours(tmp_path)).total

    assert took.is_answered
    assert took.refused == 2


def test_schema_differences_are_found(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.syspath_prepend(str(ROOT / "docs"))
    differences = importlib.import_module("plugin_probes.common").differences
    edit = {"type": "object", "properties": {"old": {"type": "string"}, "new": {"type": "string"}}}
    theirs = {
        "properties": {
            "path": {"type": "string"},
            "edits": {"type": "array", "items": edit},
            "count": {"anyOf": [{"type": "integer"}, {"type": "null"}]},
            "order": {"enum": ["name", "size"]},
            "dry_run": {"type": ["boolean", "string"]},
            "name": {"type": ["array", "string"]},
        },
        "required": ["path"],
    }
    ours = {
        "properties": {
            "path": {"type": "string"},
            "edits": {"type": "array", "items": {"$ref": "#/$defs/Edit"}},
            "count": {"type": "string"},
            "order": {"type": "string", "enum": ["name"]},
            "dry_run": {"type": "boolean"},
            "name": {"type": "array"},
        },
        "required": ["path", "order"],
        "$defs": {"Edit": {"type": "object", "properties": {"old": {"type": "boolean"}}}},
    }

    assert differences(theirs, theirs) == []
    assert differences(theirs, ours) == [
        "`edits[].old` is no string",
        "no `edits[].new`",
        "`count` is no number",
        "`order` may not be size",
        "`name` is no string",
        "`order` is required",
    ]


def test_documented_behaviour_matches_the_plugin(shapes: Any) -> None:
    tried = script("--only", "thinking", "--ours", "--json")["thinking"]
    written = {title: ours for title, _, ours in table(sections()["thinking"])}

    stable = {title: ours for title, _, ours in tried if title not in shapes["thinking"]["measured"]}
    # Tools without a reference are not compared.
    stable.pop("The reference's tools that ours has too, with the same argument names (in snake case) and types")
    assert len(stable) >= 12
    assert stable == {title: written[title] for title in stable}
