"""A database of a real server, and a client of a server with the plugin."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Iterator
from contextlib import AbstractAsyncContextManager, asynccontextmanager
from pathlib import Path
from typing import Any

import psycopg
import pytest
import trio
from attrs import frozen
from mcptrio_postgres import Config, objects

from mcptrio import Client, Secret, Server, connect
from tests.engines.postgres_fixtures import cluster, new_prefix, own_postgres
from tests.engines.postgres_server import PostgresServer, data_folder, server_at

__all__ = ["cluster", "own_postgres"]

SHOP = """
CREATE TABLE customers(
    id bigint GENERATED ALWAYS AS IDENTITY PRIMARY KEY, name varchar(50) NOT NULL UNIQUE, born date, tags text[]
);
COMMENT ON TABLE customers IS 'People who buy';
COMMENT ON COLUMN customers.born IS 'day of birth';
CREATE TABLE orders(
    number bigint PRIMARY KEY, customer bigint NOT NULL REFERENCES customers(id) ON DELETE CASCADE,
    sum numeric(10, 2) DEFAULT 0 CHECK (sum >= 0), data jsonb, image bytea, placed timestamptz NOT NULL DEFAULT now()
);
CREATE INDEX by_sum ON orders(sum, placed) WHERE sum > 0;
CREATE VIEW big AS SELECT * FROM orders WHERE sum > 100;
CREATE SCHEMA stock;
COMMENT ON SCHEMA stock IS 'What is in the warehouse';
CREATE TABLE stock.items(id int, place text, size float8, PRIMARY KEY (id, place)) PARTITION BY LIST (id);
CREATE TABLE stock.items_1 PARTITION OF stock.items FOR VALUES IN (1);
CREATE FUNCTION noted() RETURNS trigger LANGUAGE plpgsql AS 'BEGIN RETURN new; END';
CREATE TRIGGER noted AFTER INSERT ON orders FOR EACH ROW EXECUTE FUNCTION noted();
INSERT INTO customers(name, born, tags)
    VALUES ('Ada', '1815-12-10', '{a,"b c"}'), ('Bob', NULL, NULL), ('Cyd', NULL, '{}');
INSERT INTO orders VALUES (1, 1, 10.5, '{"a": [1]}', '\\x00ff'), (2, 1, 200, NULL, NULL), (3, 2, 300, NULL, NULL);
ANALYZE customers;
ANALYZE orders;
"""

Connect = Callable[..., AbstractAsyncContextManager[Client]]


@frozen
class ShopDatabase:
    """A database, with roles that may write and that may only read."""

    server: PostgresServer
    name: str

    @property
    def url(self) -> str:
        """The URL of the superuser of the tests' server."""
        return self.url_of("mcptrio")

    def url_of(self, role: str) -> str:
        return f"postgresql://{role}@127.0.0.1:{self.server.port}/{self.name}"

    def ask(self, sql: str) -> list[Any]:
        """Return rows, read through another connection."""
        with psycopg.connect(self.url, autocommit=True) as connection:
            cursor = connection.execute(sql.encode())
            return cursor.fetchall() if cursor.description else []

    def sessions(self, condition: str = "true") -> int:
        """Return the number of the plugin's sessions with a property."""
        [(count,)] = self.server.run(
            "SELECT count(*) FROM pg_stat_activity"
            f" WHERE datname = '{self.name}' AND application_name = 'mcptrio-postgres' AND {condition}"
        )
        return int(count)


@pytest.fixture(scope="session")
def postgres(cluster: Path) -> Iterator[PostgresServer]:
    """A server with the statistics of statements."""
    with (
        data_folder(cluster) as folder,
        server_at(folder, "-c", "shared_preload_libraries=pg_stat_statements") as server,
    ):
        server.run("CREATE DATABASE made_shop")
        server.run("CREATE ROLE reader LOGIN IN ROLE pg_read_all_data")
        with psycopg.connect(server.url.replace("/postgres", "/made_shop"), autocommit=True) as connection:
            connection.execute(SHOP.encode())
            connection.execute("CREATE EXTENSION pg_stat_statements")
        yield server


@pytest.fixture(scope="session")
def shop(postgres: PostgresServer) -> ShopDatabase:
    """A database with customers and orders, for tests that change nothing."""
    postgres.run("CREATE DATABASE shop TEMPLATE made_shop")
    return ShopDatabase(postgres, "shop")


@pytest.fixture
def own_shop(postgres: PostgresServer) -> Iterator[ShopDatabase]:
    """A new database with customers and orders, which the test may change."""
    name = new_prefix()
    postgres.run(f"CREATE DATABASE {name} TEMPLATE made_shop")
    yield ShopDatabase(postgres, name)
    postgres.run(f"DROP DATABASE {name} WITH (FORCE)")


@pytest.fixture
def postgres_client(shop: ShopDatabase) -> Connect:
    """Clients of servers with a database named ``shop`` and any other settings."""

    @asynccontextmanager
    async def open_client(
        database: ShopDatabase = shop, *, revision: str | None = None, role: str = "mcptrio", **settings: Any
    ) -> AsyncIterator[Client]:
        config = Config(**{"databases": {"shop": Secret(database.url_of(role))}, **settings})
        with trio.fail_after(60):
            async with connect(Server(plugins=objects(config)), revision=revision) as client:
                yield client

    return open_client
