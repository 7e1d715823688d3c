"""The stores in a file: persistence, transactions, and errors of files."""

from __future__ import annotations

import os
import re
import sqlite3
import stat
from collections.abc import AsyncIterator, Awaitable, Callable, Iterator
from contextlib import asynccontextmanager, closing, contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
import trio
import trio.testing
from attrs import evolve

from mcptrio import Server
from mcptrio.abc import SessionRecord, StoredEvent, Stores
from mcptrio.errors import ConnectionClosed, StoreFailed
from mcptrio.stores.batch_writer import MAX_WAITING
from mcptrio.stores.sqlite import SQLiteBounds, open_sqlite_stores
from mcptrio.stores.sqlite_database import Database, open_database
from mcptrio.stores.sqlite_file import FileBounds
from mcptrio.stores.wall_clock import WallClock

__all__: list[str] = []

RECORD = SessionRecord(id="a", revision="a revision", subscriptions=frozenset({"file:///a"}))
STORED = evolve(RECORD, generation=1)
MARGIN = SQLiteBounds(busy_timeout=0.1)
PATIENT = SQLiteBounds(busy_timeout=60)


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "kept.db"


def datas(found: tuple[list[StoredEvent], bool]) -> tuple[list[bytes], bool]:
    return [event.data for event in found[0]], found[1]


async def until(condition: Callable[[], Awaitable[bool]]) -> None:
    while not await condition():  # noqa: ASYNC110 - a file, or another process, makes it true
        await trio.sleep(0.02)


def change(file: Path, *, mode: int | None = None, content: bytes | None = None, at: int | None = None) -> None:
    if content is not None:
        with file.open("r+b" if at else "wb") as raw:
            raw.seek(at or 0)
            raw.write(content)
    if mode is not None:
        file.chmod(mode)


def content_of(file: Path) -> bytes:
    return file.read_bytes()


# What survives


async def test_everything_is_restored_and_open_streams_have_ended(file: Path) -> None:
    async with open_sqlite_stores(file) as stores:
        await stores.sessions.save(RECORD)
        first = await stores.events.append("a", "done", b"1")
        second = await stores.events.append("a", "done", b"2", last=True)
        await stores.events.append("a", "open", b"1", will=b"restarted")
    async with open_sqlite_stores(file) as stores:
        assert await stores.sessions.load("a") == STORED
        assert await stores.events.after("a", first.id) == ("done", [second], True)
        assert datas(await stores.events.read("a", "open", 0)) == ([b"1", b"restarted"], True)
        with pytest.raises(ConnectionClosed):
            await stores.events.append("a", "open", b"2")
    async with open_sqlite_stores(file) as stores:
        assert datas(await stores.events.read("a", "open", 0)) == ([b"1", b"restarted"], True)
    assert os.listdir(file.parent) == [file.name]


async def test_file_is_for_its_owner_only(file: Path) -> None:
    before = os.umask(0)
    try:
        async with open_sqlite_stores(file) as stores:
            await stores.sessions.save(RECORD)
            modes = {path.name.split("-")[-1]: stat.S_IMODE(path.stat().st_mode) for path in file.parent.iterdir()}
    finally:
        os.umask(before)
    assert len(modes) == 4
    assert set(modes.values()) == {0o600}


async def test_file_that_others_may_read_causes_a_warning(file: Path, caplog: pytest.LogCaptureFixture) -> None:
    async with open_sqlite_stores(file):
        pass
    change(file, mode=0o644)
    async with open_sqlite_stores(file):
        pass

    assert "accessible to other users and contains user data: mode=644" in caplog.text


def ended(stream: str, stores: Stores) -> Callable[[], Awaitable[bool]]:
    async def has_ended() -> bool:
        return (await stores.events.read("a", stream, 0))[1]

    return has_ended


