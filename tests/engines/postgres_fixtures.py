"""A PostgreSQL server for all tests of a run, and one for tests that damage it. A conftest imports the fixtures."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import pytest

from tests.engines.postgres_server import PostgresServer, data_folder, server_at

__all__ = ["cluster", "new_prefix", "own_postgres", "postgres", "prefix"]


@pytest.fixture(scope="session")
def cluster() -> Iterator[Path]:
    with data_folder() as folder:
        yield folder


@pytest.fixture(scope="session")
def postgres(cluster: Path) -> Iterator[PostgresServer]:
    with data_folder(cluster) as folder, server_at(folder) as server:
        yield server


@pytest.fixture
def own_postgres(cluster: Path) -> Iterator[PostgresServer]:
    """A server that the test may stop, stall and kill."""
    with data_folder(cluster) as folder, server_at(folder) as server:
        yield server


def new_prefix() -> str:
    """Return the prefix of a schema that no other test has."""
    return f"t{secrets.token_hex(4)}"


@pytest.fixture
def prefix() -> str:
    """The prefix of the schema of this test."""
    return new_prefix()
