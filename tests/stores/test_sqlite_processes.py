"""Several processes share the stores in one file: they see each other's sessions, events and messages."""

from __future__ import annotations

import os
import subprocess
import sys
from functools import partial
from pathlib import Path
from socket import gethostname

import trio

from mcptrio.stores.sqlite import open_sqlite_stores

from .test_sqlite import PATIENT, datas, ended, file, until

__all__ = ["file"]

OTHER = """
import sys, trio
from mcptrio import Server
from mcptrio.abc import SessionRecord, StoredEvent
from mcptrio.stores.sqlite import SQLiteBounds, open_sqlite_stores

async def main():
    async with open_sqlite_stores(sys.argv[1], SQLiteBounds(busy_timeout=60)) as stores:
        await stores.sessions.save(SessionRecord(id="theirs", revision="a revision"))
        for n in range(20):
            event = await stores.events.append("a", f"theirs{n % 2}", b"%d" % n, will=b"gone")
        print(event.id, flush=True)
        await trio.to_thread.run_sync(sys.stdin.readline)
        await stores.events.append("a", "theirs0", b"more")
        await stores.events.put("a", b"an answer")
        stores.bus.publish("t", b"theirs")
        print("more", flush=True)
        await trio.sleep_forever()

trio.run(main)
"""


async def test_two_processes_share_a_file(file: Path) -> None:
    news: list[tuple[str, bytes | None]] = []
    with trio.fail_after(120):
        async with open_sqlite_stores(file, PATIENT) as stores, trio.open_nursery() as nursery:
            await stores.events.append("a", "ours", b"1", will=b"not yet")

            async def not_alone() -> bool:
                return stores.status().replicas == 2

            async def heard() -> bool:
                return {("session:a", b"wake theirs0"), ("session:a", b"inbox"), ("t", b"theirs")} <= {*news}

            assert stores.bus is not None
            for topic in ("session:a", "t"):
                stores.bus.follow(topic, lambda message, topic=topic: news.append((topic, message)))
            command = [sys.executable, "-c", OTHER, str(file)]
            run = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False)
            process = await nursery.start(run)
            received = b""
            while not received.endswith(b"\n"):
                received += await process.stdout.receive_some()
            assert received == b"theirs1/9\n"
            assert await stores.sessions.load("theirs") is not None
            assert (await stores.events.read("a", "theirs0", 10)) == ([], False)
            # By now it is known that another process listens.
            await until(not_alone)
            live = stores.status().live
            assert [(each.host, each.process) for each in live] == [
                (gethostname(), id) for id in (os.getpid(), process.pid)
            ]
            assert all(each.age is not None and each.heartbeat is None for each in live)
            await trio.sleep(0.6)
            news.clear()
            await process.stdin.send_all(b"\n")
            await until(heard)
            assert datas(await stores.events.read("a", "theirs0", 10)) == ([b"more"], False)
            assert await stores.events.inbox("a", 0) == ([b"an answer"], 1)
            process.kill()
            await until(ended("theirs1", stores))

            assert datas(await stores.events.read("a", "theirs0", 10)) == ([b"more", b"gone"], True)
            assert datas(await stores.events.read("a", "ours", 0)) == ([b"1"], False)
            assert len([name for name in os.listdir(file.parent) if name.endswith(".lock")]) == 1
            await process.stdin.aclose()
            await process.stdout.aclose()
            nursery.cancel_scope.cancel()


async def test_two_that_open_a_new_file_at_once(file: Path) -> None:
    async def use(number: int) -> None:
        async with open_sqlite_stores(file, PATIENT) as stores:
            await stores.events.append("a", f"x{number}", b"1", last=True)

    async with trio.open_nursery() as nursery:
        for number in range(4):
            nursery.start_soon(use, number)
    async with open_sqlite_stores(file) as stores:
        for number in range(4):
            assert datas(await stores.events.read("a", f"x{number}", 0)) == ([b"1"], True)
