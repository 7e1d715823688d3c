"""Cancellation, deadlines, progress and limits, with queries that would never end or use all resources."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from contextlib import suppress
from functools import partial
from pathlib import Path
from typing import Any

import pytest
import trio
import trio.testing

from mcptrio.client import Progress

ENDLESS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT count(*) FROM n"
ENDLESS_ROWS = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n) SELECT i FROM n"
ENDLESS_WRITE = f"INSERT INTO texts(body) {ENDLESS_ROWS}"

ONE_STEP = "instr(replace(hex(zeroblob(3800000)), '00', 'ab'), replace(hex(zeroblob(1800000)), '00', 'ab') || 'b')"
"""A statement with one function call of two minutes, during which SQLite does not check for interrupts."""
ROOM = 8 * 2**20
"""Bytes of the largest value, as this function needs it."""


def children(of: int | None = None) -> dict[int, str]:
    """Return the processes that run queries for this process (or another), and their states."""
    found = {}
    for folder in Path("/proc").iterdir():
        if folder.name.isdecimal():
            with suppress(OSError):
                state, parent = (folder / "stat").read_text().rpartition(")")[2].split()[:2]
                if int(parent) == (of or os.getpid()) and b"mcptrio_sqlite" in (folder / "cmdline").read_bytes():
                    found[int(folder.name)] = state
    return found


def is_at_work() -> bool:
    """Return True if a process runs a query, which keeps a processor busy."""
    return "R" in children().values()


def peak_of(process: int) -> int:
    """Return the peak memory of a process in bytes."""
    return 1024 * int(Path(f"/proc/{process}/status").read_text().partition("VmHWM:")[2].split()[0])


def is_gone(process: int) -> bool:
    """Return True if an orphan has ended. The tests adopt orphans, so that none is overlooked."""
    with suppress(ChildProcessError):
        os.waitpid(process, os.WNOHANG)
    return not Path(f"/proc/{process}").exists()


@pytest.fixture
def timed(mock_clock: trio.testing.MockClock) -> trio.testing.MockClock:
    """A real-time clock that a test can advance to the timeout of a query."""
    mock_clock.rate = 1.0
    return mock_clock


async def until(condition: Any) -> None:
    with trio.fail_after(60):
        while not condition():  # noqa: ASYNC110 - the state of a process sets no event
            await trio.sleep(0.01)


@pytest.mark.parametrize("revision", ["2025-11-25", "2026-07-28"])
@pytest.mark.parametrize(("tool", "query"), [("read_query", ENDLESS), ("write_query", ENDLESS_WRITE)])
async def test_cancelled_query_stops(
    sqlite_client: Any, rows_in: Any, monkeypatch: pytest.MonkeyPatch, revision: str, tool: str, query: str
) -> None:
    monkeypatch.setattr(
        "mcptrio_sqlite.query_process.STOP_TIMEOUT", 30.0
    )  # on a busy machine it may wait for a processor
    async with sqlite_client(writable=("shop",), revision=revision) as client:
        await client.call_tool("read_query", {"query": "SELECT 1"})  # starting a process takes time as well
        before = set(children())
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, tool, {"query": query})
            await until(is_at_work)
            nursery.cancel_scope.cancel()
        await until(lambda: not is_at_work())
        assert (await client.call_tool("read_query", {"query": "SELECT 1"})).structured_content["items"] == [[1]]
        assert set(children()) == before  # interrupted, not killed
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
async def test_query_is_interrupted_at_its_timeout(
    sqlite_client: Any, refusal: Any, rows_in: Any, tool: str, query: str
) -> None:
    async with sqlite_client(writable=("shop",), query_timeout=0.3) as client:
        message = await refusal(client, tool, query=query)
        await until(lambda: not is_at_work())

    assert message.startswith("stopped after 0.3 seconds")
    assert ("nothing was changed" in message) == (tool in ("write_query", "create_table"))
    assert rows_in("SELECT count(*) FROM texts") == [(1,)]
    assert rows_in("SELECT * FROM sqlite_master WHERE name = 't'") == []


async def test_skipping_rows_is_interrupted(sqlite_client: Any, call: Any, refusal: Any) -> None:
    async with sqlite_client() as client:
        page = await call(client, "read_query", query=ENDLESS_ROWS)
    async with sqlite_client(query_timeout=0.3) as client:
        far = "999999999999-" + page["next_cursor"].partition("-")[2]
        assert "stopped" in await refusal(client, "read_query", query=ENDLESS_ROWS, cursor=far)


async def test_long_query_reports_progress(sqlite_client: Any) -> None:
    received: list[str] = []
    counted = trio.Event()

    def hear(progress: Progress) -> None:
        received.append(progress.message or "")
        if ", 0 steps" not in received[-1]:
            counted.set()

    async with sqlite_client() as client, trio.open_nursery() as nursery:
        nursery.start_soon(partial(client.call_tool, "read_query", {"query": ENDLESS}, progress=hear))
        await counted.wait()
        nursery.cancel_scope.cancel()

    assert all("of at most 30 seconds" in message for message in received)


async def test_number_of_query_processes_is_limited(sqlite_client: Any) -> None:
    async with sqlite_client(max_threads=2, query_timeout=0.2) as client:
        assert not children()  # none is started before it is needed
        async with trio.open_nursery() as nursery:
            for _ in range(6):
                nursery.start_soon(client.call_tool, "read_query", {"query": ENDLESS})
            await until(is_at_work)
            assert len(children()) <= 2
        await until(lambda: not is_at_work())
        assert len(children()) <= 2
    assert not children()


@pytest.mark.parametrize("ends", ["deadline", "cancel"])
async def test_process_is_killed_in_a_function_that_cannot_be_interrupted(
    sqlite_client: Any, refusal: Any, call: Any, timed: trio.testing.MockClock, ends: str
) -> None:
    """All processes run it; later calls do not wait for them."""
    async with sqlite_client(max_threads=2, query_timeout=30, max_value_bytes=ROOM) as client:
        await call(client, "read_query", query="SELECT 1")
        [idle] = children()
        at_work = peak_of(idle) + ROOM
        with trio.fail_after(90):  # less than one function call takes
            async with trio.open_nursery() as nursery:
                for _ in range(2):
                    if ends == "deadline":
                        nursery.start_soon(lambda: refusal(client, "read_query", query=f"SELECT {ONE_STEP}"))
                    else:
                        nursery.start_soon(client.call_tool, "read_query", {"query": f"SELECT {ONE_STEP}"})
                await until(lambda: [peak_of(child) > at_work for child in children()] == [True, True])
                if ends == "cancel":
                    nursery.cancel_scope.cancel()
                else:
                    timed.jump(30)
            assert (await call(client, "read_query", query="SELECT 1"))["items"] == [[1]]


async def test_killed_writer_changes_nothing_and_readers_continue(
    sqlite_client: Any, refusal: Any, call: Any, rows_in: Any, shop: Path, timed: trio.testing.MockClock
) -> None:
    """The earlier rows have overflown the cache, so the file contains half of them and a hot journal."""
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 8000) "
    query = f"INSERT INTO customers(name) {rows} SELECT iif(i < 8000, hex(zeroblob(500)) || i, {ONE_STEP}) FROM n"
    settings = {"writable": ("shop",), "query_timeout": 30, "max_value_bytes": ROOM}
    async with sqlite_client(**settings) as client, trio.open_nursery() as nursery:
        messages: list[str] = []

        async def change() -> None:
            messages.append(await refusal(client, "write_query", query=query))
            finished.set()

        finished = trio.Event()
        nursery.start_soon(change)
        await until(lambda: shop.stat().st_size > 2**20)
        await trio.sleep(0.5)  # for the rows that are left
        timed.jump(30)
        await finished.wait()
        assert "nothing was changed" in messages[0]
        assert (await call(client, "read_query", query="SELECT count(*) FROM customers"))["items"] == [[3]]
        await call(client, "write_query", query="INSERT INTO customers(name) VALUES ('after')")
    assert rows_in("SELECT count(*) FROM customers") == [(4,)]
    assert [path.name for path in shop.parent.iterdir()] == [shop.name]


async def test_memory_of_a_query_is_limited(sqlite_client: Any, refusal: Any, call: Any) -> None:
    columns = ", ".join(["randomblob(4000000)"] * 200)
    async with sqlite_client(max_memory_bytes=64 * 2**20, max_threads=1) as client:
        message = await refusal(client, "read_query", query=f"SELECT {columns}")
        assert "max_memory_bytes" in message
        assert (await call(client, "read_query", query="SELECT 1"))["items"] == [[1]]
        assert (await call(client, "read_query", query="SELECT length(randomblob(4000000))"))["items"] == [[4000000]]
        assert all(peak_of(child) < 100 * 2**20 for child in children())


async def test_temporary_files_of_a_query_are_limited(sqlite_client: Any, refusal: Any, call: Any) -> None:
    rows = "WITH RECURSIVE n(i) AS (SELECT 1 UNION ALL SELECT i + 1 FROM n WHERE i < 20000) "
    query = f"{rows} SELECT substr(r, 1, 1) FROM (SELECT randomblob(1000) AS r FROM n ORDER BY r) LIMIT 1"
    async with sqlite_client(max_temp_bytes=4 * 2**20) as client:
        assert "max_temp_bytes" in await refusal(client, "read_query", query=query)
        assert (await call(client, "read_query", query="SELECT 1"))["items"] == [[1]]
    async with sqlite_client() as client:
        assert len((await call(client, "read_query", query=query))["items"]) == 1


async def test_killed_query_process_fails_one_call_only(sqlite_client: Any, refusal: Any, call: Any) -> None:
    async with sqlite_client() as client:
        await call(client, "read_query", query="SELECT 1")
        [child] = children()
        async with trio.open_nursery() as nursery:
            messages: list[str] = []

            async def query() -> None:
                messages.append(await refusal(client, "read_query", query=ENDLESS))

            # The child may still be ending the previous query. Once it sleeps, it is free for this one.
            await until(lambda: children()[child] == "S")
            nursery.start_soon(query)
            await until(is_at_work)
            os.kill(child, signal.SIGKILL)
        assert "SIGKILL" in messages[0]
        assert (await call(client, "read_query", query="SELECT 1"))["items"] == [[1]]
        [another] = children()
        os.kill(another, signal.SIGKILL)  # while it is idle
        # Its command line is empty shortly before it can be waited for.
        await until(lambda: os.waitid(os.P_PID, another, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None)
        assert (await call(client, "read_query", query="SELECT 1"))["items"] == [[1]]


@pytest.mark.skipif(sys.platform != "linux", reason="looks into /proc")
async def test_query_processes_end_when_the_server_is_killed(shop: Path) -> None:
    code = f"""
import sys, trio
from pathlib import Path
from mcptrio import Server, connect
from mcptrio_sqlite import Config, objects
async def main():
    config = Config(databases={{"shop": Path({str(shop)!r})}}, max_value_bytes={ROOM})
    async with connect(Server(plugins=objects(config))) as client:
        await client.call_tool("read_query", {{"query": "SELECT 1"}})
        async with trio.open_nursery() as nursery:
            nursery.start_soon(client.call_tool, "read_query", {{"query": {f"SELECT {ONE_STEP}"!r}}})
            nursery.start_soon(client.call_tool, "read_query", {{"query": "SELECT 1"}})
            await trio.sleep_forever()
trio.run(main)
"""
    environ = {**os.environ, "PYTHONPATH": os.pathsep.join(path for path in sys.path if path)}
    server = subprocess.Popen([sys.executable, "-c", code], env=environ)  # noqa: ASYNC220 - the test kills it
    try:
        await until(lambda: "R" in children(server.pid).values() and len(children(server.pid)) == 2)
        found = list(children(server.pid))
    finally:
        server.kill()
        server.wait()
    await until(lambda: all(is_gone(child) for child in found))