@contextmanager
def locked(file: Path) -> Iterator[None]:
    """Another process writes, and does not finish."""
    other = sqlite3.connect(file, isolation_level=None)
    with closing(other):
        other.execute("BEGIN IMMEDIATE")
        yield
        other.execute("ROLLBACK")


# Committed together


@asynccontextmanager
async def database(file: Path) -> AsyncIterator[Database]:
    async def nothing(_: Database) -> None:
        pass

    bounds = FileBounds(bytes=1 << 30, busy_timeout=60)
    async with open_database(file, bounds=bounds, begin=lambda _: None, watch=nothing, end=lambda _: None) as opened:
        yield opened


def note(text: str) -> Callable[[sqlite3.Connection], str]:
    def work(connection: sqlite3.Connection) -> str:
        connection.execute("INSERT INTO meta VALUES (?, 1)", (text,))
        return text

    return work


def noted(connection: sqlite3.Connection) -> set[str]:
    return {name for (name,) in connection.execute("SELECT name FROM meta")}


async def test_queued_writes_share_one_transaction(file: Path) -> None:
    seen: list[str] = []
    got: list[str] = []
    async with database(file) as opened, trio.open_nursery() as nursery:
        await opened.write(lambda connection: connection.set_trace_callback(seen.append))

        async def write(text: str) -> None:
            got.append(await opened.write(note(text)))

        with locked(file):
            # The first one has its turn, and waits for the lock; the others wait for theirs.
            nursery.start_soon(write, "first")
            await trio.testing.wait_all_tasks_blocked()
            for n in range(99):
                nursery.start_soon(write, str(n))
            await trio.testing.wait_all_tasks_blocked()
    assert len(got) == 100
    assert seen.count("COMMIT") == 3
    assert sum(text.startswith("INSERT") for text in seen) == 100


async def test_failed_write_does_not_fail_the_others(file: Path) -> None:
    outcomes: dict[str, str] = {}
    async with database(file) as opened:
        await opened.write(note("taken"))

        async def write(name: str, text: str) -> None:
            try:
                outcomes[name] = await opened.write(note(text))
            except StoreFailed as error:
                outcomes[name] = str(error)

        async with trio.open_nursery() as nursery:
            for name, text in (("a", "one"), ("b", "taken"), ("c", "two"), ("d", "taken")):
                nursery.start_soon(write, name, text)
        assert await opened.read(noted) == {"taken", "one", "two"}

    assert (outcomes["a"], outcomes["c"]) == ("one", "two")
    assert "UNIQUE constraint failed" in outcomes["b"]
    assert "UNIQUE constraint failed" in outcomes["d"]


async def test_cancelled_write_has_happened_as_a_whole_or_not(file: Path) -> None:
    async with database(file) as opened:
        async with trio.open_nursery() as nursery:
            with locked(file):
                for text in ("in its turn", "before its turn"):
                    nursery.start_soon(opened.write, note(text))
                    await trio.testing.wait_all_tasks_blocked()
                nursery.cancel_scope.cancel()
        await opened.write(note("later"))

        assert await opened.read(noted) == {"in its turn", "later"}


async def test_writers_wait_while_too_many_do(file: Path) -> None:
    done: list[str] = []
    async with database(file) as opened, trio.open_nursery() as nursery:

        async def write(text: str) -> None:
            done.append(await opened.write(note(text)))

        with locked(file):
            for n in range(MAX_WAITING + 500):
                nursery.start_soon(write, str(n))
            await trio.testing.wait_all_tasks_blocked()
            assert opened.waiting == MAX_WAITING
    assert len(done) == MAX_WAITING + 500


async def test_readers_do_not_wait_for_a_writer(file: Path) -> None:
    async with open_sqlite_stores(file) as stores:
        await stores.sessions.save(RECORD)
        with locked(file), trio.fail_after(30):
            assert await stores.sessions.load("a") == STORED


