"""A database of 80 tables analysed by a scripted client: ``python -m benchmarks.transcripts.database``.

The script asks the same ten questions of mcptrio-postgres and of the reference server, and prints the table of
plugins/mcptrio-postgres/README.md. Per answer it has a budget of 10,000 tokens: it discards a longer answer, as host
applications do, and asks again for less, which counts as a refused call. For each question it writes the calls that
a model that knows PostgreSQL well would write for that server, and checks that the answers contain the fact.

It needs the programs of PostgreSQL, Node, and npm the first time.
"""

from __future__ import annotations

import sys
from collections.abc import Sequence
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any, Final

import orjson
import psycopg
import trio
from attrs import define, frozen

from benchmarks.transcripts.shop_schema import statements
from mcptrio import Client, Command, MCPTrioError, connect
from mcptrio.types import TextContent
from tests.engines.postgres_server import data_folder, server_at
from tests.node import find_node

__all__ = ["OUR_CALLS", "Tally", "main", "prepare", "serve", "talk", "total"]

_BUDGET: Final = 10_000
"""Tokens of one answer."""
_BYTES_PER_TOKEN: Final = 4
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

Call = tuple[str, dict[str, Any]]


@frozen
class Question:
    """A question, the calls for both servers, and words that the answers must contain."""

    title: str
    fact: str
    ours: Sequence[Call]
    theirs: Sequence[str]


def _read(query: str, *params: Any) -> Call:
    return ("read_query", {"query": query, "params": list(params)} if params else {"query": query})


QUESTIONS: Final = (
    Question(
        "Which tables are there?",
        "invoice_lines",
        [("list_tables", {})],
        [
            "SELECT c.relname AS name, c.reltuples::bigint AS rows, obj_description(c.oid) AS comment FROM pg_class c"
            " JOIN pg_namespace n ON n.oid = c.relnamespace WHERE c.relkind IN ('r', 'v') AND n.nspname = 'public'"
            " ORDER BY 1"
        ],
    ),
    Question(
        "How are the eight tables of billing built?",
        "gross, in euros",
        [("describe_tables", {"tables": list(_BILLING)})],
        [
            "SELECT table_name, column_name, data_type, is_nullable, column_default,"
            " col_description(table_name::regclass, ordinal_position) AS comment FROM information_schema.columns"
            f" WHERE table_name IN ({_LISTED}) ORDER BY table_name, ordinal_position",
            "SELECT conrelid::regclass AS table_name, pg_get_constraintdef(oid) AS definition FROM pg_constraint"
            f" WHERE conrelid::regclass::text IN ({_LISTED}) ORDER BY 1",
            f"SELECT tablename, indexdef FROM pg_indexes WHERE tablename IN ({_LISTED}) ORDER BY 1, 2",
        ],
    ),
    Question(
        "What was invoiced each month?",
        "2025-12",
        [_read(_MONTHS.format(status="$1", since="$2"), "paid", "2025-01-01")],
        [_MONTHS.format(status="'paid'", since="'2025-01-01'")],
    ),
    Question("Which customers have paid most?", "Customer 1", [_read(_TOP)], [_TOP]),
    Question(
        "How many invoices are open? (with a wrong name first)",
        "2352",
        [
            _read("SELECT count(*) FROM invoice WHERE status = 'open'"),
            _read("SELECT count(*) FROM invoices WHERE status = 'open'"),
        ],
        [
            "SELECT count(*) FROM invoice WHERE status = 'open'",
            "SELECT count(*) FROM invoices WHERE status = 'open'",
        ],
    ),
    Question(
        "What do the last ten tickets say?",
        "Question 300",
        [_read(_TICKETS.format(body="body"))],
        [_TICKETS.format(body="body"), _TICKETS.format(body="left(body, 2000) AS body")],
    ),
    Question(
        "Which invoices are from December?",
        "R-000334",
        [_read(_INVOICES)],
        [_INVOICES, f"{_INVOICES} LIMIT 200"],
    ),
    Question(
        "Why is a lookup of refunds slow?",
        "Seq Scan on payments",
        [("explain_query", {"query": _LATE})],
        [f"EXPLAIN {_LATE}"],
    ),
    Question(
        "Which statements take the most time?",
        "pg_sleep",
        [("slow_queries", {"limit": 5})],
        [
            "SELECT calls, total_exec_time, mean_exec_time, rows, query FROM pg_stat_statements"
            " ORDER BY total_exec_time DESC LIMIT 5"
        ],
    ),
    Question(
        "Which indexes are missing or of no use?",
        "invoices_issued",
        [("advise_indexes", {"limit": 10})],
        [
            "SELECT c.conrelid::regclass AS table_name, pg_get_constraintdef(c.oid) AS key, t.reltuples"
            " FROM pg_constraint c JOIN pg_class t ON t.oid = c.conrelid WHERE c.contype = 'f' AND NOT EXISTS"
            " (SELECT FROM pg_index i WHERE i.indrelid = c.conrelid"
            " AND (i.indkey::int2[])[0:cardinality(c.conkey) - 1] @> c.conkey) ORDER BY t.reltuples DESC LIMIT 10",
            "SELECT relname, indexrelname, idx_scan, pg_relation_size(indexrelid) AS size FROM pg_stat_user_indexes"
            " WHERE idx_scan = 0 ORDER BY size DESC LIMIT 10",
            "SELECT a.indexrelid::regclass AS index, b.indexrelid::regclass AS covered_by FROM pg_index a"
            " JOIN pg_index b ON b.indrelid = a.indrelid AND b.indexrelid <> a.indexrelid"
            " AND b.indkey::text || ' ' LIKE a.indkey::text || ' %' WHERE NOT a.indisunique AND a.indpred IS NULL",
        ],
    ),
)

