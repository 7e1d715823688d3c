"""The database of the records: its settings, its table, its failures, and the operator's commands on it."""

from __future__ import annotations

import signal
import subprocess
import sys
import time
from functools import partial
from pathlib import Path

import outcome
import pytest
import trio
from click.testing import CliRunner, Result
from mcptrio_authserver import AuthorizationServer, Config, LedgerSettings
from mcptrio_authserver.__main__ import main
from mcptrio_authserver.ledger import Ledger, Store
from mcptrio_authserver.store_opening import migrate_store, open_store

from mcptrio import Secret
from mcptrio.errors import ConfigError, StoreFailed
from tests.engines.postgres_server import PostgresServer

from .conftest import PASSWORD, Clock, error_of, opened, prepared


def count_of(ledger: Ledger) -> int:
    return ledger.count("a")


async def until_usable(store: Store) -> None:
    """Wait until a transaction succeeds; a connection is not attempted again at once."""
    with trio.fail_after(20):
        while True:
            if isinstance(await outcome.acapture(store.transact, count_of), outcome.Value):
                return
            await trio.sleep(0.1)


# Settings and the table


@pytest.mark.parametrize("url", ["", "mysql://db/x", "postgres:x", "sqlite:x"])
def test_url_is_of_postgresql(url: str) -> None:
    with pytest.raises(ValueError, match="url: expected postgresql://USER@HOST/DATABASE"):
        LedgerSettings(url=Secret(url))


@pytest.mark.parametrize(
    ("url", "settings", "problem"),
    [
        ("postgresql://app:s3cret@db.example/x?sslmode=prefer", {}, "expected sslmode require or verify-ca"),
        ("postgresql://app:s3cret@db.example/x?nosuch=1", {}, "a URL that libpq cannot read"),
        ("postgresql://app:s3cret@localhost/x", {"prefix": "A b"}, "prefix: expected a lower-case letter"),
    ],
)
async def test_unsafe_connection_is_refused(tmp_path: Path, url: str, settings: dict[str, str], problem: str) -> None:
    ledger = LedgerSettings(url=Secret(url), prefix=settings.get("prefix", "mcptrio"))
    with pytest.raises(ConfigError, match=rf"^ledger: .*{problem}") as caught:
        async with open_store(tmp_path, ledger):
            pass
    assert "s3cret" not in str(caught.value)
    assert "s3cret" not in repr(ledger)


async def test_missing_library_is_named(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.delitem(sys.modules, "mcptrio_authserver.postgres_store", raising=False)
    monkeypatch.delattr("mcptrio_authserver.postgres_store", raising=False)
    monkeypatch.setitem(sys.modules, "mcptrio_store_postgres", None)
    ledger = LedgerSettings(url=Secret("postgresql://localhost/x"))

    with pytest.raises(ConfigError, match=r"pip install 'mcptrio-authserver\[postgres\]'"):
        async with open_store(tmp_path, ledger):
            pass
    with pytest.raises(ConfigError, match=r"pip install 'mcptrio-authserver\[postgres\]'"):
        await migrate_store(ledger)


async def test_server_without_or_with_a_newer_table_does_not_start(
    folder: Path, postgres: PostgresServer, prefix: str
) -> None:
    ledger = LedgerSettings(url=Secret(postgres.url), prefix=prefix, start_timeout=0)
    server = AuthorizationServer(Config(issuer="http://127.0.0.1:8000/auth", folder=folder, ledger=ledger))
    command = f"run python -m mcptrio_authserver ledger migrate --ledger {postgres.url}"
    with pytest.raises(StoreFailed, match=rf"schema {prefix}_authserver has no tables of mcptrio: {command}"):
        async with server.open():
            pass

    async with trio.open_nursery() as nursery:
        for _ in range(3):
            nursery.start_soon(migrate_store, ledger)
    assert await migrate_store(ledger) == []
    async with server.open():
        pass

    postgres.run(f"UPDATE {prefix}_authserver.migrations SET number = 9, compatible_from = 9")
    with pytest.raises(StoreFailed, match="pip install -U mcptrio-authserver"):
        async with server.open():
            pass


# Failures


async def test_database_that_was_restarted_is_used_again(folder: Path, own_postgres: PostgresServer) -> None:
    ledger = LedgerSettings(url=Secret(own_postgres.url), start_timeout=10)
    await prepared(ledger, folder)
    async with opened(folder, ledger=ledger, clock=Clock(now=time.time())) as site:
        tokens = await site.tokens()
        answer = await site.code()

        await trio.to_thread.run_sync(own_postgres.stop)
        failed = await site.redeem(answer["code"])
        assert (failed.status_code, error_of(failed)) == (503, "temporarily_unavailable")
        await trio.to_thread.run_sync(own_postgres.start)

        with trio.fail_after(30):
            # A connection is not attempted again at once.
            while (redeemed := await site.redeem(answer["code"])).status_code == 503:  # noqa: ASYNC110
                await trio.sleep(0.1)
        assert redeemed.status_code == 200
        await trio.to_thread.run_sync(own_postgres.kill)
        await trio.to_thread.run_sync(own_postgres.start)
        assert (await site.refresh(tokens["refresh_token"])).status_code == 200, "the idle connection was replaced"


async def test_transactions_do_not_wait_for_ever(folder: Path, own_postgres: PostgresServer) -> None:
    ledger = LedgerSettings(url=Secret(own_postgres.url), timeout=1.0, start_timeout=10)
    await prepared(ledger, folder)
    async with open_store(folder, ledger) as store:
        failed: list[StoreFailed] = []

        async def attempt() -> None:
            try:
                await store.transact(count_of)
            except StoreFailed as error:
                failed.append(error)

        with trio.fail_after(20):
            with own_postgres.stalled():
                async with trio.open_nursery() as nursery:
                    for _ in range(20):
                        nursery.start_soon(attempt)
            assert len(failed) == 20
            await until_usable(store)


async def test_transaction_that_takes_too_long_is_rolled_back(folder: Path, own_postgres: PostgresServer) -> None:
    ledger = LedgerSettings(url=Secret(own_postgres.url), timeout=1.0, start_timeout=10)
    await prepared(ledger, folder)
    started, resumed = trio.Event(), trio.Event()

    def stand_still(ledger: Ledger) -> None:
        ledger.put("a", "1", {}, until=time.time() + 100)
        trio.from_thread.run_sync(started.set)
        trio.from_thread.run(resumed.wait)
        ledger.count("a")

    async with open_store(folder, ledger) as stopped, open_store(folder, ledger) as other:

        async def stop() -> None:
            with pytest.raises(StoreFailed):
                await stopped.transact(stand_still)

        async with trio.open_nursery() as nursery:
            nursery.start_soon(stop)
            await started.wait()
            await until_usable(other)
            resumed.set()
        assert await other.transact(count_of) == 0


SIGNALLED = """
import os, sys, threading, time, trio
from pathlib import Path
from mcptrio import Secret
from mcptrio_authserver import LedgerSettings
from mcptrio_authserver.store_opening import open_store

def work(ledger):
    ledger.put("a", "1", {}, until=time.time() + 100)
    print("begun", flush=True)
    os.kill(os.getpid(), int(sys.argv[2]))
    # The signal may stop another thread first; this one must not commit meanwhile.
    threading.Event().wait()

async def main():
    async with open_store(Path(), LedgerSettings(url=Secret(sys.argv[1]), timeout=1.0)) as store:
        await store.transact(work)

trio.run(main)
"""


@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGSTOP])
async def test_lock_of_a_replica_that_is_killed_or_stopped_is_released(
    folder: Path, own_postgres: PostgresServer, number: signal.Signals
) -> None:
    ledger = LedgerSettings(url=Secret(own_postgres.url), timeout=1.0, start_timeout=10)
    await prepared(ledger, folder)
    command = [sys.executable, "-c", SIGNALLED, own_postgres.url, str(int(number))]
    start = partial(subprocess.Popen, stdout=subprocess.PIPE)
    async with open_store(folder, ledger) as store:
        with start(command) as process:
            try:
                with trio.fail_after(60):
                    assert await trio.to_thread.run_sync(process.stdout.readline) == b"begun\n"
                await until_usable(store)
                assert await store.transact(count_of) == 0
            finally:
                process.kill()


