"""docs/plugins.md and docs/tools.md: each example does what the page says, for a client or on the command line.

A section whose program has no check fails. ``tests/test_docs_new_plugin.py`` runs the console blocks.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Awaitable, Callable
from pathlib import Path
from types import ModuleType
from typing import Any

import pytest
import trio

import mcptrio
from mcptrio import Client, MCPError, Server, connect
from mcptrio.client import Handlers, Progress
from mcptrio.errors import MissingClientCapability
from mcptrio.serving import ServerSettings
from mcptrio.testing import Script
from mcptrio.types import BlobResourceContents, TextResourceContents
from tests.processes import environment, run, serving
from tests.test_readme import Block, blocks_of, shell_lines

__all__: list[str] = []

PAGES = {
    name: (Path(__file__).resolve().parents[1] / name).read_text("utf-8")
    for name in ("docs/plugins.md", "docs/tools.md")
}
SECTIONS: dict[str, list[Block]] = {}
for _name, _text in PAGES.items():
    for _part in re.split(r"^##+ ", _text, flags=re.MULTILINE)[1:]:
        SECTIONS[_part.partition("\n")[0]] = list(blocks_of(_part, _name))
SCRIPTS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
BY_COMMAND = ("The smallest plugin", "Configuration", "Test and publish")
"""Sections whose program a test below runs with a command. The others have a check with a client."""
BY_CLIENT = [
    name
    for name, found in SECTIONS.items()
    if name not in BY_COMMAND and any(block.language == "python" for block in found)
]
CHECKS: dict[str, Callable[[ModuleType], Awaitable[None]]] = {}


def program_of(section: str) -> Callable[[Callable[[ModuleType], Awaitable[None]]], None]:
    """Decorate the check of a section's program, which gets the module."""
    return lambda check: CHECKS.update({section: check})


def text_of(section: str, language: str) -> str:
    [block] = [block for block in SECTIONS[section] if block.language == language]
    return block.text


def server_of(module: ModuleType) -> Server:
    return Server(plugins=[module], settings=ServerSettings(strict=True))


async def answer(client: Client, tool: str, **arguments: Any) -> str:
    return (await client.call_tool(tool, arguments)).text


