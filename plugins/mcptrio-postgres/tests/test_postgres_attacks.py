"""Statements that try to change something, to read files, or to leave something behind, through the reading tools.

The client connects as a superuser, the worst case, and in a few tests as a role with few rights.
"""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from mcptrio_postgres.statements import single_statement, tokens

from mcptrio import ToolError

STATE = """
    SELECT (SELECT count(*) FROM orders), (SELECT max(sum) FROM orders), (SELECT last_value FROM customers_id_seq),
        (SELECT count(*) FROM pg_class), (SELECT count(*) FROM pg_largeobject_metadata),
        (SELECT count(*) FROM pg_roles), current_setting('work_mem')
"""
"""The state that no attack may change."""

ATTACKS = [
    "COMMIT",
    "ROLLBACK",
    "END",
    "COMMIT AND CHAIN",
    "BEGIN",
    "SET transaction_read_only = off",
    "SET SESSION CHARACTERISTICS AS TRANSACTION READ WRITE",
    "RESET ALL",
    "DO $$ BEGIN DELETE FROM orders; END $$",
    "CALL something()",
    "DELETE FROM orders",
    "INSERT INTO orders VALUES (9, 1)",
    "TRUNCATE orders",
    "DROP TABLE orders",
    "CREATE TABLE stolen AS SELECT 1",
    "SELECT * INTO stolen FROM orders",
    "PREPARE p AS DELETE FROM orders",
    "EXECUTE p",
    "LOCK TABLE orders",
    "LISTEN a",
    "NOTIFY a",
    "VACUUM",
    "CREATE EXTENSION dblink",
    "GRANT ALL ON orders TO public",
    "COPY orders TO '/tmp/stolen'",
    "COPY orders TO STDOUT",
    "COPY orders FROM PROGRAM 'id'",
    "COPY (SELECT 1) TO PROGRAM 'id'",
    "SELECT 1; DELETE FROM orders",
    "SELECT 1; COMMIT; DELETE FROM orders",
    "SELECT ';'; DELETE FROM orders",
    "SELECT $$;$$; DELETE FROM orders",
    "SELECT E'\\';'; DELETE FROM orders",
    "SELECT 1 /* ; /* nested */ */; DELETE FROM orders",
    "SELECT 1) AS q(c0); DELETE FROM orders; --",
    "SELECT 1) AS q(c0), (SELECT pg_read_file('/etc/passwd')",
    "EXPLAIN ANALYZE DELETE FROM orders",
    "WITH gone AS (DELETE FROM orders RETURNING *) SELECT * FROM gone",
    "WITH a AS (WITH b AS (UPDATE orders SET sum = 0 RETURNING 1) SELECT * FROM b) SELECT * FROM a",
    "SELECT * FROM orders FOR UPDATE",
    "SELECT * FROM (SELECT * FROM orders FOR SHARE) AS locked",
    "SELECT nextval('customers_id_seq')",
    "SELECT setval('customers_id_seq', 99)",
    "SELECT set_config('transaction_read_only', 'off', false)",
    "SELECT pg_catalog.set_config('role', 'none', true)",
    "SELECT \"set_config\"('role', 'none', true)",
    "SELECT pg_catalog . /* here */ \"set_config\" ('role', 'none', true)",
    "SELECT U&\"s\\0065t_config\"('role', 'none', true)",
    "SELECT pg_read_file('/etc/passwd')",
    "SELECT pg_read_binary_file('/etc/passwd')",
    "SELECT pg_ls_dir('/')",
    "SELECT * FROM pg_stat_file('/etc/passwd')",
    "SELECT lo_import('/etc/passwd')",
    "SELECT lo_export(1, '/tmp/stolen')",
    "SELECT lo_from_bytea(0, '\\x00')",
    "SELECT dblink('dbname=postgres', 'DELETE FROM orders')",
    "SELECT dblink_exec('dbname=postgres', 'DELETE FROM orders')",
    "SELECT query_to_xml('DELETE FROM orders', true, true, '')",
    "SELECT query_to_xml('SELECT pg_read_file(''/etc/passwd'')', true, true, '')",
    "SELECT pg_terminate_backend(pg_backend_pid())",
    "SELECT pg_reload_conf()",
    "SELECT pg_stat_reset()",
    "SELECT rolpassword FROM pg_authid",
    'SELECT passwd FROM pg_catalog."pg_shadow"',
    "SELECT umoptions FROM pg_user_mapping",
    "SELECT table_to_xml('pg_authid', true, true, '')",
    "SELECT pg_advisory_lock(1)",
    "SELECT pg_try_advisory_xact_lock(1)",
    "SELECT pg_notify('a', 'b')",
    "SELECT pg_switch_wal()",
    "SELECT pg_create_restore_point('a')",
    "SELECT pg_logical_emit_message(false, 'a', 'b')",
]


@pytest.mark.parametrize("role", ["mcptrio", "reader"])
async def test_attacks_are_refused_and_change_nothing(postgres_client: Any, shop: Any, role: str) -> None:
    before = shop.ask(STATE)
    done = []
    async with postgres_client(role=role, max_connections=1) as client:
        for query in ATTACKS:
            for tool, more in (("read_query", {}), ("explain_query", {"analyze": True})):
                result = await client.call_tool(tool, {"query": query, **more})
                if not result.is_error:
                    done.append((tool, query))
        # The connection is as before.
        assert (await client.call_tool("read_query", {"query": "SELECT 1"})).structured_content["items"] == [[1]]
    assert not done
    assert shop.ask(STATE) == before