# Commands


async def command(*args: str, password: str = PASSWORD) -> Result:
    """In a thread, because the command runs its own event loop."""
    return await trio.to_thread.run_sync(partial(CliRunner().invoke, main, [*args], input=f"{password}\n"))


async def test_operator_manages_users_grants_and_keys_in_the_database(folder: Path, database: LedgerSettings) -> None:
    options = ("--ledger", database.url.reveal(), "--prefix", database.prefix)

    async def output(*args: str) -> str:
        result = await command(*args, *options)
        assert (result.exit_code, result.stderr) == (0, ""), result.output
        return result.stdout

    (folder / "users").unlink()
    assert await output("ledger", "migrate") == "everything is up to date\n"
    assert await output("user", "list") == "ada: all scopes\nbob: notes:read\n"
    assert await output("user", "add", "eve", "--scope", "notes:read") == "added eve to the database\n"
    assert await output("user", "add", "ada") == "changed ada in the database\n"
    assert await output("user", "remove", "bob") == "removed bob from the database\n"
    missing = await command("user", "remove", "bob", *options)
    assert "there is no user 'bob' in the database" in missing.stderr
    async with opened(folder, ledger=database, clock=Clock(now=time.time())) as site:
        await site.log_in(await site.authorize(), name="eve")
        tokens = await site.tokens()
        assert (await output("grant", "list")).count(": eve to 'The App'") == 1
        assert (await output("session", "list")).startswith("eve: since 20")
        assert await output("grant", "end", "--user", "eve") == "ended 1 grant\n"
        assert error_of(await site.refresh(tokens["refresh_token"])) == "invalid_grant"
        assert (await output("key", "rotate", "--now")).startswith("deleted 1 key")
    assert not any(folder.iterdir()), "no file is used"  # noqa: ASYNC240


async def test_invalid_commands_are_explained(postgres: PostgresServer, prefix: str) -> None:
    for args, problem in (
        (("ledger", "migrate"), "expected --ledger URL; a file needs no migration"),
        (("grant", "list", "--ledger", "mysql://x/y"), "--ledger: expected postgresql://USER@HOST/DATABASE"),
        (("grant", "list", "--ledger", "postgresql://db.example/x?sslmode=allow"), "ledger: expected sslmode"),
        (("user", "list", "--ledger", postgres.url, "--prefix", prefix), "run python -m mcptrio_authserver ledger"),
    ):
        result = await command(*args)
        assert result.exit_code in (1, 2)
        assert problem in result.stderr