async def test_use_that_could_not_be_stored_is_stored_later(file: Path, mock_clock: trio.testing.MockClock) -> None:
    clock = WallClock(monotonic=trio.lowlevel.current_clock().current_time)
    async with open_sqlite_stores(file, SQLiteBounds(idle_timeout=30, busy_timeout=0.1), clock=clock) as stores:
        await stores.sessions.save(RECORD)
        mock_clock.jump(29)
        assert await stores.sessions.load("a") == STORED
        with locked(file), pytest.raises(StoreFailed):
            await stores.sessions.expire()
        mock_clock.jump(2)

        assert await stores.sessions.expire() == []
        assert await stores.sessions.load("a") == STORED


@pytest.mark.parametrize("cancelled", [False, True])
async def test_nothing_is_lost_when_many_append_at_once(file: Path, cancelled: bool) -> None:
    """Positions have no gaps, in spite of cancellations."""
    async with open_sqlite_stores(file) as stores:
        got: dict[str, list[str]] = {}

        async def append(stream: str) -> None:
            for n in range(20):
                event = await stores.events.append("s", stream, b"%d" % n)
                got.setdefault(stream, []).append(event.id)

        async with trio.open_nursery() as nursery:
            for n in range(50):
                nursery.start_soon(append, f"x{n}")
            if cancelled:
                while sum(map(len, got.values())) < 300:
                    await trio.lowlevel.checkpoint()
                nursery.cancel_scope.cancel()
        for stream, ids in got.items():
            events, _ = await stores.events.read("s", stream, 0)
            assert [event.id for event in events][: len(ids)] == ids
            assert [event.data for event in events] == [b"%d" % n for n in range(len(events))]
            assert len(events) - len(ids) in ((0, 1) if cancelled else (0,))
        assert len(got) == 50


async def test_long_stream_is_read_in_parts(file: Path) -> None:
    async with open_sqlite_stores(file) as stores:
        for n in range(600):
            await stores.events.append("s", "x", b"%d" % n, last=n == 599)
        await stores.events.append("s", "large", b"." * 5_000_000)
        await stores.events.append("s", "large", b"." * 5_000_000, last=True)
        cursor, came, complete = "x/0", [b"0"], False
        while not complete:
            found = await stores.events.after("s", cursor)
            assert found is not None
            _, events, complete = found
            assert 0 < len(events) < 600
            came += [event.data for event in events]
            cursor = events[-1].id

        assert came == [b"%d" % n for n in range(600)]
        events, complete = await stores.events.read("s", "large", 0)
        assert (len(events), complete) == (1, False)


# Errors


@asynccontextmanager
async def full(file: Path) -> AsyncIterator[tuple[Stores, int]]:
    """Stores whose file is full, and how many events fitted."""
    async with open_sqlite_stores(file, SQLiteBounds(file_bytes=400_000)) as stores:
        await stores.sessions.save(RECORD)
        appended = 0
        problem = ""
        while not problem:
            try:
                await stores.events.append("a", "x", b"." * 10_000, will=b"gone")
                appended += 1
            except StoreFailed as error:
                problem = str(error)
        assert "the disk is full, or the file has reached its size limit (SQLITE_FULL)" in problem
        yield stores, appended


async def test_full_disk_fails_writes_only(file: Path) -> None:
    async with full(file) as (stores, appended):
        events, complete = await stores.events.read("a", "x", 0)
        assert (len(events), complete) == (appended, False)
        assert appended > 10
        assert await stores.sessions.load("a") == STORED
        await stores.events.drop("a")
        await stores.events.append("a", "y", b"." * 10_000)
    assert len(content_of(file)) <= 400_000


async def test_stream_that_cannot_be_ended_is_ended_as_soon_as_it_can(file: Path) -> None:
    async with open_sqlite_stores(file, MARGIN) as stores:
        await stores.events.append("a", "x", b"1", will=b"gone")
        with locked(file):
            with pytest.raises(StoreFailed, match="locked"):
                await stores.events.settle("a", "x")
            assert datas(await stores.events.read("a", "x", 0)) == ([b"1"], False)
        with trio.fail_after(60):
            await until(ended("x", stores))
        assert datas(await stores.events.read("a", "x", 0)) == ([b"1", b"gone"], True)