async def test_read_only_transaction_stops_statements_that_pass_the_check(
    postgres_client: Any, shop: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The server refuses statements that the check of the text accepts."""
    monkeypatch.setattr("mcptrio_postgres.read_tools.single_statement", lambda sql, *_: sql)
    before = shop.ask(STATE)
    async with postgres_client(max_connections=1) as client:
        for query in ATTACKS:
            await client.call_tool("read_query", {"query": query})
        assert (await client.call_tool("read_query", {"query": "SELECT 1"})).structured_content["items"] == [[1]]
    assert shop.ask(STATE) == before
    assert shop.sessions("state <> 'idle'") == 0


@pytest.mark.parametrize(
    "function",
    [
        # plpgsql reaches every function, so only the rights of the role stop these.
        "EXECUTE 'DELETE FROM orders'",
        "PERFORM pg_read_file('/etc/passwd')",
        "PERFORM pg_ls_dir('/')",
        "COPY orders TO '/tmp/stolen'",
        "COPY orders FROM PROGRAM 'id'",
        "CREATE TABLE stolen(a int)",
        "COMMIT",
        "SET transaction_read_only = off; DELETE FROM orders",
    ],
)
async def test_functions_of_the_database_run_with_few_rights_and_read_only(
    postgres_client: Any, refusal: Any, own_shop: Any, function: str
) -> None:
    own_shop.ask(f"CREATE FUNCTION hidden() RETURNS int LANGUAGE plpgsql AS $$ BEGIN {function}; RETURN 1; END $$")
    before = own_shop.ask(STATE)
    async with postgres_client(own_shop) as client:
        await refusal(client, "read_query", query="SELECT hidden()")
    assert own_shop.ask(STATE) == before


async def test_statement_leaves_nothing_behind(postgres_client: Any, call: Any, own_shop: Any) -> None:
    body = "PERFORM pg_advisory_lock(7); PERFORM set_config('work_mem', '64kB', false); PERFORM pg_notify('a', 'b')"
    own_shop.ask(f"CREATE FUNCTION hidden() RETURNS int LANGUAGE plpgsql AS $$ BEGIN {body}; RETURN 1; END $$")
    async with postgres_client(own_shop, max_connections=1) as client:
        assert (await call(client, "read_query", query="SELECT hidden()"))["items"] == [[1]]
        assert own_shop.ask("SELECT count(*) FROM pg_locks WHERE locktype = 'advisory'") == [(0,)]
        [[size]] = (await call(client, "read_query", query="SELECT current_setting('work_mem')"))["items"]
        assert size == "4MB"
        assert own_shop.sessions("state = 'idle'") == 1


async def test_superuser_reads_with_the_rights_of_a_reader(postgres_client: Any, call: Any, refusal: Any) -> None:
    async with postgres_client() as client:
        assert (await call(client, "read_query", query="SELECT current_user"))["items"] == [["pg_read_all_data"]]
    async with postgres_client(role="reader") as client:
        assert (await call(client, "read_query", query="SELECT current_user"))["items"] == [["reader"]]
        assert (await call(client, "read_query", query="SELECT count(*) FROM orders"))["items"] == [[3]]
        assert (await call(client, "describe_tables", tables=["orders"]))["items"][0]["rows"] == 3


async def test_files_of_the_machine_stay_unread(postgres_client: Any, refusal: Any, shop: Any, tmp_path: Path) -> None:
    async with postgres_client(writable=("shop",), schema_changes=True) as client:
        target = tmp_path / "stolen"
        for query in (f"COPY orders TO '{target}'", f"COPY orders TO PROGRAM 'touch {target}'", "DO $$ BEGIN END $$"):
            assert (await refusal(client, "write_query", query=query)).startswith("expected INSERT")
        assert "not allowed" in await refusal(
            client, "write_query", query=f"INSERT INTO orders SELECT lo_export(1, '{target}')"
        )
    assert not target.exists()


@pytest.mark.parametrize(
    ("sql", "words"),
    [
        ("SELECT 'a''b' -- c\n, \"d\"\"e\"", ["SELECT", "'a''b'", ",", '"d""e"']),
        ("SELECT E'a\\'b', $$ ; $$, $x$ $$ ; $x$", ["SELECT", "E'a\\'b'", ",", "$$ ; $$", ",", "$x$ $$ ; $x$"]),
        ("a/* /* */ ; */b$1", ["a", "b$1"]),
        ("x = $1 AND y", ["x", "=", "$1", "AND", "y"]),
        ("'never closed ; ", ["'never closed ; "]),
        ("/* never closed /* */ ;", []),
        ("U&'\\0061' u&\"x\"", ["U&'\\0061'", 'u&"x"']),
    ],
)
def test_tokens(sql: str, words: list[str]) -> None:
    assert [each.text for each in tokens(sql)] == words


def test_semicolon_at_the_end_is_removed() -> None:
    assert single_statement("SELECT ';' ; ; -- end", ["select"], "") == "SELECT ';' "
    with pytest.raises(ToolError, match="got several"):
        single_statement("SELECT 1; ; SELECT 2", ["select"], "")


async def test_names_like_those_of_refused_functions_are_allowed(postgres_client: Any, call: Any) -> None:
    async with postgres_client() as client:
        query = "SELECT lo_price, 'pg_read_file(' FROM (SELECT 1 AS lo_price) AS dblink"
        assert (await call(client, "read_query", query=query))["items"] == [[1, "pg_read_file("]]
