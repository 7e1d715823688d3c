"""The tools that read, through a client."""

from __future__ import annotations

import csv
import io
import json
import sqlite3
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest

from mcptrio.types import EmbeddedResource, TextContent, TextResourceContents

HINTS = {
    "read_query": (True, False, True, False),
    "list_databases": (True, False, True, False),
    "list_tables": (True, False, True, False),
    "describe_table": (True, False, True, False),
    "explain_query": (True, False, True, False),
    "export_csv": (True, False, True, False),
    "append_insight": (False, False, False, False),
    "write_query": (False, True, False, False),
    "create_table": (False, False, False, False),
}


@pytest.mark.parametrize("writable", [(), ("shop",)])
async def test_listed_tools_depend_on_the_configuration(sqlite_client: Any, writable: tuple[str, ...]) -> None:
    async with sqlite_client(writable=writable) as client:
        tools = {tool.name: tool async for tool in client.tools()}
        prompts = {prompt.name async for prompt in client.prompts()}

    expected = set(HINTS) if writable else set(HINTS) - {"write_query", "create_table"}
    assert set(tools) == expected
    assert prompts == ({"analyse_table", "mcp-demo"} if writable else {"analyse_table"})
    for name, tool in tools.items():
        hints = tool.annotations
        assert hints is not None
        found = (hints.read_only_hint, hints.destructive_hint, hints.idempotent_hint, hints.open_world_hint)
        assert found == HINTS[name], name
        assert tool.title
        assert tool.output_schema is not None
        assert "exclusiveM" not in json.dumps([tool.input_schema, tool.output_schema])


@pytest.mark.parametrize("revision", ["2025-06-18", "2025-11-25", "2026-07-28"])
async def test_rows_are_returned_as_arrays_and_lines(sqlite_client: Any, revision: str) -> None:
    async with sqlite_client(revision=revision) as client:
        result = await client.call_tool(
            "read_query",
            {"query": "SELECT id, name FROM customers WHERE id < :most ORDER BY id", "params": {":most": 3}},
        )

    assert result.structured_content == {
        "database": "shop",
        "columns": ["id", "name"],
        "items": [[1, "Ada"], [2, "Bob"]],
        "truncated": False,
        "next_cursor": None,
        "notes": [],
    }
    [block] = result.content
    assert isinstance(block, TextContent)
    assert block.text == "id|name\n1|Ada\n2|Bob"


async def test_text_shows_each_result_in_lines(sqlite_client: Any, text: Any) -> None:
    values = "SELECT NULL AS a, 'b' || char(10) || 'b' AS b, x'00ff' AS c, zeroblob(99) AS d, 9007199254740992 AS e"
    numbers = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
    async with sqlite_client(writable=("shop",)) as client:
        assert await text(client, "read_query", query=values) == (
            "a|b|c|d|e\nNULL|b\\nb|<blob, 2 bytes: AP8=>|<blob, 99 bytes>|9007199254740992"
        )
        assert (await text(client, "read_query", query=numbers, limit=2)).startswith(
            "i\n1\n2\n[more rows; continue with cursor=2-"
        )
        assert await text(client, "list_tables") == (
            "big 3 view\ncustomers 3\norders 3\nplaces 3 virtual\ntexts 3 virtual"
        )
        assert (await text(client, "list_tables", limit=1)) == "big 3 view\n[more tables; continue with cursor=big]"
        described = await text(client, "describe_table", table_name="orders", count_rows=True)
        assert described.startswith("CREATE TABLE orders(\n")
        assert described.endswith(")\nindex by_sum (sum, (expression)), partial\ntriggers: noted\nrows: 3")
        assert await text(client, "describe_table", table_name="big") == (
            "CREATE VIEW big AS SELECT * FROM orders WHERE sum > 100\n"
            "columns: number INTEGER, customer INTEGER, sum REAL"
        )
        assert (await text(client, "explain_query", query="SELECT * FROM orders")).startswith("SCAN orders")
        assert (await text(client, "list_databases")).startswith("shop: shop #1?.db, ")
        inserted = "INSERT INTO orders VALUES (7, 1, 2) RETURNING number"
        assert await text(client, "write_query", query=inserted, dry_run=True) == (
            "1 row changed, 2 with triggers and foreign keys, last rowid 7, rolled back\nnumber\n7\n"
            "[tables that the statement may change, its triggers included: customers, orders]"
        )
        assert await text(client, "create_table", query="CREATE TABLE t(a)") == "created: CREATE TABLE t(a)"
        assert await text(client, "append_insight", insight="It works.") == "1 insights in memo://insights"


