"""Resources, completion, prompts, insights and settings."""

from __future__ import annotations

import sqlite3
from contextlib import AsyncExitStack, closing
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
from mcptrio_sqlite import Config, objects

from mcptrio import MCPError, Server, connect
from mcptrio.abc import Principal
from mcptrio.serving import memory_channel_pair
from mcptrio.testing import Case, ServerSpec, open_served
from mcptrio.types import TextResourceContents


async def test_schemas_are_readable_as_resources(sqlite_client: Any) -> None:
    async with sqlite_client() as client:
        listed = {each.uri async for each in client.resources()}
        templates = {each.uri_template async for each in client.resource_templates()}
        [schema] = (await client.read_resource("sqlite://shop/schema")).contents
        [table] = (await client.read_resource("sqlite://shop/orders")).contents
        for uri in ("sqlite://shop/nothing", "sqlite://other/orders", "sqlite://other/schema"):
            with pytest.raises(MCPError, match="not found"):
                await client.read_resource(uri)

    assert listed == {"sqlite://shop/schema", "memo://insights"}
    assert templates == {"sqlite://{database}/schema", "sqlite://{database}/{table}"}
    assert isinstance(schema, TextResourceContents)
    assert "CREATE INDEX by_sum" in schema.text
    assert "places_node" not in schema.text
    assert isinstance(table, TextResourceContents)
    assert '"name":"customer"' in table.text


async def test_long_schema_is_truncated(tmp_path: Path, sqlite_client: Any) -> None:
    with closing(sqlite3.connect(tmp_path / "long.db")) as connection:
        connection.executescript("".join(f"CREATE TABLE number_{number}(a, b, c, d, e, f);" for number in range(40)))
    async with sqlite_client(databases={"long": tmp_path / "long.db"}, max_export_bytes=1000) as client:
        [schema] = (await client.read_resource("sqlite://long/schema")).contents
    assert len(schema.text) < 1100
    assert "-- cut: 17 more; list_tables" in schema.text


async def test_databases_and_tables_are_completed(sqlite_client: Any) -> None:
    async with sqlite_client() as client:
        template = "sqlite://{database}/{table}"
        databases = await client.complete("resource", template, "database", "sh")
        tables = await client.complete("resource", template, "table", "o", context={"database": "shop"})
        asked = await client.complete("prompt", "analyse_table", "table", "cust")
    assert databases.values == ("shop",)
    assert tables.values[0] == "orders"
    assert asked.values[0] == "customers"


async def test_prompts_name_the_tools(sqlite_client: Any) -> None:
    async with sqlite_client(writable=("shop",)) as client:
        names = {tool.name async for tool in client.tools()}
        analyse = await client.get_prompt("analyse_table", {"table": "orders", "question": "Who pays most?"})
        demonstrate = await client.get_prompt("mcp-demo", {"topic": "bees"})
    text = analyse.messages[0].content.text
    assert "orders" in text
    assert "Who pays most?" in text
    assert "bees" in demonstrate.messages[0].content.text
    assert {"describe_table", "read_query", "explain_query", "append_insight"} <= {n for n in names if n in text}


async def test_insights_are_collected_in_a_memo(sqlite_client: Any, call: Any) -> None:
    async with sqlite_client(max_insights=2) as client:
        async with client.subscribe(["memo://insights"]) as changes:
            first = await call(client, "append_insight", insight="Ada pays\nmost.")
            assert (await anext(changes)).uri == "memo://insights"
        await call(client, "append_insight", insight="Bob pays less.")
        [memo] = (await client.read_resource("memo://insights")).contents
        assert memo.text == "# Insights\n\n- Ada pays most.\n- Bob pays less.\n"
        third = await call(client, "append_insight", insight="Cyd pays nothing.")
        [memo] = (await client.read_resource("memo://insights")).contents
    assert (first["insights"], first["dropped"]) == (1, 0)
    assert (third["insights"], third["dropped"]) == (2, 1)
    assert "Ada" not in memo.text


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
async def test_each_session_has_its_own_memo(shop: Path, call: Any, revision: str) -> None:
    spec = ServerSpec(plugins=objects(Config(databases={"shop": shop})))
    async with open_served(spec, Case(revision=revision)) as served:
        async with served.connect() as one, served.connect() as other:
            await call(one, "append_insight", insight="mine")
            [memo] = (await other.read_resource("memo://insights")).contents
            assert "None yet" in memo.text


async def test_sessions_of_a_principal_share_a_memo(shop: Path, call: Any) -> None:
    server = Server(plugins=objects(Config(databases={"shop": shop})))
    with trio.fail_after(60):
        async with server.open() as running, trio.open_nursery() as nursery, AsyncExitStack() as stack:
            memos = []
            for subject in ("ann", "ann", "bob"):
                ours, theirs = memory_channel_pair()
                nursery.start_soon(partial(running.serve, theirs, principal=Principal(subject=subject)))
                client = await stack.enter_async_context(connect(ours))
                if not memos:
                    await call(client, "append_insight", insight="hers")
                memos.append((await client.read_resource("memo://insights")).contents[0].text)
            nursery.cancel_scope.cancel()
    assert ["hers" in memo for memo in memos] == [True, True, False]


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"databases": {"a/b": Path("x")}}, "expected a name"),
        ({"databases": {"a": Path(":memory:")}}, "expected the path of a file"),
        ({"writable": ("b",)}, "expected the name of a database"),
        ({"deny": ("a.b.c",)}, "expected 'table'"),
        ({"query_timeout": 0.0}, "query_timeout"),
        ({"max_rows": 0}, "max_rows"),
        ({"max_cell_bytes": 2**40}, "max_cell_bytes"),
    ],
)
def test_invalid_settings_are_refused(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(ValueError, match=message):
        Config(**settings)
