"""Concurrent writers lose nothing, and cancelled queries stop."""

from __future__ import annotations

import os
import sqlite3
import stat
import sys
import time
from functools import partial
from pathlib import Path

import pytest
import trio
from mcptrio_memory.config import Config
from mcptrio_memory.database import open_database
from mcptrio_memory.statements import MemoryUnavailable

from mcptrio import connect
from mcptrio.errors import PluginError

SERVER = """
import sys
from pathlib import Path

import trio
from mcptrio import Server, hookimpl
from mcptrio.serving import ServerSettings, serve_stdio
from mcptrio_memory import Config, setup

class Installed:
    @hookimpl
    def setup(self, server):
        setup(server, Config(file=Path(sys.argv[1]), watch_interval=0.05))

trio.run(serve_stdio, Server(plugins=[Installed()], settings=ServerSettings(strict=True)))
"""


async def create(client, name: str) -> None:
    entity = {"name": name, "entity_type": "t", "observations": [f"of {name}"]}
    result = await client.call_tool("create_entities", {"entities": [entity]})
    assert result.structured_content == {"entities": [entity]}


async def create_at_once(client, names: list[str]) -> None:
    async with trio.open_nursery() as nursery:
        for name in names:
            nursery.start_soon(create, client, name)


@pytest.mark.parametrize("count", [20, 300])
async def test_pipelined_calls_lose_nothing(open_memory, call, count: int) -> None:
    names = [f"e{number}" for number in range(count)]
    async with open_memory() as client:
        await create_at_once(client, names)
        graph = await call(client, "read_graph", fields=["name"], limit=1000)

    assert sorted(each["name"] for each in graph["entities"]) == sorted(names)


async def test_two_processes_on_one_file_lose_nothing_and_notify_changes(tmp_path: Path, call) -> None:
    script = tmp_path / "server.py"
    script.write_text(SERVER)
    command = [sys.executable, str(script), str(tmp_path / "shared.db")]
    with trio.fail_after(120):
        async with connect(command) as one, connect(command) as other:
            async with one.subscribe(["memory://node/b199"]) as changes:
                async with trio.open_nursery() as nursery:
                    nursery.start_soon(create_at_once, one, [f"a{number}" for number in range(200)])
                    nursery.start_soon(create_at_once, other, [f"b{number}" for number in range(200)])
                change = await anext(aiter(changes))
            stats = await call(one, "graph_stats")

    assert change.uri == "memory://node/b199"
    assert stats["entities"] == stats["observations"] == 400


async def test_file_is_readable_by_its_owner_only(open_memory, call, tmp_path: Path) -> None:
    file = tmp_path / "new" / "folder" / "memory.db"
    async with open_memory(file=file) as client:
        await create(client, "a")
        modes = {path.name: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
        folder = stat.S_IMODE(file.parent.stat().st_mode)
    left = os.listdir(file.parent)

    assert folder == 0o700
    assert set(modes) == {"memory.db", "memory.db-wal", "memory.db-shm"}
    assert set(modes.values()) == {0o600}
    assert left == ["memory.db"]


def test_file_is_in_the_data_folder_of_the_user(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setenv("XDG_DATA_HOME", str(tmp_path))
    if sys.platform == "linux":
        assert Config().path() == tmp_path / "mcptrio" / "memory.db"
    assert Config(file=Path("~/x.db")).path() == Path.home() / "x.db"


@pytest.mark.parametrize(
    ("make", "failure"),
    [
        (lambda path: path.write_bytes(b"no database" * 1000), "not an SQLite database"),
        (
            lambda path: sqlite3.connect(path).executescript("CREATE TABLE x (y)").connection.close(),
            "of another program",
        ),
        (lambda path: path.mkdir(), "got a directory or device"),
    ],
)
async def test_file_that_is_not_a_memory_is_refused_unchanged(open_memory, file: Path, make, failure: str) -> None:
    make(file)
    before = _bytes(file)
    with pytest.raises(PluginError, match=failure):
        async with open_memory():
            pass
    assert _bytes(file) == before


def _bytes(file: Path) -> bytes | None:
    return file.read_bytes() if file.is_file() else None


SLOW = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 1000000000) SELECT max(i) FROM n"


async def test_cancelled_query_is_interrupted(file: Path) -> None:
    async with open_database(file, max_bytes=2**24, busy_timeout=1) as database:
        before = time.monotonic()
        with trio.move_on_after(0.1) as scope:
            await database.read(lambda statements: statements.fetch_value(SLOW))
        assert scope.cancelled_caught
        with trio.move_on_after(0.1) as scope:
            await database.write(
                lambda statements: [
                    statements.execute("INSERT INTO namespaces VALUES (1, 'x', 0)"),
                    statements.fetch_value(SLOW),
                ]
            )
        assert scope.cancelled_caught
        assert time.monotonic() - before < 30
        # Both connections still work, and the change was rolled back.
        assert await database.read(lambda statements: statements.fetch_value("SELECT count(*) FROM namespaces")) == 0
        await database.write(lambda statements: statements.execute("INSERT INTO namespaces VALUES (1, 'x', 0)"))
        assert await database.read(lambda statements: statements.fetch_value("SELECT count(*) FROM namespaces")) == 1


async def test_sequence_of_small_statements_is_interrupted(file: Path) -> None:
    def count(statements) -> None:
        while True:
            statements.fetch_value("SELECT 1")

    async with open_database(file, max_bytes=2**24, busy_timeout=1) as database:
        with trio.fail_after(30), trio.move_on_after(0.05) as scope:
            await database.read(count)
    assert scope.cancelled_caught


async def test_change_waits_for_another_process_until_its_timeout(file: Path) -> None:
    async with (
        open_database(file, max_bytes=2**24, busy_timeout=0.3) as hurried,
        open_database(file, max_bytes=2**24, busy_timeout=30) as database,
    ):
        other = sqlite3.connect(file, isolation_level=None)
        other.execute("BEGIN IMMEDIATE")
        add = partial(_add)
        with pytest.raises(MemoryUnavailable, match="kept locked by another process"):
            await hurried.write(add)
        with trio.move_on_after(0.05) as scope:
            await database.write(add)
        assert scope.cancelled_caught
        other.execute("COMMIT")
        other.close()
        await database.write(add)
        assert await database.read(lambda statements: statements.fetch_value("SELECT count(*) FROM namespaces")) == 1


def _add(statements) -> None:
    statements.execute("INSERT INTO namespaces (name, revision) VALUES ('x', 0)")


async def test_full_file_refuses_writes_and_stays_readable(open_memory, call, refusal) -> None:
    async with open_memory(max_file_bytes=2**20, max_observation=1_000_000) as client:
        await create(client, "a")
        message = await refusal(
            client,
            "create_entities",
            entities=[{"name": "b", "entity_type": "t", "observations": ["x" * 900_000]}],
        )
        graph = await call(client, "read_graph")

    assert "as large as it may become" in message
    assert [each["name"] for each in graph["entities"]] == ["a"]