async def test_default_page_fits_the_context_of_a_model(sqlite_client: Any, text: Any) -> None:
    query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT hex(zeroblob(100)), i FROM n"
    async with sqlite_client() as client:
        page = await text(client, "read_query", query=query)

    assert 30_000 < len(page) < 40_000
    assert "continue with cursor=" in page.splitlines()[-1]


async def test_every_value_is_returned_without_loss(sqlite_client: Any, call: Any) -> None:
    query = """SELECT 9007199254740991, 9007199254740992, -9223372036854775808, 9e999, -9e999, x'00ff',
        CAST(x'ff' AS TEXT), NULL, 1.5, 0.1, 'a' || char(0) || 'é', '', 2.0"""
    async with sqlite_client() as client:
        [row] = (await call(client, "read_query", query=query))["items"]
        # and each of them, as a parameter, equals the same value
        back = await call(
            client,
            "read_query",
            query="SELECT " + ", ".join(["?"] * 6) + ", typeof(?1), typeof(?2), typeof(?6)",
            params=row[:6],
        )

    assert row == [
        9007199254740991,
        {"integer": "9007199254740992"},
        {"integer": "-9223372036854775808"},
        {"real": "Infinity"},
        {"real": "-Infinity"},
        {"base64": "AP8=", "bytes": 2},
        {"base64": "/w==", "bytes": 1, "is_text": True},
        None,
        1.5,
        0.1,
        "a\0é",
        "",
        2.0,
    ]
    assert back["items"] == [[*row[:6], "integer", "integer", "blob"]]


async def test_pages_contain_every_row_once(sqlite_client: Any, call: Any, refusal: Any) -> None:
    query = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < ?) SELECT i FROM n"
    async with sqlite_client(max_rows=40) as client:
        seen: list[int] = []
        cursor = ""
        sizes = []
        while True:
            page = await call(client, "read_query", query=query, params=[100], cursor=cursor)
            seen += [row[0] for row in page["items"]]
            sizes.append(len(page["items"]))
            cursor = page["next_cursor"]
            assert page["truncated"] == (cursor is not None)
            if cursor is None:
                break
        assert seen == list(range(1, 101))
        assert sizes == [40, 40, 20]

        first = await call(client, "read_query", query=query, params=[100], limit=7)
        assert len(first["items"]) == 7
        for wrong in ({"params": [99], "cursor": first["next_cursor"]}, {"params": [100], "cursor": "7"}):
            assert "at `cursor`" in await refusal(client, "read_query", query=query, **wrong)
        assert "at `cursor`" in await refusal(
            client, "read_query", query="SELECT ?", params=[2**63], cursor="1-" + "0" * 16
        )


async def test_result_size_is_limited_in_bytes(sqlite_client: Any, call: Any) -> None:
    async with sqlite_client(max_result_bytes=1000, max_cell_bytes=100) as client:
        long = await call(
            client, "read_query", query="SELECT hex(zeroblob(5000)), zeroblob(5000), 'é' || hex(zeroblob(60))"
        )
        assert long["items"][0][0] == {"text": "0" * 100, "bytes": 10000, "truncated": True}
        assert long["items"][0][1]["bytes"] == 5000
        assert long["items"][0][1]["truncated"]
        assert long["items"][0][2]["text"] == "é" + "0" * 98
        assert "substr" in long["notes"][0]

        many = await call(
            client,
            "read_query",
            query="WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 99) "
            "SELECT 'twenty bytes of text' FROM n",
        )
        assert len(many["items"]) == 40
        assert many["truncated"]


