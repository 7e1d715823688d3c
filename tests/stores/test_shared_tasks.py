"""Several processes share the tasks in one SQLite file."""

from __future__ import annotations

import sqlite3
from pathlib import Path

import pytest

from mcptrio.stores import open_sqlite_stores

from .shared_tasks_contract import *  # noqa: F403 - these are the tests
from .shared_tasks_contract import SharedTasks
from .tasks_contract import new_task, task_store

__all__: list[str] = []


@pytest.fixture
def shared(tmp_path: Path) -> SharedTasks:
    # The lock of a killed process is free at once; the others look every two seconds.
    return SharedTasks(f"sqlite:{tmp_path / 'tasks.db'}", takeover=4.0, has_leases=False)


async def test_file_of_an_older_version_gets_the_table(tmp_path: Path) -> None:
    file = tmp_path / "tasks.db"
    async with open_sqlite_stores(file):
        pass
    connection = sqlite3.connect(file)
    connection.executescript("DROP TABLE tasks; DELETE FROM sums WHERE name LIKE 'task%'")
    connection.close()
    async with open_sqlite_stores(file) as stores:
        await task_store(stores).create(new_task("a"))
        assert await task_store(stores).load("a") is not None
