"""The installed plugin, over every transport; its settings, its resources, and its secrets."""

from __future__ import annotations

import logging
from typing import Any

import pytest
import trio
from mcptrio_postgres import Config, objects
from mcptrio_postgres.address import read_address

from mcptrio import MCPError, Secret, Server, connect
from mcptrio.errors import PluginError
from mcptrio.testing import Case, ServerSpec, open_served

PASSWORD = "s3cr3t&word"
QUOTED = "s3cr3t%26word"


@pytest.mark.parametrize("transport", ["memory", "stdio", "http"])
async def test_plugin_is_found_and_configured(shop: Any, transport: str) -> None:
    spec = ServerSpec(plugins=["postgres"], config={"postgres": {"databases": {"shop": shop.url}, "max_rows": 2}})
    with trio.fail_after(60):
        async with open_served(spec, Case(transport=transport)) as served, served.connect() as client:
            [tool] = [tool.name async for tool in client.tools() if tool.name.endswith("read_query")]
            result = await client.call_tool(tool, {"query": "SELECT name FROM customers ORDER BY id"})

    assert result.structured_content["items"] == [["Ada"], ["Bob"]]
    assert result.structured_content["truncated"]


async def test_examples_of_the_tools_work(shop: Any) -> None:
    server = Server(plugins=objects(Config(databases={"shop": Secret(shop.url)})))
    called = set()
    with trio.fail_after(60):
        async with connect(server) as client:
            for entry in server.catalog.tools.registry:
                examples = entry.mark.examples
                if callable(examples):
                    examples = examples(entry.function.function.__self__)
                for arguments in examples:
                    result = await client.call_tool(entry.key, dict(arguments))
                    assert not result.is_error, result.text
                    called.add(entry.key)

    expected = {"list_databases", "list_schemas", "list_tables", "read_query", "explain_query", "advise_indexes"}
    assert called == expected


async def test_definitions_take_few_tokens(postgres_client: Any, check_tokens: Any) -> None:
    async with postgres_client(writable=("shop",)) as client:
        await check_tokens(client, 1277)


@pytest.mark.parametrize(
    ("settings", "message"),
    [
        ({"writable": ["none"]}, r"plugins\.postgres\.writable: expected the name of a database"),
        ({"databases": {"a b": "postgresql://x/y"}}, r"expected a name of 1 to 64 characters"),
        ({"databases": {"shop": f"mysql://me:{QUOTED}@x/y"}}, r"databases\.shop: expected postgresql://USER"),
        ({"databases": {"shop": f"postgresql://me:{QUOTED}@x/y?bad=1"}}, r"got a URL that libpq cannot read"),
        ({"query_timeout": 0}, r"query_timeout"),
    ],
)
async def test_invalid_setting_is_reported(settings: dict[str, Any], message: str) -> None:
    with pytest.raises(PluginError, match=message) as failed:
        async with open_served(ServerSpec(plugins=["postgres"], config={"postgres": settings})):
            pass
    assert PASSWORD not in str(failed.value)
    assert QUOTED not in str(failed.value)


async def test_passwords_are_in_no_error_and_no_log(
    postgres_client: Any, refusal: Any, call: Any, shop: Any, caplog: pytest.LogCaptureFixture
) -> None:
    caplog.set_level(logging.DEBUG)
    url = f"postgresql://nobody:{QUOTED}@127.0.0.1"
    databases = {
        "role": Secret(f"{url}:{shop.server.port}/{shop.name}"),
        "closed": Secret(f"{url}:1/{shop.name}"),
        "unknown": Secret(f"postgresql://nobody:{QUOTED}@{PASSWORD.replace('&', '-')}.invalid/x?sslmode=disable"),
    }
    async with postgres_client(databases=databases) as client:
        for name in databases:
            message = await refusal(client, "read_query", query="SELECT 1", database=name)
            assert message.startswith(f"the database {name}: ")
            assert PASSWORD not in message
            assert QUOTED not in message
        listed = await call(client, "list_databases")
        assert PASSWORD not in str(listed)
        assert QUOTED not in str(listed)
    assert PASSWORD not in caplog.text
    assert QUOTED not in caplog.text


def test_connections_to_other_machines_use_tls() -> None:
    assert "sslmode" not in read_address("postgresql://me@127.0.0.1/x").parameters
    assert "sslmode" not in read_address("postgresql:///x?host=/run/postgresql").parameters
    assert read_address("postgresql://me@db.example/x").parameters["sslmode"] == "verify-full"
    assert read_address("postgresql://me@localhost,db.example/x").parameters["sslmode"] == "verify-full"
    assert read_address("postgresql://me@db.example/x?sslmode=require").parameters["sslmode"] == "require"


async def test_resources_and_completion(postgres_client: Any) -> None:
    async with postgres_client() as client:
        assert [each.uri async for each in client.resources()] == ["postgres://shop/schema"]
        [content] = (await client.read_resource("postgres://shop/schema")).contents
        assert "orders 6 columns" in content.text
        [content] = (await client.read_resource("postgres://shop/stock.items")).contents
        assert content.text.startswith("partitioned table stock.items")
        for uri in ("postgres://shop/none", "postgres://none/schema"):
            with pytest.raises(MCPError):
                await client.read_resource(uri)
        template = "postgres://{database}/{table}"
        assert (await client.complete("resource", template, "database", "sh")).values == ("shop",)
        completion = await client.complete("resource", template, "table", "public.o", context={"database": "shop"})
        assert completion.values[0] == "public.orders"


async def test_no_database_is_configured(postgres_client: Any, refusal: Any, text: Any) -> None:
    async with postgres_client(databases={}) as client:
        assert await text(client, "list_databases") == "no databases"
        assert "set databases = " in await refusal(client, "list_tables")
