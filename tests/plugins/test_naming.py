"""The names under which clients see the tools of plugins."""

from __future__ import annotations

from typing import Annotated, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import mcptrio
from mcptrio import Context, MCPError, PluginSetup, Server, ToolError, connect, hookimpl, prompt, resource, tool
from mcptrio.errors import PluginError
from mcptrio.plugins.manager import PluginManager
from mcptrio.plugins.naming import is_portable, prefixed_name
from mcptrio.plugins.plugin import Plugin
from mcptrio.plugins.settings import PluginTables
from mcptrio.serving import ServerSettings
from mcptrio.types import CallToolResult, TextContent

__all__: list[str] = []


class Notes:
    @tool
    def add(self) -> str:
        return "added"

    @tool
    def notes_list(self) -> str:
        return "listed"

    @tool
    def notes(self) -> str:
        return "all"


class Bare(Notes):
    @hookimpl
    def setup(self, server: PluginSetup) -> None:
        server.set_tool_prefix("")


def installed(*plugins: tuple[str, object]) -> PluginManager:
    """Plugins as if they were installed from distributions."""
    manager = PluginManager()
    for name, object in plugins:
        manager.register(object, name).distribution = f"mcptrio-{name}"
    return manager


def names(server: Server) -> list[str]:
    return [entry.key for entry in server.catalog.tools.registry]


def test_tool_names_of_an_installed_plugin_have_its_name_as_prefix() -> None:
    assert names(Server(plugins=installed(("notes", Notes())))) == ["notes_add", "notes_list", "notes"]


def test_tool_names_of_an_object_have_no_prefix() -> None:
    assert names(Server(plugins=[Notes()])) == ["add", "notes_list", "notes"]


def test_prefix_of_the_operator_overrides_the_plugin() -> None:
    manager = installed(("notes", Notes()), ("bare", Bare()))
    tables = PluginTables(tables={"notes": {"prefix": ""}, "bare": {"prefix": "b"}}, environ={})
    assert names(Server(plugins=manager, config=tables)) == [
        *("add", "notes_list", "notes"),
        *("b_add", "b_notes_list", "b_notes"),
    ]


def test_empty_prefix_of_a_plugin_applies_only_to_free_names() -> None:
    class Other:
        @tool
        def add(self) -> str:
            return ""

    server = Server(plugins=installed(("other", Other()), ("bare", Bare())), config={"other": {"prefix": ""}})
    assert names(server) == ["add", "bare_add", "notes_list", "notes"]
    assert server.plugins.plugins["bare"].state == "loaded"
    assert server.plugins.plugins["bare"].warnings == ["tool add is offered as bare_add: add is taken"]


async def said(client: mcptrio.Client, tool: str) -> str:
    [block] = (await client.call_tool(tool)).content
    assert isinstance(block, TextContent)
    return block.text


async def test_tools_added_later_have_the_prefix_and_are_removed_with_their_plugin() -> None:
    class Growing:
        @tool
        def grow(self, ctx: mcptrio.Context) -> str:
            return ctx.server.add_tool(lambda: "grown", name="leaf")

        @tool
        def fall(self, ctx: mcptrio.Context) -> bool:
            return ctx.server.remove_tool("leaf")

    manager = installed(("tree", Growing()))
    server = Server(plugins=manager)
    async with server.open(), mcptrio.connect(server) as client:
        assert await said(client, "tree_grow") == "tree_leaf"
        assert names(server) == ["tree_grow", "tree_fall", "tree_leaf"]
        assert await said(client, "tree_fall") == "true"
        assert manager.plugins["tree"].offers["tools"] == ["tree_grow", "tree_fall"]
        await client.call_tool("tree_grow")
        server.running_plugins.quarantine(manager.plugins["tree"], "enough")
        assert names(server) == []


def with_tool(name: str) -> Plugin:
    """Return an installed plugin ``one`` that has offered a tool of this name."""

    class One:
        @hookimpl
        def setup(self, server: PluginSetup, config: Any) -> None:
            server.add_tool(lambda: "", name=name)

    manager = installed(("one", One()))
    Server(plugins=manager)
    return manager.plugins["one"]


def test_prefix_that_some_hosts_reject_is_refused() -> None:
    class Shop:
        @hookimpl
        def setup(self, server: PluginSetup) -> None:
            server.set_tool_prefix("my shop")

    with pytest.raises(PluginError, match=r'set_tool_prefix: expected "" or 1 to 64 characters .*, got .my shop.'):
        Server(plugins=[Shop()], settings=ServerSettings(strict=True))