async def test_row_of_very_many_columns_is_truncated(sqlite_client: Any, call: Any) -> None:
    query = "SELECT " + ", ".join(["zeroblob(100000)"] * 500)
    async with sqlite_client(max_result_bytes=1000) as client:
        page = await call(client, "read_query", query=query)

    assert len(page["items"][0]) == 500
    assert len(json.dumps(page["items"])) < 60_000
    assert any("same name" in note for note in page["notes"])


async def test_value_over_the_size_limit_is_refused(sqlite_client: Any, refusal: Any) -> None:
    async with sqlite_client(max_value_bytes=1000, max_query_bytes=200) as client:
        assert "max_value_bytes" in await refusal(client, "read_query", query="SELECT randomblob(1001)")
        assert "max_query_bytes" in await refusal(client, "read_query", query="SELECT 1" + " " * 200)


ERRORS = [
    ("SELECT *\nFROM customers\nWEHRE id = 1", 'near "id": syntax error at line 3, column 7: id = 1'),
    ("SELECT * FORM orders", 'near "FORM": syntax error at line 1, column 10: FORM orders'),
    ("SELECT 1,, 2 FROM a, b", 'near ",": syntax error at line 1, column 10: , 2 FROM a, b'),
    ("SELECT ',', 1, -- ,\n , 2", 'near ",": syntax error at line 2, column 2: , 2'),
    ("SELECT nam FROM customers", "no such column: nam at line 1, column 8: nam FROM customers"),
    ("SELECT c.nam FROM customers c", "no such column: c.nam at line 1, column 10: nam FROM customers c"),
    ("SELECT * FROM custmers", "no such table: custmers at line 1, column 15: custmers; did you mean `customers`?"),
    ("SELECT * FROM x", "there are big, customers, orders"),
    ("SELECT 1 FROM (SELECT", "incomplete input at the end"),
    ("SELECT nope(1)", "no such function: nope at line 1, column 8: nope(1)"),
    ("SELECT 'open", "unrecognized token: \"'open\" at line 1, column 8: 'open"),
    ("SELECT ?", "params: expected a list of 1, a value for each `?` of the SQL, got 0"),
    ("SELECT 1; SELECT 2", "expected one statement"),
    ("-- nothing", "expected a statement that returns rows"),
    ("SELECT '\0'", "null character"),
]


async def test_error_contains_its_position(sqlite_client: Any, refusal: Any) -> None:
    async with sqlite_client() as client:
        for query, message in ERRORS:
            assert message in await refusal(client, "read_query", query=query), query


async def test_invalid_parameters_are_reported(sqlite_client: Any, refusal: Any) -> None:
    async with sqlite_client() as client:
        for params, message in (
            ([{"base64": "?"}], "params[0]"),
            ({"a": {}}, "expected one of base64, integer, real and text in the object, got none at `params.a`"),
            ([{"integer": "9" * 30}], "too large"),
            ([{"integer": "x"}], "params[0]"),
            ([{"integer": 5}], "expected a string at `params[0].integer`"),
            ({"a": [1]}, "got a list at `params.a`"),
        ):
            assert message in await refusal(client, "read_query", query="SELECT ?", params=params)


