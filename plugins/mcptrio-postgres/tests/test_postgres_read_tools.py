"""The reading tools: lists, descriptions, queries in pages, values and plans."""

from __future__ import annotations

from typing import Any

import pytest


async def test_tables_are_listed_by_schema(postgres_client: Any, text: Any, call: Any) -> None:
    async with postgres_client() as client:
        assert await text(client, "list_schemas") == (
            "public 3 tables -- standard public schema\nstock 1 tables -- What is in the warehouse"
        )
        assert await text(client, "list_tables") == (
            "schema public\n"
            "big view 6 columns\n"
            "customers 4 columns ~3 rows -- People who buy\n"
            "orders 6 columns ~3 rows\n"
            "schema stock\n"
            "items partitioned table 3 columns"
        )
        assert await text(client, "list_tables", query="BUY") == (
            "schema public\ncustomers 4 columns ~3 rows -- People who buy"
        )
        assert await text(client, "list_tables", schema="none") == "no tables"
        page = await call(client, "list_tables", limit=2)
        assert page["next_cursor"] == "public.customers"
        page = await call(client, "list_tables", limit=2, cursor=page["next_cursor"])
        assert [each["name"] for each in page["items"]] == ["orders", "items"]
        assert not page["truncated"]


async def test_descriptions_show_columns_keys_and_indexes(postgres_client: Any, text: Any) -> None:
    async with postgres_client() as client:
        assert await text(client, "describe_tables", tables=["customers", "public.orders", "Stock.Items"]) == (
            "table public.customers, ~3 rows, 48 kB -- People who buy\n"
            "  id bigint not null identity primary key\n"
            "  name varchar(50) not null unique\n"
            "  born date -- day of birth\n"
            "  tags text[]\n"
            "  referenced by orders(customer)\n"
            "table public.orders, ~3 rows, 48 kB\n"
            "  number bigint not null primary key\n"
            "  customer bigint not null -> customers(id) ON DELETE CASCADE\n"
            "  sum numeric(10,2) default 0\n"
            "  data jsonb\n"
            "  image bytea\n"
            "  placed timestamptz not null default now()\n"
            "  CHECK (sum >= 0::numeric)\n"
            "  index by_sum (sum, placed) WHERE (sum > (0)::numeric)\n"
            "  triggers noted\n"
            "partitioned table stock.items, 0 bytes\n"
            "  id integer not null\n"
            "  place text not null\n"
            "  size float8\n"
            "  PRIMARY KEY (id, place)\n"
            "  1 partitions by LIST (id)"
        )
        assert "WHERE orders.sum > 100::numeric" in await text(client, "describe_tables", tables=["big"])
        # A name for a list of one is accepted.
        assert "stock.items_1" in await text(client, "describe_tables", tables="items_1")


async def test_descriptions_that_do_not_fit_are_named(postgres_client: Any, text: Any) -> None:
    async with postgres_client(max_result_bytes=1000) as client:
        found = await text(client, "describe_tables", tables=["customers", "orders", "big", "stock.items", "items_1"])
    assert found.endswith("[not shown: stock.items_1; call again with these]")


async def test_unknown_tables_get_a_suggestion(postgres_client: Any, refusal: Any) -> None:
    async with postgres_client() as client:
        assert await refusal(client, "describe_tables", tables=["ordrs", "stok.items"]) == (
            "no such table: `ordrs`; did you mean `public.orders`?; "
            "no such table: `stok.items`; did you mean `stock.items`?"
        )
        assert await refusal(client, "read_query", query="SELECT *\nFROM items") == (
            'relation "items" does not exist at line 2, column 6: items; did you mean `stock.items`?'
        )
        assert await refusal(client, "read_query", query="SELECT nme FROM customers") == (
            'column "nme" does not exist at line 1, column 8: nme FROM customers; '
            'hint: Perhaps you meant to reference the column "customers.name".'
        )


async def test_rows_are_lines(postgres_client: Any, text: Any) -> None:
    async with postgres_client() as client:
        query = "SELECT *, E'a\\nb' AS \"no te\" FROM customers ORDER BY id; -- all of them"
        assert await text(client, "read_query", query=query) == (
            'id|name|born|tags|no te\n1|Ada|1815-12-10|{a,"b c"}|a\\nb\n2|Bob|NULL|NULL|a\\nb\n3|Cyd|NULL|{}|a\\nb'
        )
        assert await text(client, "read_query", query="TABLE customers LIMIT 0") == "no rows"


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("1", 1),
        ("9007199254740993", "9007199254740993"),
        ("1.50", "1.50"),
        ("1.5::float8", 1.5),
        ("'NaN'::float8", "NaN"),
        ("true", True),
        ("NULL", None),
        ("'{\"a\": 1}'::jsonb", '{"a": 1}'),
        ("ARRAY['x y', NULL]", '{"x y",NULL}'),
        ("'\\x00ff'::bytea", "\\x00ff"),
        ("date '2026-01-02'", "2026-01-02"),
        ("ROW(1, 'a')", "(1,a)"),
        ("interval '1 day'", "1 day"),
        ("'x'::char(3)", "x"),
        ("pg_sleep(0)", ""),
        ("'[1,3)'::int4range", "[1,3)"),
    ],
)
async def test_values(postgres_client: Any, call: Any, expression: str, value: Any) -> None:
    async with postgres_client() as client:
        assert (await call(client, "read_query", query=f"SELECT {expression}"))["items"] == [[value]]