@pytest.mark.parametrize("section", BY_CLIENT)
async def test_program_behaves_as_the_page_describes(
    section: str, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.chdir(tmp_path)
    module = ModuleType("shown")
    monkeypatch.setitem(sys.modules, "shown", module)
    exec(compile(text_of(section, "python"), section, "exec"), module.__dict__)
    with trio.fail_after(60):
        await CHECKS[section](module)


@program_of("Tools")
async def _(module: ModuleType) -> None:
    async with mcptrio.connect(server_of(module)) as client:
        [tool] = [tool async for tool in client.tools()]
        properties = tool.input_schema["properties"]
        assert tool.description == "Search the archive."
        assert properties["query"]["description"] == "Words that a result must contain."
        assert (await client.call_tool("search", {"query": "tea", "limit": 2})).structured_content == ["tea 1", "tea 2"]


@program_of("Write a tool")
async def _(module: ModuleType) -> None:
    async with mcptrio.connect(server_of(module)) as client:
        [tool] = [tool async for tool in client.tools()]
        properties = tool.input_schema["properties"]
        assert properties["query"]["description"] == "Words that a result must contain."
        assert properties["query"]["maxLength"] == 200
        assert properties["order"]["enum"] == ["new", "old"]
        assert (await client.call_tool("search", {"query": "tea"})).structured_content == ["tea, new"]
        assert "query" in await answer(client, "search", query="")


@program_of("asyncio libraries")
async def _(module: ModuleType) -> None:
    async with mcptrio.connect(server_of(module)) as client:
        assert await answer(client, "find", query="tea") == "results for tea"


@program_of("Options")
async def _(module: ModuleType) -> None:
    async with mcptrio.connect(server_of(module)) as client:
        [tool] = [tool async for tool in client.tools()]
        assert tool.title == "Measure"
        assert set(tool.input_schema["properties"]) == {"sensor"}
        assert await answer(client, "measure", sensor="north") == "21.5"


@program_of("Progress and questions")
async def check_progress_and_questions(module: ModuleType) -> None:
    script = Script().elicit({"depth": "deep"}).elicit({"value": True}).elicit({"depth": "deep"}).decline().decline()
    reports: list[Progress] = []
    async with connect(server_of(module), handlers=script.handlers()) as client:
        result = await client.call_tool("sow", {"beds": ["north", "south"]}, progress=reports.append)
        assert result.structured_content == ["north: 1 rows, deep, watered", "south: 1 rows, deep, watered"]
        assert reports[-1].progress == reports[-1].total == 2
        result = await client.call_tool("sow", {"beds": ["north"]})
        assert result.structured_content == ["north: 1 rows, deep"]
        result = await client.call_tool("sow", {"beds": ["north"]})
        assert result.is_error
        assert "declined" in result.text
    script.check()
    async with connect(server_of(module)) as client:
        with pytest.raises(MissingClientCapability):
            await client.call_tool("sow", {"beds": ["north"]})


@program_of("State")
async def _(module: ModuleType) -> None:
    async with mcptrio.connect(server_of(module)) as client:
        assert [await answer(client, "put", title=title) for title in ("Emma", "Persuasion")] == ["1", "2"]


@program_of("Lifespan")
async def _(module: ModuleType) -> None:
    for count in ("1", "2"):  # the second server reads the file of the first
        async with mcptrio.connect(server_of(module)) as client:
            assert await answer(client, "put", title="Emma") == count
    assert json.loads(await trio.Path("shelf.json").read_text()) == ["Emma", "Emma"]


@program_of("Results of tools")
async def _(module: ModuleType) -> None:
    async with mcptrio.connect(server_of(module)) as client:
        result = await client.call_tool("log", {})
        assert result.text == "5f3c1a9 Plant beans"
        assert result.structured_content == [{"id": "5f3c1a9", "subject": "Plant beans"}]


@program_of("Resources")
async def _(module: ModuleType) -> None:
    async with mcptrio.connect(server_of(module)) as client:
        [page] = (await client.read_resource("docs:///pages/start?lang=fr")).contents
        [cover] = (await client.read_resource("docs:///cover")).contents
        assert isinstance(page, TextResourceContents)
        assert page.text == "start in fr"
        assert isinstance(cover, BlobResourceContents)
        assert cover.mime_type == "image/png"


@program_of("Prompts")
async def _(module: ModuleType) -> None:
    async with mcptrio.connect(server_of(module)) as client:
        shown = await client.get_prompt("plan", {"season": "autumn", "beds": "3"})
        assert "What should I sow in 3 beds in autumn?" in str(shown.messages[0].content)
        assert (await client.complete("prompt", "plan", "season", "s")).values[0] == "spring"


@program_of("Completions")
async def _(module: ModuleType) -> None:
    async with mcptrio.connect(server_of(module)) as client:
        template = "weather:///{country}/{city}"
        for country, expected in {"fr": ["Paris", "Lyon"], "it": ["Rome"], "de": []}.items():
            completion = await client.complete("resource", template, "city", "", context={"country": country})
            assert sorted(completion.values) == sorted(expected)
        completion = await client.complete("resource", template, "city", "par", context={"country": "fr"})
        assert completion.values[0] == "Paris"


@program_of("Your own methods")
async def _(module: ModuleType) -> None:
    received: list[str] = []
    handlers = Handlers(notification=lambda method, params: received.append(f"{method} {params}"))
    async with mcptrio.connect(server_of(module), handlers=handlers, revision="2025-11-25") as client:
        assert await client.request("acme/resize", {"workers": 6}) == {"before": 4}
        await client.ping()
        assert received == ["notifications/acme/resized {'workers': 6}"]


@program_of("Choose a prefix")
async def _(module: ModuleType) -> None:
    async with mcptrio.connect(server_of(module)) as client:
        tools = {tool.name: tool.description async for tool in client.tools()}
        assert set(tools) == {"shop_search", "shop_price"}
        assert tools["shop_price"] == "Return the price of a product that shop_search has found."
        with pytest.raises(MCPError, match="no such tool: `price`"):
            await client.call_tool("price", {"product": "red tea"})


def test_smallest_plugin_is_served(tmp_path: Path) -> None:
    (tmp_path / "beds.py").write_text(text_of("The smallest plugin", "python"))
    stdio, http = shell_lines(Block("sh", text_of("The smallest plugin", "sh"), ""))
    assert "--stdio" in stdio
    over_stdio = run("call", stdio, "planted", "bed=south", cwd=tmp_path, PATH=SCRIPTS)
    assert over_stdio.stdout == "peas\n", over_stdio.stderr
    with serving(*http.split()[2:], "--port=0", cwd=tmp_path) as served:
        over_http = run("call", f"http://127.0.0.1:{served.port}/mcp", "planted", "bed=south", cwd=tmp_path)

    assert over_http.stdout == "peas\n", over_http.stderr
    assert len(text_of("The smallest plugin", "python").splitlines()) <= 15


def test_configuration_reaches_the_plugin(tmp_path: Path) -> None:
    (tmp_path / "archive.py").write_text(text_of("Configuration", "python"))
    (tmp_path / "mcptrio.toml").write_text(text_of("Configuration", "toml"))
    call, show = (line.split()[1:] for line in shell_lines(Block("sh", text_of("Configuration", "sh"), "")))
    [printed] = re.findall(r"^The call prints `(.+?)`", PAGES["docs/plugins.md"], re.MULTILINE)
    called = run(*call, cwd=tmp_path, HOME_TOKEN="hidden")
    result = run(*show, cwd=tmp_path, HOME_TOKEN="hidden")
    refused = run(*call, cwd=tmp_path, HOME_TOKEN="hidden", MCPTRIO_ARCHIVE_MAX_BYTES="0")

    assert called.stdout.strip() == printed, called.stderr
    assert f"{Path('~/papers').expanduser()}" in result.stdout
    assert "hidden" not in result.stdout
    assert "MCPTRIO_ARCHIVE_MAX_BYTES" in refused.stderr


def test_test_of_the_page_passes(tmp_path: Path) -> None:
    (tmp_path / "beds.py").write_text(text_of("The smallest plugin", "python"))
    (tmp_path / "test_beds.py").write_text(text_of("Test and publish", "python"))
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        env=environment(PYTHONPATH=str(tmp_path)),
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )

    assert re.search(r"^1 passed", result.stdout, re.MULTILINE), result.stdout