async def test_schema_tools_describe_tables(sqlite_client: Any, call: Any, refusal: Any) -> None:
    async with sqlite_client() as client:
        tables = await call(client, "list_tables", limit=3)
        assert [(each["name"], each["type"]) for each in tables["items"]] == [
            ("big", "view"),
            ("customers", "table"),
            ("orders", "table"),
        ]
        rest = await call(client, "list_tables", cursor=tables["next_cursor"])
        assert [each["name"] for each in rest["items"]] == ["places", "texts"]
        assert not rest["truncated"]

        orders = await call(client, "describe_table", table_name="ORDERS", count_rows=True)
        assert (orders["name"], orders["rows"], orders["triggers"]) == ("orders", 3, ["noted"])
        assert [(each["name"], each["type"], each["primary_key"]) for each in orders["items"]] == [
            ("number", "INTEGER", 1),
            ("customer", "INTEGER", 0),
            ("sum", "REAL", 0),
        ]
        assert orders["foreign_keys"] == [
            {
                "columns": ["customer"],
                "table": "customers",
                "references": ["id"],
                "on_update": "NO ACTION",
                "on_delete": "CASCADE",
            }
        ]
        [index] = orders["indexes"]
        assert (index["name"], index["partial"], index["columns"]) == ("by_sum", True, ["sum", "(expression)"])
        customers = await call(client, "describe_table", table_name="customers")
        assert customers["indexes"][0]["origin"] == "unique"
        assert customers["items"][2]["default"] == "'x'"

        assert "did you mean `orders`?" in await refusal(client, "describe_table", table_name="order")
        # The name was not inserted into SQL.
        assert "no such table" in await refusal(client, "describe_table", table_name="x'); DROP TABLE orders; --")


async def test_virtual_tables_can_be_read(sqlite_client: Any, call: Any) -> None:
    async with sqlite_client() as client:
        for query, expected in (
            ("SELECT id FROM places WHERE west < 5", [[1]]),
            ("SELECT body FROM texts WHERE texts MATCH 'hello'", [["hello world"]]),
            ("SELECT value FROM json_each('[7]')", [[7]]),
            ("SELECT count(*) FROM pragma_table_info('orders')", [[3]]),
            ("PRAGMA user_version", [[0]]),
            ("EXPLAIN QUERY PLAN SELECT * FROM orders", None),
        ):
            found = (await call(client, "read_query", query=query))["items"]
            assert expected is None or found == expected, query
        assert (await call(client, "describe_table", table_name="places"))["type"] == "virtual"


async def test_query_plan_is_shown_without_running_the_query(
    sqlite_client: Any, call: Any, refusal: Any, rows_in: Any
) -> None:
    async with sqlite_client(writable=("shop",)) as client:
        plan = await call(client, "explain_query", query="SELECT * FROM customers WHERE name = ? AND id > ?")
        assert "USING INDEX" in plan["items"][0]["detail"]
        await call(client, "explain_query", query="DELETE FROM orders WHERE number = :n AND sum = @s")
        await call(client, "explain_query", query="UPDATE orders SET sum = 1", params=[])
        assert "line 1, column 10" in await refusal(client, "explain_query", query="SELECT * FORM orders")
        assert "ATTACH" in await refusal(client, "explain_query", query="ATTACH 'x' AS y")
        assert "PRAGMA" in await refusal(client, "explain_query", query="PRAGMA user_version = 3")

    assert rows_in("SELECT count(*), max(sum) FROM orders") == [(3, 300)]


