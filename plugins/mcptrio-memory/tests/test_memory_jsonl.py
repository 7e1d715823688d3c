"""Import and export in the file format of the reference server."""

from __future__ import annotations

import json
import logging
from pathlib import Path

import pytest

from mcptrio.errors import PluginError

REFERENCE = """\
{"type":"entity","name":"Bob","entityType":"person","observations":["likes tea"]}
{"type":"entity","name":"Ann","entityType":"person","observations":[]}
{"type":"relation","from":"Bob","to":"Ann","relationType":"knows"}
"""
"""A file as the reference server writes it."""

BROKEN = """\
\ufeff{"type":"entity","name":"Bob","entityType":"person","observations":["likes tea"]}
{"type":"entity","name":"Cut","entityTy

{"type":"entity","name":"Odd","entityType":7,"observations":[]}
{"type":"planet","name":"Mars"}
[1, 2]
{"type":"entity","name":"Bob","entityType":"other","observations":["is tall"]}\r
{"type":"relation","from":"Bob","to":"Gone","relationType":"knows"}"""
"""Truncated lines, wrong types, a byte order mark, CRLF, a duplicate entity, a missing end, no last line end."""


async def test_export_equals_the_reference_file(open_memory, call) -> None:
    async with open_memory() as client:
        report = await call(client, "import_graph", jsonl=REFERENCE)
        export = await call(client, "export_graph")
        resource = await client.read_resource("memory://export")

    assert report["entities_created"] == 2
    assert report["relations_created"] == 1
    assert report["skipped"] == 0
    assert [json.loads(line) for line in export["jsonl"].splitlines()] == [
        json.loads(line) for line in REFERENCE.splitlines()
    ]
    assert resource.contents[0].text == export["jsonl"]
    assert resource.contents[0].mime_type == "application/jsonl"


async def test_export_pages_are_complete_lines_of_the_same_graph(open_memory, call, tmp_path) -> None:
    lines = [
        {"type": "entity", "name": f"e{number}", "entityType": "t", "observations": [f"text {number}" * 50]}
        for number in range(20)
    ]
    lines += [{"type": "relation", "from": "e0", "to": f"e{number}", "relationType": "r"} for number in range(20)]
    async with open_memory(max_answer_bytes=1500) as client:
        await call(client, "import_graph", jsonl="\n".join(map(json.dumps, lines)))
        text, cursor, count = "", None, 0
        while count == 0 or cursor is not None:
            page = await call(client, "export_graph", **({"cursor": cursor} if cursor else {}))
            text, cursor, count = text + page["jsonl"], page["next_cursor"], count + 1
    async with open_memory(file=tmp_path / "other.db") as client:
        await call(client, "import_graph", jsonl=text)
        again = await call(client, "export_graph")

    assert count > 5
    found = [json.loads(line) for line in text.splitlines()]
    assert sorted(map(str, found)) == sorted(map(str, lines))
    assert sorted(again["jsonl"].splitlines()) == sorted(text.splitlines())


async def test_malformed_line_is_reported_and_skipped(open_memory, call) -> None:
    async with open_memory() as client:
        report = await call(client, "import_graph", jsonl=BROKEN)
        again = await call(client, "import_graph", jsonl=BROKEN)
        graph = await call(client, "read_graph")

    assert [problem["line"] for problem in report["problems"]] == [2, 4, 5, 6]
    assert "expected" in report["problems"][1]["problem"].lower()
    assert {key: report[key] for key in report if key != "problems"} == {
        "lines": 7,
        "entities_created": 1,
        "observations_added": 1,
        "relations_created": 1,
        "skipped": 4,
    }
    assert again["entities_created"] == again["observations_added"] == again["relations_created"] == 0
    assert graph["entities"] == [{"name": "Bob", "entity_type": "person", "observations": ["likes tea", "is tall"]}]
    assert graph["relations"] == [{"from": "Bob", "to": "Gone", "relation_type": "knows"}]


async def test_long_import_reports_progress_and_its_size_is_bounded(open_memory, refusal) -> None:
    text = "".join(
        f'{{"type":"entity","name":"e{number}","entityType":"t","observations":[]}}\n' for number in range(1200)
    )
    received = []
    async with open_memory() as client:
        await client.call_tool("import_graph", {"jsonl": text}, progress=received.append)
    async with open_memory(max_import_bytes=1000) as client:
        message = await refusal(client, "import_graph", jsonl=text)

    assert received
    assert received[-1].total == 1201
    assert message.startswith("expected at most 1000 characters at `jsonl`, got ")


async def test_configured_file_is_imported_once(
    open_memory, call, tmp_path: Path, caplog: pytest.LogCaptureFixture
) -> None:
    old = tmp_path / "memory.jsonl"
    old.write_bytes(BROKEN.encode())
    with caplog.at_level(logging.INFO, "mcptrio_memory"):
        async with open_memory(import_file=old) as client:
            first = await call(client, "graph_stats")
            await call(client, "delete_entities", entity_names=["Bob"])
    old.unlink()
    async with open_memory(import_file=old) as client:
        second = await call(client, "graph_stats")

    assert (first["entities"], first["observations"]) == (1, 2)
    assert second["entities"] == 0
    messages = [record.getMessage() for record in caplog.records]
    assert sum("was skipped" in message for message in messages) == 4
    assert any("1 entities and 1 relations imported, 4 lines skipped" in message for message in messages)


async def test_unreadable_configured_file_is_an_error(open_memory, tmp_path: Path) -> None:
    with pytest.raises(PluginError, match=r"missing\.jsonl: cannot be read: No such file"):
        async with open_memory(import_file=tmp_path / "missing.jsonl"):
            pass