@pytest.mark.parametrize("name", ["a.b", "x" * 61])
def test_name_that_some_hosts_reject_is_refused(name: str) -> None:
    plugin = with_tool(name)
    assert plugin.state == "quarantined"
    assert "expected a tool name of 1 to 64 characters" in str(plugin.failure)


def test_name_that_some_hosts_truncate_causes_a_warning() -> None:
    name = "x" * 60
    assert with_tool(name).warnings == [f"tool one_{name} has 64 characters: some hosts truncate names over 40"]


@given(st.from_regex(r"[A-Za-z0-9_-]{1,20}", fullmatch=True), st.from_regex(r"[A-Za-z0-9_-]{1,40}", fullmatch=True))
def test_prefixed_names_are_stable(prefix: str, name: str) -> None:
    once = prefixed_name(prefix, name)
    assert prefixed_name(prefix, once) == once
    assert once.endswith(name)
    assert is_portable(once)
    assert prefixed_name("", name) == name


class Referring:
    @tool(output_schema={"type": "object", "properties": {"description": {"description": "See {tool:add}."}}})
    def search(self, ctx: Context, text: str = "") -> CallToolResult:
        """Search; {tool:add} adds, {tool:tell_all} tells, {tool:} is none.

        Args:
            text: As {tool:add} has it.
        """
        if text:
            raise ToolError(f"there is no {text}; {{tool:add}} adds it")
        content = TextContent(text=f"see {ctx.tool_name('add')}, not {{tool:add}}")
        return CallToolResult(content=(content,), structured_content={})

    @tool
    def add(self) -> str:
        return ""

    @prompt
    def ask(self, what: Annotated[str, "For {tool:search}."] = "") -> str:
        """Before {tool:search}."""
        raise ToolError("first {tool:add}")

    @resource("notes://all")
    def everything(self) -> str:
        """What {tool:search} finds."""
        raise ToolError("first {tool:add}")

    @resource("notes://one/{name}")
    def one(self, name: str) -> str:
        """One that {tool:search} finds."""
        return name


@pytest.mark.parametrize(
    ("prefix", "seen"), [(None, "notes_"), ("n", "n_"), ("", "")], ids=["its name", "another", "none"]
)
async def test_descriptions_refer_to_tools_by_their_listed_names(prefix: str | None, seen: str) -> None:
    table = {} if prefix is None else {"prefix": prefix}
    server = Server(plugins=installed(("notes", Referring())), config={"notes": table})
    async with connect(server) as client:
        listed = {each.name: each async for each in client.tools()}
        search = listed[f"{seen}search"]
        assert search.description == f"Search; {seen}add adds, {seen}tell_all tells, {{tool:}} is none."
        assert search.input_schema["properties"]["text"]["description"] == f"As {seen}add has it."
        assert search.output_schema is not None
        assert search.output_schema["properties"]["description"]["description"] == f"See {seen}add."
        [asked] = [each async for each in client.prompts()]
        assert asked.description == f"Before {seen}search."
        assert asked.arguments is not None
        assert asked.arguments[0].description == f"For {seen}search."
        [everything] = [each async for each in client.resources()]
        assert everything.description == f"What {seen}search finds."
        [one] = [each async for each in client.resource_templates()]
        assert one.description == f"One that {seen}search finds."

        failed = await client.call_tool(search.name, {"text": "moon"})
        assert failed.content == (TextContent(text=f"there is no moon; {seen}add adds it"),)
        answer = await client.call_tool(search.name, {})
        assert answer.content == (TextContent(text=f"see {seen}add, not {{tool:add}}"),)
        for failing in (client.get_prompt("ask"), client.read_resource("notes://all")):
            with pytest.raises(MCPError, match=f"first {seen}add$"):
                await failing


async def test_descriptions_refer_to_a_renamed_tool_by_its_new_name() -> None:
    class Free(Referring):
        @hookimpl
        def setup(self, server: PluginSetup) -> None:
            server.set_tool_prefix("")

    server = Server(plugins=installed(("a", Bare()), ("b", Free())))
    async with connect(server) as client:
        assert (await client.call_tool("search", {"text": "x"})).content == (
            TextContent(text="there is no x; b_add adds it"),
        )


async def test_tool_references_outside_plugins_are_unchanged() -> None:
    def name(ctx: Context) -> str:
        return ctx.tool_name("other")

    server = Server()
    server.add_tool(name)
    async with connect(server) as client:
        assert (await client.call_tool("name", {})).content == (TextContent(text="other"),)
