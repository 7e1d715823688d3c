"""``mcptrio worker``: servers that queue tasks, workers that run them, and the list of queued tasks for operators."""

from __future__ import annotations

import json
import signal
import sys
from contextlib import AbstractContextManager
from functools import partial
from pathlib import Path

import pytest
import trio

import mcptrio
from mcptrio import Client
from tests.processes import Served, run, serving

__all__: list[str] = []

PLUGIN = """
import os

import trio
from mcptrio import Context, tool


@tool(task="required", resumable=True, poll_interval=0.1)
async def where(ctx: Context) -> str:
    \"\"\"Wait for the file `go`, and return the id of the process that ran this.\"\"\"
    print("working", flush=True, file=__import__("sys").stderr)
    while not os.path.exists("go"):
        await trio.sleep(0.02)
    return str(os.getpid())


@tool(task="optional", poll_interval=0.1)
async def quick() -> str:
    \"\"\"Return the id of the process that ran this.\"\"\"
    return str(os.getpid())
"""


PLAIN = """
from mcptrio import tool


@tool
async def plain() -> str:
    \"\"\"No task.\"\"\"
    return ""
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "yard.py").write_text(PLUGIN)
    (tmp_path / "mcptrio.toml").write_text('[stores]\nurl = "sqlite:state.sqlite"\n')
    return tmp_path


def queueing_server(folder: Path) -> AbstractContextManager[Served]:
    """Start a server that queues tasks and runs none itself."""
    env = {"MCPTRIO_SERVER_RUN_TASKS": "workers"}
    return serving("--http", "--port", "0", "--plugin", "yard.py", cwd=folder, env=env)


def worker(folder: Path) -> AbstractContextManager[Served]:
    return serving(cwd=folder, command=[sys.executable, "-m", "mcptrio", "worker", "--plugin", "yard.py"])


async def wait_until_queued(folder: Path, count: int) -> dict[str, object]:
    """Wait until ``count`` tasks are queued, and return the queue."""
    with trio.fail_after(60):
        while True:
            listing = partial(run, "store", "tasks", "sqlite:state.sqlite", "--json", cwd=folder)
            result = await trio.to_thread.run_sync(listing)
            queues = json.loads(result.stdout)["queues"]
            if queues and queues[0]["queued"] == count:
                [queue] = queues
                assert isinstance(queue, dict)
                return queue


async def test_workers_run_the_tasks_that_a_server_queues(folder: Path) -> None:
    with queueing_server(folder) as server:
        url = f"http://127.0.0.1:{server.port}/mcp"
        results: list[str] = []
        ended = trio.Event()

        async def call(client: Client, name: str) -> None:
            results.append((await client.call_tool(name)).text)
            ended.set()

        async with mcptrio.connect(url, revision="2026-07-28") as client, trio.open_nursery() as nursery:
            nursery.start_soon(call, client, "where")
            queue = await wait_until_queued(folder, 1)
            assert (queue["tool"], queue["running"]) == ("where", 0)
            assert "waiting for tasks" not in server.stderr
            with worker(folder) as first:
                await trio.to_thread.run_sync(first.until, "working")
                # The worker gives the task back when it stops, because another worker can resume it.
                first.signal(signal.SIGTERM)
                code, _ = await trio.to_thread.run_sync(first.end)
                assert code == 0
            await wait_until_queued(folder, 1)
            with worker(folder) as second:
                (folder / "go").touch()
                with trio.fail_after(60):
                    await ended.wait()
                assert results == [str(second.process.pid)]
                assert (await client.call_tool("quick")).text == str(second.process.pid)
        result = run("store", "tasks", "sqlite:state.sqlite", cwd=folder)
        assert result.stdout.strip() == "no tasks are queued or running"


@pytest.mark.parametrize(
    ("arguments", "expected"),
    [
        (("worker", "--plugin", "yard.py", "--store", "memory"), "expected a store that servers share, got memory"),
        (
            ("worker", "--plugin", "plain.py"),
            'expected a tool with task="optional" or "required" in a plugin, got none',
        ),
    ],
)
def test_worker_names_its_missing_settings(folder: Path, arguments: tuple[str, ...], expected: str) -> None:
    (folder / "plain.py").write_text(
        'from mcptrio import tool\n\n\n@tool\nasync def plain() -> str:\n    """No task."""\n'
    )

    result = run(*arguments, cwd=folder)

    assert result.returncode in (1, 2)
    assert expected in " ".join(result.stderr.split())


def test_server_without_a_store_does_not_leave_tasks_to_workers(folder: Path) -> None:
    (folder / "mcptrio.toml").write_text('[server]\nrun_tasks = "workers"\n')

    result = run("serve", "--http", "--port", "0", "--plugin", "yard.py", cwd=folder)

    assert result.returncode == 2
    assert "mcptrio.toml:2: server.run_tasks: expected a store that workers share, got memory" in " ".join(
        result.stderr.split()
    )
