"""A database of 80 tables analysed by a scripted client: ``python -m benchmarks.transcripts.database``.

The script asks the same ten questions of mcptrio-postgres and of the reference server, with the calls that a model that
knows PostgreSQL well would make of each, and prints the table of plugins/mcptrio-postgres/README.md.

It needs the programs of PostgreSQL, Node, and npm the first time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import psycopg
import trio

from benchmarks.transcripts.scripted_client import Call, Task, Transcript, table, talk
from benchmarks.transcripts.shop_schema import statements
from mcptrio import Command, MCPTrioError, connect
from tests.engines.postgres_server import data_folder, server_at
from tests.node import find_node

__all__ = ["QUESTIONS", "main", "prepare", "run_ours"]

_BILLING: Final = ("plans", "customers", "subscriptions", "invoices", "invoice_lines", "payments", "refunds", "tickets")
_LISTED: Final = ", ".join(f"'{name}'" for name in _BILLING)
_MONTHS: Final = (
    "SELECT to_char(issued_on, 'YYYY-MM') AS month, count(*) AS invoices, sum(total) AS total FROM invoices"
    " WHERE status = {status} AND issued_on >= {since} GROUP BY 1 ORDER BY 1"
)
_TOP: Final = (
    "SELECT c.name, c.country, sum(p.amount) AS paid FROM payments p JOIN invoices i ON i.id = p.invoice_id"
    " JOIN customers c ON c.id = i.customer_id GROUP BY c.id ORDER BY paid DESC, c.id LIMIT 10"
)
_LATE: Final = "SELECT * FROM refunds r JOIN payments p ON p.id = r.payment_id WHERE p.invoice_id = 101"
_TICKETS: Final = "SELECT id, opened_at, subject, {body} FROM tickets ORDER BY opened_at DESC LIMIT 10"
_INVOICES: Final = "SELECT * FROM invoices WHERE issued_on >= '2025-12-01' ORDER BY id"


def _ours(tool: str, **arguments: Any) -> Call:
    return f"postgres_{tool}", arguments


def _read(query: str, *params: Any) -> Call:
    return _ours("read_query", query=query, **({"params": list(params)} if params else {}))


def _sql(sql: str) -> Call:
    return "query", {"sql": sql}


_COLUMNS: Final = (
    "SELECT table_name, column_name, data_type, is_nullable, column_default,"
    " col_description(table_name::regclass, ordinal_position) AS comment FROM information_schema.columns"
    f" WHERE table_name IN ({_LISTED}) ORDER BY table_name, ordinal_position"
)
_CONSTRAINTS: Final = (
    "SELECT conrelid::regclass AS table_name, pg_get_constraintdef(oid) AS definition FROM pg_constraint"
    f" WHERE conrelid::regclass::text IN ({_LISTED}) ORDER BY 1"
)
_INDEXES: Final = f"SELECT tablename, indexdef FROM pg_indexes WHERE tablename IN ({_LISTED}) ORDER BY 1, 2"
_TABLES: Final = (
    "SELECT c.relname AS name, c.reltuples::bigint AS rows, obj_description(c.oid) AS comment FROM pg_class c"
    " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'v') AND n.nspname = 'public' ORDER BY 1"
)
_SLOW: Final = (
    "SELECT calls, total_exec_time, mean_exec_time, rows, query FROM pg_stat_statements"
    " ORDER BY total_exec_time DESC LIMIT 5"
)
_MISSING: Final = (
    "SELECT c.conrelid::regclass AS table_name, pg_get_constraintdef(c.oid) AS key, t.reltuples"
    " FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid WHERE c.contype = 'f' AND NOT EXISTS"
    " (SELECT FROM pg_index i WHERE i.indrelid = c.conrelid"
    " AND (i.indkey::int2[])[0:cardinality(c.conkey) - 1] @> c.conkey) ORDER BY t.reltuples DESC LIMIT 10"
)
_UNUSED: Final = (
    "SELECT relname, indexrelname, idx_scan, pg_relation_size(indexrelid) AS size FROM pg_stat_user_indexes"
    " WHERE idx_scan = 0 ORDER BY size DESC LIMIT 10"
)
_COVERED: Final = (
    "SELECT a.indexrelid::regclass AS index, b.indexrelid::regclass AS covered_by FROM pg_index a"
    " JOIN pg_index b ON b.indrelid = a.indrelid AND b.indexrelid <> a.indexrelid"
    " AND b.indkey::text || ' ' LIKE a.indkey::text || ' %' WHERE NOT a.indisunique AND a.indpred IS NULL"
)
_WRONG_NAME: Final = "SELECT count(*) FROM invoice WHERE status = 'open'"
_RIGHT_NAME: Final = "SELECT count(*) FROM invoices WHERE status = 'open'"

QUESTIONS: Final = (
    Task("Which tables are there?", ["invoice_lines"], [_ours("list_tables")], [_sql(_TABLES)]),
    Task(
        "How are the eight tables of billing built?",
        ["gross, in euros", "ON DELETE CASCADE", "subscriptions_customer"],
        [_ours("describe_tables", tables=list(_BILLING))],
        [_sql(_COLUMNS), _sql(_CONSTRAINTS), _sql(_INDEXES)],
    ),
    Task(
        "What was invoiced each month?",
        ["2025-12"],
        [_read(_MONTHS.format(status="$1", since="$2"), "paid", "2025-01-01")],
        [_sql(_MONTHS.format(status="'paid'", since="'2025-01-01'"))],
    ),
    Task("Which customers have paid most?", ["Customer 1"], [_read(_TOP)], [_sql(_TOP)]),
    Task(
        "How many invoices are open? (with a wrong name first)",
        ["2352"],
        [_read(_WRONG_NAME), _read(_RIGHT_NAME)],
        [_sql(_WRONG_NAME), _sql(_RIGHT_NAME)],
    ),
    Task(
        "What do the last ten tickets say?",
        ["Question 300"],
        [_read(_TICKETS.format(body="body"))],
        [_sql(_TICKETS.format(body="body")), _sql(_TICKETS.format(body="left(body, 2000) AS body"))],
    ),
    Task(
        "Which invoices are from December?",
        ["R-000334"],
        [_read(_INVOICES)],
        [_sql(_INVOICES), _sql(f"{_INVOICES} LIMIT 200")],
    ),
    Task(
        "Why is a lookup of refunds slow?",
        ["Seq Scan on payments"],
        [_ours("explain_query", query=_LATE)],
        [_sql(f"EXPLAIN {_LATE}")],
    ),
    Task("Which statements take the most time?", ["pg_sleep"], [_ours("slow_queries", limit=5)], [_sql(_SLOW)]),
    Task(
        "Which indexes are missing or of no use?",
        ["37648", "invoices_issued", "covered by"],
        [_ours("advise_indexes", limit=10)],
        [_sql(_MISSING), _sql(_UNUSED), _sql(_COVERED)],
        their_facts=["37648", "invoices_issued", "covered_by"],
    ),
)
_ATTACKS: Final = {
    "`COMMIT; DELETE FROM refunds` in a query": "COMMIT; DELETE FROM refunds",
    "`pg_read_file`, as a superuser": "SELECT pg_read_file('postgresql.conf')",
}


async def attack(command: Sequence[str], tool: str, argument: str, url: str) -> list[str]:
    """Send the attacks to one server, and return the effect of each in words."""
    effects = []
    async with connect(Command(args=command, stderr="drop")) as client:
        for sql in _ATTACKS.values():
            before = _count(url)
            try:
                result = await client.call_tool(tool, {argument: sql})
                is_refused = bool(result.is_error)
            except MCPTrioError:
                is_refused = False
            effects.append("deletes the rows" if _count(url) != before else "refused" if is_refused else "answered")
    return effects


def _count(url: str) -> object:
    with psycopg.connect(url) as connection:
        return connection.execute("SELECT count(*) FROM refunds").fetchone()


def prepare(url: str) -> None:
    """Make the tables, and statistics of statements."""
    with psycopg.connect(url, autocommit=True) as connection:
        connection.execute("CREATE EXTENSION IF NOT EXISTS pg_stat_statements")
        for statement in statements():
            connection.execute(statement.encode())
        connection.execute("SELECT pg_stat_statements_reset()")
        for _ in range(30):
            connection.execute(_LATE.encode())
        connection.execute("SELECT pg_sleep(0.5)")


async def run_ours(url: str, folder: Path) -> Transcript:
    """Ask mcptrio-postgres about this database."""
    return await talk([_serve(url, folder)], [each.our_script for each in QUESTIONS])


def _serve(url: str, folder: Path) -> Sequence[str]:
    config = folder / "mcptrio.toml"
    config.write_text(f'[plugins.postgres]\ndatabases = {{ shop = "{url}" }}\n', "utf-8")
    return (sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", "postgres", f"--config={config}")


def main() -> int:
    """Print the table, and return 1 if a question has no answer."""
    node = find_node()
    packages = node.install(Path(__file__).parent / "references")
    script = packages / "node_modules" / "@modelcontextprotocol" / "server-postgres" / "dist" / "index.js"
    options = ("-c", "shared_preload_libraries=pg_stat_statements")
    with TemporaryDirectory() as folder, data_folder() as data, server_at(data, *options) as server:
        prepare(server.url)
        reference = (str(node.binary), str(script), server.url)
        theirs = trio.run(talk, [reference], [each.their_script for each in QUESTIONS])
        ours = trio.run(run_ours, server.url, Path(folder))
        their_effects = trio.run(attack, reference, "query", "sql", server.url)
        our_effects = trio.run(attack, _serve(server.url, Path(folder)), "postgres_read_query", "query", server.url)
    columns = {"`@modelcontextprotocol/server-postgres` 0.6.2": theirs, "`mcptrio-postgres`": ours}
    print("\n".join(table(QUESTIONS, columns)))
    for title, their_effect, our_effect in zip(_ATTACKS, their_effects, our_effects, strict=True):
        print(f"| {title} | {their_effect} | {our_effect} |")
    return int(not all(each.total.is_answered for each in columns.values()))


if __name__ == "__main__":
    raise SystemExit(main())