async def test_parameters(postgres_client: Any, call: Any, refusal: Any) -> None:
    async with postgres_client() as client:

        async def first(query: str, *params: Any) -> Any:
            return (await call(client, "read_query", query=query, params=list(params)))["items"][0]

        assert await first("SELECT name FROM customers WHERE id = $1", 2) == ["Bob"]
        assert await first("SELECT count(*) FROM customers WHERE id = ANY($1)", [1, 3]) == [2]
        assert await first("SELECT $1::jsonb -> 'a', $2::bool, $3::text", {"a": [1]}, True, None) == ["[1]", True, None]
        assert await first("SELECT $1::text[]", ['a"b\\', None, "NULL", ""]) == ['{"a\\"b\\\\",NULL,"NULL",""}']
        assert await first("SELECT $1::jsonb", [{"a": None}]) == ['[{"a": null}]']
        assert await first("SELECT ($1::int[])[2][1]", "{{1,2},{3,4}}") == [3]
        assert await first("SELECT $1 || 'b'", "'; DROP TABLE orders; --") == ["'; DROP TABLE orders; --b"]
        assert await refusal(client, "read_query", query="SELECT $1::int, $2::int", params=[1]) == (
            "expected 2 values in params, for $1 to $2, got 1"
        )
        assert await refusal(client, "read_query", query="SELECT 1", params=[1]) == "expected no params, got 1"
        assert "NUL" in await refusal(client, "read_query", query="SELECT $1::text", params=["a\0"])


async def test_pages(postgres_client: Any, call: Any, refusal: Any, text: Any) -> None:
    query = "SELECT i FROM generate_series(1, 130) AS i ORDER BY i"
    async with postgres_client(max_rows=60) as client:
        seen: list[int] = []
        cursor = ""
        while cursor is not None:
            page = await call(client, "read_query", query=query, cursor=cursor)
            assert len(page["items"]) <= 60
            seen += [row[0] for row in page["items"]]
            cursor = page["next_cursor"]
        assert seen == list(range(1, 131))
        shown = await text(client, "read_query", query=query, limit=2)
        assert shown.startswith("i\n1\n2\n[more rows; continue with cursor=2-")
        cursor = shown.partition("cursor=")[2].removesuffix("]")
        assert "same query" in await refusal(client, "read_query", query="SELECT 1", cursor=cursor)
        assert "same query" in await refusal(client, "read_query", query=query, cursor="x")


async def test_long_values_and_large_results_are_cut(postgres_client: Any, call: Any) -> None:
    async with postgres_client(max_cell_chars=100, max_result_bytes=2000) as client:
        # 60 MB in all, of which the server sends 101 characters and 33 bytes.
        query = "SELECT repeat('é', 20000000), decode(repeat('ff', 20000000), 'hex')"
        page = await call(client, "read_query", query=query)
        assert page["items"] == [["é" * 100 + "…", "\\x" + "ff" * 32 + "…"]]
        assert "longer than 100 characters are cut" in page["notes"][0]
        page = await call(client, "read_query", query="SELECT repeat('x', 90) FROM generate_series(1, 1000000)")
        assert page["truncated"]
        assert 10 < len(page["items"]) < 30


async def test_plans(postgres_client: Any, text: Any, call: Any, shop: Any) -> None:
    async with postgres_client() as client:
        query = "SELECT * FROM orders WHERE number = $1"
        generic = await text(client, "explain_query", query=query)
        assert "Filter: (number = $1)" in generic
        assert generic.endswith("[a generic plan, without the values of the parameters]")
        assert "(number = '1'::bigint)" in await text(client, "explain_query", query=query, params=[1])
        assert "actual time" in await text(client, "explain_query", query=query, params=[1], analyze=True)
        # The server only plans it.
        assert (await text(client, "explain_query", query="DELETE FROM orders")).startswith("Delete on orders")
        plan = await call(client, "explain_query", query="SELECT 1")
        assert plan["lines"] == ["Result  (cost=0.00..0.01 rows=1 width=4)"]
    assert shop.ask("SELECT count(*) FROM orders") == [(3,)]


async def test_errors_say_what_to_do(postgres_client: Any, refusal: Any) -> None:
    async with postgres_client(max_query_bytes=100) as client:
        assert await refusal(client, "read_query", query="SELECT 1; SELECT 2") == (
            "expected one statement, got several; call the tool once for each"
        )
        assert await refusal(client, "read_query", query="DELETE FROM orders") == (
            "expected SELECT, WITH, VALUES or TABLE, got DELETE; this tool only reads"
        )
        assert "got no statement" in await refusal(client, "read_query", query=" -- nothing")
        assert await refusal(client, "read_query", query="SELECT 1/0") == "division by zero"
        assert "at most 100 bytes" in await refusal(client, "read_query", query=f"SELECT '{'x' * 100}'")
        assert "at most 100 bytes" in await refusal(client, "read_query", query="SELECT $1::text", params=["x" * 101])
        assert "no such database: `shpo`; did you mean `shop`?" in await refusal(
            client, "read_query", query="SELECT 1", database="shpo"
        )