@pytest.mark.parametrize(
    ("content", "problem"),
    [
        (b"not a database at all" * 100, "is damaged, or no SQLite database"),
        (b"SQLite format 3\0" + b"\xff" * 4080, "is damaged, or no SQLite database"),
    ],
)
async def test_file_that_is_no_database_is_refused_and_left_alone(file: Path, content: bytes, problem: str) -> None:
    change(file, content=content, mode=0o600)
    with pytest.raises(StoreFailed, match=problem):
        async with open_sqlite_stores(file):
            pass

    assert content_of(file) == content
    assert os.listdir(file.parent) == [file.name]


@pytest.mark.parametrize(
    ("statements", "problem"),
    [
        (("CREATE TABLE recipes (name)",), "got the database of another program"),
        (("PRAGMA user_version=4",), "got the database of another program"),
        ((f"PRAGMA application_id={0x6D637074}", "PRAGMA user_version=4"), "got 4: made by a newer mcptrio"),
        ((f"PRAGMA application_id={0x6D637074}", "PRAGMA user_version=1"), "got 1: made by an older mcptrio"),
    ],
    ids=["another's", "another's empty one", "newer", "older"],
)
async def test_database_that_is_not_ours_is_refused_and_left_alone(
    file: Path, statements: tuple[str, ...], problem: str
) -> None:
    with closing(sqlite3.connect(file)) as theirs:
        for statement in statements:
            theirs.execute(statement)
    before = content_of(file)
    with pytest.raises(StoreFailed, match=problem):
        async with open_sqlite_stores(file):
            pass

    assert content_of(file) == before


async def test_damage_is_reported_where_it_is_found(file: Path) -> None:
    async with open_sqlite_stores(file) as stores:
        await stores.sessions.save(RECORD)
        for n in range(200):
            await stores.events.append("a", "x", b"%d" % n * 100)
    intact = 4 * 4096
    change(file, content=b"\xff" * (len(content_of(file)) - intact), at=intact)
    failures = []
    try:
        async with open_sqlite_stores(file) as stores:
            for id in ("a", "b"):
                try:
                    await stores.sessions.load(id)
                    await stores.events.read("a", "x", 0)
                except StoreFailed as error:
                    failures.append(str(error))
    except StoreFailed as error:
        failures.append(str(error))

    assert failures
    assert all("move it away to begin with an empty one (SQLITE_" in failure for failure in failures)


@pytest.mark.parametrize("place", ["nowhere/kept.db", "."])
async def test_place_where_no_file_can_be(tmp_path: Path, place: str) -> None:
    with pytest.raises(StoreFailed, match=r"cannot be opened|expected a file"):
        async with open_sqlite_stores(tmp_path / place):
            pass


@contextmanager
def harmless() -> Iterator[None]:
    """Run the block as an unprivileged user, if the tests run as root."""
    before = os.geteuid()
    if before == 0:
        os.seteuid(65534)
    try:
        yield
    finally:
        os.seteuid(before)


async def test_file_that_cannot_be_written() -> None:
    with TemporaryDirectory() as folder:
        os.chmod(folder, 0o755)
        file = f"{folder}/kept.db"
        async with open_sqlite_stores(file):
            pass
        for name in os.listdir(folder):
            os.chmod(f"{folder}/{name}", 0o444)
        with harmless(), pytest.raises(StoreFailed, match="cannot be written"):
            async with open_sqlite_stores(file):
                pass


async def test_locked_file_is_reported_as_unreachable(file: Path) -> None:
    async with open_sqlite_stores(file, MARGIN) as stores:
        with locked(file):
            with pytest.raises(StoreFailed, match="another process keeps it locked"):
                await stores.events.append("a", "x", b"1")
            assert not stores.status().is_reachable
        assert (await stores.events.append("a", "x", b"1")).id == "x/0"
        assert stores.status().is_reachable