OUR_CALLS: Final = tuple(each.ours for each in QUESTIONS)
_ATTACKS: Final = {
    "`COMMIT; DELETE FROM refunds` in a query": "COMMIT; DELETE FROM refunds",
    "`pg_read_file`, as a superuser": "SELECT pg_read_file('postgresql.conf')",
}


@define
class Tally:
    """The calls and tokens of a question on one side."""

    calls: int = 0
    refused: int = 0
    tokens: int = 0
    is_answered: bool = False

    def __str__(self) -> str:
        refused = f", {self.refused} refused" if self.refused else ""
        return f"{self.tokens:,} in {self.calls}{refused}{'' if self.is_answered else ', not answered'}"


def tokens_of(text: bytes) -> int:
    return -(-len(text) // _BYTES_PER_TOKEN)


async def ask(client: Client, prefix: str, calls: Sequence[Call], fact: str) -> Tally:
    """Make all calls, note whether an answer contains the fact, and count what the model writes and reads."""
    tally = Tally()
    for tool, arguments in calls:
        tally.calls += 1
        tally.tokens += tokens_of(orjson.dumps(arguments))
        try:
            result = await client.call_tool(prefix + tool, arguments)
        except MCPTrioError as error:
            tally.refused += 1
            tally.tokens += tokens_of(str(error).encode())
            continue
        text = "\n".join(block.text for block in result.content if isinstance(block, TextContent))
        size = tokens_of(text.encode())
        if result.is_error or size > _BUDGET:
            tally.refused += 1
        # A client that discards an answer for its size gives the model a sentence instead.
        tally.tokens += min(size, 30) if size > _BUDGET else size
        tally.is_answered = tally.is_answered or (fact in text and not result.is_error and size <= _BUDGET)
    return tally


async def definitions(client: Client) -> int:
    size = 0
    async for tool in client.tools():
        size += len(f"{tool.name}{tool.description or ''}".encode()) + len(orjson.dumps(tool.input_schema))
    return size // _BYTES_PER_TOKEN


async def talk(command: Sequence[str], prefix: str, sides: Sequence[Sequence[Call]]) -> tuple[int, list[Tally]]:
    """Ask all questions of one server. Return the tokens of its definitions, and what each question took."""
    async with connect(Command(args=command, stderr="drop")) as client:
        size = await definitions(client)
        tallies = [
            await ask(client, prefix, calls, question.fact) for question, calls in zip(QUESTIONS, sides, strict=True)
        ]
    return size, tallies


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


def serve(url: str, folder: Path) -> tuple[str, ...]:
    """Return the command that serves mcptrio-postgres with this database."""
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
        theirs = (str(node.binary), str(script), server.url)
        ours = serve(server.url, Path(folder))
        their_calls = [[("query", {"sql": sql}) for sql in each.theirs] for each in QUESTIONS]
        their_size, their_tallies = trio.run(talk, theirs, "", their_calls)
        our_size, our_tallies = trio.run(talk, ours, "postgres_", OUR_CALLS)
        our_effects = trio.run(attack, ours, "postgres_read_query", "query", server.url)
        their_effects = trio.run(attack, theirs, "query", "sql", server.url)
    print("| tokens in calls | `@modelcontextprotocol/server-postgres` 0.6.2 | `mcptrio-postgres` |\n|---|---|---|")
    print(f"| definitions of the tools | {their_size:,} | {our_size:,} |")
    for question, theirs_took, ours_took in zip(QUESTIONS, their_tallies, our_tallies, strict=True):
        print(f"| {question.title} | {theirs_took} | {ours_took} |")
    print(f"| **all** | **{total(their_size, their_tallies)}** | **{total(our_size, our_tallies)}** |")
    for title, their_effect, our_effect in zip(_ATTACKS, their_effects, our_effects, strict=True):
        print(f"| {title} | {their_effect} | {our_effect} |")
    return int(not all(each.is_answered for each in (*their_tallies, *our_tallies)))


def total(size: int, tallies: Sequence[Tally]) -> Tally:
    """Return the sum of the questions and of the tokens of the definitions."""
    return Tally(
        calls=sum(each.calls for each in tallies),
        refused=sum(each.refused for each in tallies),
        tokens=size + sum(each.tokens for each in tallies),
        is_answered=all(each.is_answered for each in tallies),
    )


if __name__ == "__main__":
    raise SystemExit(main())
