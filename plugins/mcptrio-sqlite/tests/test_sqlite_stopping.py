"""Cancellation, deadlines and progress, with queries that would never end."""

from __future__ import annotations

import sqlite3
import sys
import threading
from contextlib import closing
from pathlib import Path
from typing import Any

import pytest
import trio
from mcptrio_sqlite import Config, objects

from mcptrio import Progress, Server, connect

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
ENDLESS_ROWS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
ENDLESS_WRITE = f"INSERT INTO texts(body) {ENDLESS_ROWS}"


def is_at_work() -> bool:
    """Whether a thread runs a query: one that is idle in trio's cache does not count."""
    for frame in sys._current_frames().values():
        each: Any = frame
        while each is not None:
            if each.f_code.co_name == "in_thread":
                return True
            each = each.f_back
    return False


async def until(condition: Any) -> None:
    with trio.fail_after(5):
        while not condition():  # noqa: ASYNC110 - a thread's stack sets no event
            await trio.sleep(0.01)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(("tool", "query"), [("read_query", ENDLESS), ("write_query", ENDLESS_WRITE)])
async def test_a_cancelled_query_stops(sqlite_client: Any, rows_in: Any, revision: str, tool: str, query: str) -> None:
    async with sqlite_client(writable=("shop",), revision=revision) as client:
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, tool, {"query": query})
            await until(is_at_work)
            nursery.cancel_scope.cancel()
        await until(lambda: not is_at_work())
        assert (await client.call_tool("read_query", {"query": "SELECT 1"})).structured_content["items"] == [[1]]
    assert rows_in("SELECT count(*) FROM texts") == [(1,)]


@pytest.mark.parametrize(
    ("tool", "query"),
    [
        ("read_query", ENDLESS),
        ("export_csv", f"{ENDLESS_ROWS} WHERE i < 0"),
        ("write_query", ENDLESS_WRITE),
        ("create_table", f"CREATE TABLE t AS {ENDLESS_ROWS}"),
    ],
)
async def test_the_time_of_a_query_is_bounded(
    sqlite_client: Any, refusal: Any, rows_in: Any, tool: str, query: str
) -> None:
    async with sqlite_client(writable=("shop",), query_timeout=0.3) as client:
        message = await refusal(client, tool, query=query)
        await until(lambda: not is_at_work())

    assert message.startswith("stopped after 0.3 seconds")
    assert ("nothing was changed" in message) == (tool in ("write_query", "create_table"))
    assert rows_in("SELECT count(*) FROM texts") == [(1,)]
    assert rows_in("SELECT * FROM sqlite_master WHERE name = 't'") == []


async def test_skipping_rows_is_interrupted_too(sqlite_client: Any, call: Any, refusal: Any) -> None:
    async with sqlite_client(query_timeout=0.3) as client:
        page = await call(client, "read_query", query=ENDLESS_ROWS)
        far = "999999999999-" + page["next_cursor"].partition("-")[2]
        assert "stopped" in await refusal(client, "read_query", query=ENDLESS_ROWS, cursor=far)


async def test_a_long_query_reports_progress(sqlite_client: Any) -> None:
    heard: list[Progress] = []
    async with sqlite_client(query_timeout=1.3) as client:
        await client.call_tool("read_query", {"query": ENDLESS}, progress=heard.append)

    assert len(heard) >= 1
    assert "of at most 1.3 seconds" in (heard[0].message or "")


async def test_no_more_threads_than_configured(tmp_path: Path) -> None:
    config = Config(databases={"a": tmp_path / "a.db"}, writable=("a",), max_threads=2, query_timeout=0.5)
    with closing(sqlite3.connect(tmp_path / "a.db")):
        pass
    before = threading.active_count()
    async with connect(Server(plugins=objects(config))) as client:
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(client.call_tool, "read_query", {"query": ENDLESS})
            await until(is_at_work)
            assert threading.active_count() <= before + 3  # one of them may wait in trio's cache
        await until(lambda: not is_at_work())