async def test_operation_of_a_closed_store_is_an_error(file: Path) -> None:
    async with open_sqlite_stores(file) as stores:
        pass
    with pytest.raises(StoreFailed, match="the store is closed"):
        await stores.events.append("a", "x", b"1")


async def test_exception_of_the_body_is_unchanged(file: Path) -> None:
    with pytest.raises(ValueError, match="mine"):
        async with open_sqlite_stores(file):
            raise ValueError("mine")


# Clocks


@pytest.mark.parametrize("step", [-1e9, 1e9], ids=["back", "forward"])
async def test_clock_that_was_set_ends_no_session_and_keeps_none_for_ever(file: Path, step: float) -> None:
    wall, steady = [2e9], [1000.0]
    bounds = SQLiteBounds(idle_timeout=600, event_timeout=600)

    def clock() -> WallClock:
        return WallClock(wall=lambda: wall[0], monotonic=lambda: steady[0])

    async with open_sqlite_stores(file, bounds, clock=clock()) as stores:
        await stores.sessions.save(RECORD)
        event = await stores.events.append("a", "x", b"1", last=True)
    wall[0] += step
    steady[0] = 5.0
    async with open_sqlite_stores(file, bounds, clock=clock()) as stores:
        assert await stores.sessions.expire() == []
        assert await stores.sessions.load("a") == STORED
        await stores.events.append("b", "y", b"1")
        assert await stores.events.read("a", "x", 0) == ([event], True)
        steady[0] += 601
        await stores.events.append("b", "z", b"1")
        assert await stores.events.read("a", "x", 0) == ([], False)
        assert await stores.sessions.load("a") is None
        assert await stores.sessions.expire() == ["a"]


async def test_setting_the_clock_changes_no_age(file: Path) -> None:
    """This holds in the process that has the file open, and in one that opens it later."""
    wall, steady = [2e9], [1000.0]

    def clock() -> WallClock:
        return WallClock(wall=lambda: wall[0], monotonic=lambda: steady[0])

    async with open_sqlite_stores(file, SQLiteBounds(idle_timeout=600), clock=clock()) as one:
        await one.sessions.save(RECORD)
        wall[0] += 1e6
        async with open_sqlite_stores(file, SQLiteBounds(idle_timeout=600), clock=clock()) as two:
            assert await two.sessions.expire() == []
            steady[0] += 599
            assert await two.sessions.load("a") == STORED


async def test_session_that_is_only_used_is_not_expired_by_another_process(file: Path) -> None:
    steady = [1000.0]

    def clock() -> WallClock:
        return WallClock(monotonic=lambda: steady[0])

    bounds = SQLiteBounds(idle_timeout=600)
    async with (
        open_sqlite_stores(file, bounds, clock=clock()) as one,
        open_sqlite_stores(file, bounds, clock=clock()) as two,
    ):
        await one.sessions.save(RECORD)
        for _ in range(10):
            steady[0] += 100
            assert await one.sessions.load("a") == STORED
            # As the HTTP endpoint does every few seconds.
            assert await one.sessions.expire() == await two.sessions.expire() == []


async def test_example_in_the_deployment_guide_opens_its_stores(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    page = (Path(__file__).parents[2] / "docs" / "deployment.md").read_text("utf-8")
    [example] = [each for each in re.findall(r"```python\n(.*?)```", page, re.DOTALL) if "open_stores" in each]
    names: dict[str, Any] = {}
    exec(example, names)
    monkeypatch.chdir(tmp_path)
    async with trio.open_nursery() as nursery:
        # Cancelled as soon as it waits for its file, before it takes a port.
        nursery.start_soon(names["serve"], Server())
        await trio.testing.wait_all_tasks_blocked()
        nursery.cancel_scope.cancel()

    assert os.listdir(tmp_path) == ["sessions.db"]
