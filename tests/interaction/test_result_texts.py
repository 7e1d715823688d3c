"""The text of a tool's result that a model reads, and the repair of its arguments."""

from __future__ import annotations

import json
from typing import Any

import pytest
from attrs import frozen

from mcptrio import tool
from mcptrio.serving import ServerLimits, ServerSettings
from mcptrio.types import CallToolResult, TextContent
from tests.interaction.serving import Serve


@frozen
class Commit:
    id: str
    subject: str


def _lines(commits: list[Commit]) -> str:
    return "\n".join(f"{each.id} {each.subject}" for each in commits)


@tool(text=_lines)
async def log(limit: int = 2) -> list[Commit]:
    """List commits."""
    return [Commit(f"c{number}", "work") for number in range(limit)]


@tool(text=lambda value: f"{value['name']}!", output_schema={"type": "object"})
async def described() -> dict[str, Any]:
    """Use its own schema."""
    return {"name": "peas"}


@tool(text=lambda value: value["missing"])
async def unreadable() -> dict[str, int]:
    """Fail to render."""
    return {"a": 1}


@tool
async def plain(rows: int) -> dict[str, list[int]]:
    """Return data without a text."""
    return {"rows": list(range(rows))}


@tool
async def long(lines: int) -> str:
    """Return many lines."""
    return "0123456789\n" * lines


@tool
async def blocks() -> list[Any]:
    """Return several texts."""
    return ["a" * 900, "b" * 900, b"bytes"]


async def test_text_is_made_by_the_function_of_the_tool(serve: Serve) -> None:
    peer = await serve(log, described)

    result = await peer.call("log", {"limit": 2})
    own = await peer.text("described")

    assert result["content"] == [{"type": "text", "text": "c0 work\nc1 work"}]
    assert own == "peas!"
    if serve.revision >= "2025-06-18":
        structured = result["structuredContent"]
        commits = structured if serve.revision == "2026-07-28" else structured["result"]
        assert commits[0] == {"id": "c0", "subject": "work"}


async def test_failing_text_is_the_error_of_the_tool(serve: Serve) -> None:
    peer = await serve(unreadable)

    assert "error executing tool unreadable" in await peer.failure("unreadable")


async def test_text_of_data_is_json_without_blanks(serve: Serve) -> None:
    peer = await serve(plain)

    assert await peer.text("plain", {"rows": 3}) == '{"rows":[0,1,2]}'


async def test_long_text_is_cut_at_a_line_with_a_note(serve: Serve) -> None:
    peer = await serve(long, plain, settings=ServerSettings(limits=ServerLimits(result_text=1_000)))

    text = await peer.text("long", {"lines": 500})
    data = await peer.call("plain", {"rows": 2_000})

    assert text.splitlines()[-1] == "[990 of 5500 characters; ask for less, or for another part, to see the rest]"
    assert text.splitlines()[-2] == "0123456789" or text.splitlines()[-3] == "0123456789"
    assert len(data["content"][0]["text"]) < 1_100
    if serve.revision >= "2025-06-18":
        assert len(data["structuredContent"]["rows"]) == 2_000


async def test_texts_of_one_result_are_cut_together(serve: Serve) -> None:
    peer = await serve(blocks, settings=ServerSettings(limits=ServerLimits(result_text=1_000)))

    first, second, data = (await peer.call("blocks"))["content"]

    assert first["text"] == "a" * 900
    assert second["text"].startswith("b" * 100 + "\n[100 of 900 characters")
    assert data["type"] == "resource"


@tool
async def pages() -> list[Any]:
    """Return more texts than fit."""
    return ["a" * 1_000, "b" * 300, b"bytes", "c" * 200]


async def test_texts_that_are_left_out_are_counted(serve: Serve) -> None:
    peer = await serve(pages, settings=ServerSettings(limits=ServerLimits(result_text=1_000)))

    first, data, rest = (await peer.call("pages"))["content"]

    assert first["text"] == "a" * 1_000
    assert data["type"] == "resource"
    assert rest["text"] == "[500 more characters in further texts; ask for less to see them]"


@tool
async def finished() -> CallToolResult:
    """Return a result that the function has made itself."""
    return CallToolResult(content=(TextContent(text="a" * 2_000),), structured_content={"whole": "a" * 2_000})


async def test_result_that_a_function_has_made_is_cut(serve: Serve) -> None:
    peer = await serve(finished, settings=ServerSettings(limits=ServerLimits(result_text=1_000)))

    result = await peer.call("finished")

    assert result["content"][0]["text"].startswith("a" * 1_000 + "\n[1000 of 2000 characters; ask for less")
    if serve.revision >= "2025-06-18":
        assert result["structuredContent"] == {"whole": "a" * 2_000}


@tool
async def pick(count: int, names: list[str], options: dict[str, int], note: str = "", mark: str = "none") -> str:
    """Take several types."""
    return json.dumps([count, names, options, note, mark])


async def test_arguments_with_one_meaning_are_repaired_and_named(serve: Serve) -> None:
    peer = await serve(pick)

    arguments = {"count": "3", "names": "a.txt", "options": '{"a": "1"}', "note": 7, "mark": None}
    result = await peer.call("pick", arguments)

    assert json.loads(result["content"][0]["text"]) == [3, ["a.txt"], {"a": 1}, "7", "none"]
    if serve.revision >= "2025-06-18":
        assert result["_meta"]["mcptrio/repaired"] == ["count", "names", "options", "options.a", "note", "mark"]


async def test_arguments_without_a_single_meaning_are_refused_as_written(serve: Serve) -> None:
    peer = await serve(pick)
    arguments = {"count": "three", "names": "a.txt", "options": {}}

    if serve.revision >= "2025-11-25":
        assert "count" in await peer.failure("pick", arguments)
    else:
        assert "count" in (await peer.error("tools/call", {"name": "pick", "arguments": arguments}))["message"]


async def test_operator_can_refuse_arguments_in_a_wrong_form(serve: Serve) -> None:
    peer = await serve(pick, settings=ServerSettings(repair_arguments=False))
    arguments = {"count": "3", "names": [], "options": {}}

    if serve.revision >= "2025-11-25":
        assert "count" in await peer.failure("pick", arguments)
    else:
        assert "count" in (await peer.error("tools/call", {"name": "pick", "arguments": arguments}))["message"]


async def test_text_needs_structured_content(serve: Serve) -> None:
    async def nothing():  # type: ignore[no-untyped-def]
        """Return nothing that is declared."""

    server = await serve.start(pick)
    with pytest.raises(ValueError, match="with text=, got neither"):
        server.add_tool(nothing, text=str)