def test_log_shows_the_error_as_on_the_page(tmp_path: Path) -> None:
    lines = "from mcptrio import tool\n\nbeds: list[int] = []\n\n\n@tool\nasync def average() -> float:\n"
    lines += '    """Return the average size."""\n    total = sum(beds)\n\n    try:\n        return total / len(beds)\n'
    lines += '    except ZeroDivisionError as error:\n        raise ValueError("no beds") from error\n'
    (tmp_path / "garden.py").write_text(lines)
    result = run("call", "--plugin", "garden.py", "average", cwd=tmp_path)
    expected = re.escape(text_of("When a tool fails", "text").strip())
    expected = expected.replace("4f82dc30", "[0-9a-f]{8}").replace("/home/ada", re.escape(str(tmp_path)))

    assert re.search(re.sub(r"…\\ \d+\\ frames", r"…\\ \\d+\\ frames", expected), result.stderr), result.stderr


def test_every_block_is_run() -> None:
    """Console blocks are run by test_docs_new_plugin.py, and commands compared with the options by test_readme.py."""
    assert set(CHECKS) == set(BY_CLIENT)
    others = {
        (name, block.language)
        for name, found in SECTIONS.items()
        for block in found
        if block.language not in ("python", "console", "sh")
    }
    assert others == {("Configuration", "toml"), ("When a tool fails", "text")}
    assert sum(len(found) for found in SECTIONS.values()) == sum(
        len(list(blocks_of(text, name))) for name, text in PAGES.items()
    )
