"""Slow statements and advice on indexes, from real statistics."""

from __future__ import annotations

from typing import Any

import trio


async def test_slow_statements_are_listed(postgres_client: Any, text: Any, call: Any, own_shop: Any) -> None:
    own_shop.ask("SELECT pg_sleep(0.05), 'a secret constant'")
    own_shop.ask("SELECT count(*)\n FROM orders WHERE sum > 5")
    async with postgres_client(own_shop) as client:
        await text(client, "list_tables")
        found = await text(client, "slow_queries", order="mean", limit=2)
        lines = found.splitlines()
        assert lines[0] == "calls|total ms|mean ms|rows|cache hits|query"
        assert lines[1].startswith("1|")
        assert lines[1].endswith("|SELECT pg_sleep($1), $2")
        every = await call(client, "slow_queries", limit=100)
        queries = [each["query"] for each in every["items"]]
        assert "SELECT count(*) FROM orders WHERE sum > $1" in queries
        assert not any("mcptrio" in query or "set_config" in query for query in queries)


async def test_missing_statistics_are_explained(postgres_client: Any, text: Any, own_shop: Any) -> None:
    own_shop.ask("DROP EXTENSION pg_stat_statements")
    async with postgres_client(own_shop) as client:
        assert "CREATE EXTENSION pg_stat_statements" in await text(client, "slow_queries")


async def test_advice_on_indexes(postgres_client: Any, text: Any, own_shop: Any) -> None:
    own_shop.ask("""
        CREATE TABLE visits(id bigint PRIMARY KEY, customer bigint REFERENCES customers(id), page text, at int);
        CREATE INDEX visits_page ON visits(page);
        CREATE INDEX visits_page_at ON visits(page, at);
        CREATE INDEX visits_page_at_again ON visits(page, at);
        CREATE INDEX visits_at_backwards ON visits(at DESC);
        CREATE INDEX visits_some ON visits(at) WHERE page = 'x';
        CREATE INDEX visits_lower ON visits(lower(page));
        INSERT INTO visits SELECT i, 1, 'page ' || i % 50, i FROM generate_series(1, 20000) AS i;
        ANALYZE visits;
    """)
    for _ in range(25):
        own_shop.ask(
            "SET enable_indexscan = off; SET enable_bitmapscan = off; SELECT count(*) FROM visits WHERE id = 5"
        )
    async with postgres_client(own_shop) as client:
        with trio.fail_after(30):
            while "sequential scans" not in (found := await text(client, "advise_indexes")):  # noqa: ASYNC110
                await trio.sleep(0.2)  # statistics arrive when the session that made them ends or is idle
        lines = found.splitlines()
        assert lines[:4] == [
            "foreign key without index:",
            "  visits: customer references customers, ~20000 rows; CREATE INDEX ON visits (customer)",
            "  orders: customer references customers, ~3 rows; CREATE INDEX ON orders (customer)",
            "sequential scans:",
        ]
        assert lines[4].startswith("  visits: ")
        assert lines[4].endswith(" of ~20000 rows each, 0 index scans")
        redundant = found.partition("redundant index:\n")[2].splitlines()
        assert [line.partition(",")[0] for line in redundant[:-1]] == [
            "  visits_page_at_again on visits: same as visits_page_at",
            "  visits_page on visits: covered by visits_page_at",
            "  visits_page on visits: covered by visits_page_at_again",
        ]
        assert "DROP INDEX visits_lower" in found
        assert "visits_pkey" not in found
        assert await text(client, "advise_indexes", schema="stock") == "no advice\n" + lines[-1]