async def test_rows_are_exported_as_csv(sqlite_client: Any, refusal: Any) -> None:
    query = """SELECT 1 AS a, 'x,"y"' AS b, NULL AS c, '' AS d, x'ff' AS e, 0.1 AS f, 'two
lines' AS g UNION ALL SELECT 2, ' z', NULL, 'q', x'', 9e999, 'w' ORDER BY a"""
    async with sqlite_client() as client:
        result = await client.call_tool("export_csv", {"query": query})
        summary, block = result.content
        assert isinstance(block, EmbeddedResource)
        assert isinstance(block.resource, TextResourceContents)
        text = block.resource.text
        assert "2 rows" in summary.text
        assert result.structured_content["uri"] == block.resource.uri
        assert result.structured_content["bytes"] == len(text.encode())
        assert text.startswith('a,b,c,d,e,f,g\r\n1,"x,""y""",,"",X\'FF\',0.1,"two\nlines"\r\n2," z",,q,X\'\',inf,w\r\n')
        assert list(csv.reader(io.StringIO(text)))[1][1] == 'x,"y"'

        first = await client.call_tool("export_csv", {"query": query, "limit": 1, "delimiter": ";"})
        assert first.structured_content["rows"] == 1
        cursor = first.structured_content["next_cursor"]
        second = await client.call_tool("export_csv", {"query": query, "cursor": cursor, "header": False})
        assert second.content[1].resource.text.startswith("2,")
        assert not second.structured_content["truncated"]

    async with sqlite_client(max_export_bytes=1000) as client:
        assert "max_export_bytes" in await refusal(client, "export_csv", query="SELECT hex(zeroblob(1000))")
        many = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
        result = await client.call_tool("export_csv", {"query": many})
        assert result.structured_content["truncated"]
        assert result.structured_content["bytes"] <= 1000


async def test_databases_of_the_configured_folder_are_listed(
    sqlite_client: Any, call: Any, refusal: Any, shop: Path, tmp_path: Path
) -> None:
    folder = tmp_path / "folder"
    folder.mkdir()
    for name in ("a.db", "b.sqlite", "notes.txt", ".hidden.db"):
        (folder / name).write_bytes(b"")
    (folder / "out.db").symlink_to(shop)
    (folder / "sub.db").mkdir()
    async with sqlite_client(databases={}, folder=folder) as client:
        found = await call(client, "list_databases")
        assert [each["name"] for each in found["items"]] == ["a.db", "b.sqlite"]
        assert found["items"][0] == {"name": "a.db", "file": "a.db", "bytes": 0, "writable": False}
        page = await call(client, "list_databases", limit=1)
        assert page["truncated"]
        page = await call(client, "list_databases", cursor=page["next_cursor"])
        assert [each["name"] for each in page["items"]] == ["b.sqlite"]
        assert (await call(client, "list_tables", database="a.db"))["items"] == []
        for name in ("out.db", "../shop #1?.db", "notes.txt", str(shop), "c.db"):
            assert "no such database" in await refusal(client, "list_tables", database=name)
        assert "one of a.db, b.sqlite" in await refusal(client, "list_tables")


async def test_file_that_is_not_a_database_is_reported(sqlite_client: Any, refusal: Any, tmp_path: Path) -> None:
    (tmp_path / "text").write_text("no database " * 1000)
    async with sqlite_client(databases={"text": tmp_path / "text", "none": tmp_path / "none.db"}) as client:
        assert "not an SQLite database" in await refusal(client, "list_tables", database="text")
        gone = await refusal(client, "list_tables", database="none")
        assert gone == "the database none cannot be opened"
    assert not (tmp_path / "none.db").exists()
    async with sqlite_client(databases={}) as client:
        assert "mcptrio.toml" in await refusal(client, "list_tables")


async def test_schema_that_is_not_utf_8_is_shown_with_escapes(sqlite_client: Any, call: Any, shop: Path) -> None:
    with closing(sqlite3.connect(shop, isolation_level=None)) as connection:
        connection.execute("CREATE TABLE odd(x DEFAULT 'replaced')")
        connection.execute("PRAGMA writable_schema=ON")
        connection.execute(
            "UPDATE sqlite_master SET sql = CAST(replace(CAST(sql AS BLOB), 'replaced', x'ff') AS TEXT) "
            "WHERE name = 'odd'"
        )
    async with sqlite_client() as client:
        table = await call(client, "describe_table", table_name="odd")

    assert table["sql"] == r"CREATE TABLE odd(x DEFAULT '\xff')"
    assert [column["default"] for column in table["items"]] == [r"'\xff'"]
