"""A process that uses the tasks of a store, for tests that kill or stop it. Each line of its input is a command.

``claim TOOL LIMIT`` and ``create ID TOOL`` answer with the id and the fence of a task that it then holds; ``save``
saves the last one with ``held``, ``end`` ends it; ``race TOOL LIMIT COUNT`` claims from many Trio tasks at once.
"""

from __future__ import annotations

import json
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from typing import Any

import trio
from attrs import evolve

from mcptrio.abc import TaskRecord, TaskState, TaskStore
from mcptrio.stores import StoreSettings, open_stores

__all__ = ["TaskProcess", "task_process"]

ANSWER_TIMEOUT = 60.0


class TaskProcess:
    def __init__(self, process: trio.Process) -> None:
        self.process = process
        self._received = b""

    async def ask(self, words: str) -> str:
        await self.say(words)
        return await self.answer()

    async def say(self, words: str) -> None:
        assert self.process.stdin is not None
        await self.process.stdin.send_all(words.encode() + b"\n")

    async def answer(self) -> str:
        assert self.process.stdout is not None
        with trio.fail_after(ANSWER_TIMEOUT):
            while b"\n" not in self._received:
                data = await self.process.stdout.receive_some()
                assert data, "the process has ended"
                self._received += data
        line, _, self._received = self._received.partition(b"\n")
        return line.decode()


@asynccontextmanager
async def task_process(url: str, **settings: Any) -> AsyncIterator[TaskProcess]:
    """Start a process, and kill it at the end."""
    command = [sys.executable, "-m", "tests.stores.task_process", url, json.dumps(settings)]
    async with trio.open_nursery() as nursery:
        run = partial(trio.run_process, command, stdin=subprocess.PIPE, stdout=subprocess.PIPE, check=False)
        process: trio.Process = await nursery.start(run)
        try:
            made = TaskProcess(process)
            assert await made.answer() == "ready"
            yield made
        finally:
            process.kill()
            with trio.CancelScope(shield=True):
                for stream in (process.stdin, process.stdout):
                    assert stream is not None
                    await stream.aclose()


def described(record: TaskRecord | None) -> str:
    return "none" if record is None else f"{record.id} {record.fence}"


async def race(tasks: TaskStore, tool: str, limit: int, count: int) -> str:
    results: list[str] = []

    async def claim() -> None:
        record = await tasks.claim({tool: limit})
        if record is not None:
            results.append(record.id)

    async with trio.open_nursery() as nursery:
        for _ in range(count):
            nursery.start_soon(claim)
    return " ".join(results)


async def serve(url: str, settings: str) -> None:
    async with open_stores(url, StoreSettings(**json.loads(settings))) as stores:
        tasks = stores.tasks
        assert tasks is not None
        held: TaskRecord | None = None
        print("ready", flush=True)
        while line := await trio.to_thread.run_sync(sys.stdin.readline, abandon_on_cancel=True):
            answer = ""
            match line.split():
                case ["claim", tool, limit]:
                    held = await tasks.claim({tool: int(limit)})
                    answer = described(held)
                case ["create", id, tool]:
                    held = await tasks.create(TaskRecord(id=id, tool=tool, state=TaskState.RUNNING, data=b"new"))
                    answer = described(held)
                case [("save" | "end") as word] if held is not None:
                    state = TaskState.ENDED if word == "end" else TaskState.RUNNING
                    saved = await tasks.save(evolve(held, state=state, data=word.encode()), held=True)
                    held = saved or held
                    answer = described(saved)
                case ["race", tool, limit, count]:
                    answer = await race(tasks, tool, int(limit), int(count))
            print(answer, flush=True)


if __name__ == "__main__":
    trio.run(serve, *sys.argv[1:])
