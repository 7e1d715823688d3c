"""``mcptrio serve`` over stdio, sockets and isolated plugins, with a store that the operator names."""

from __future__ import annotations

import os
import signal
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import pytest
import trio

from mcptrio import Client, Command, connect
from tests.processes import environment, run, serving

__all__: list[str] = []

PLUGIN = """
import os
from pathlib import Path

import trio
from mcptrio import Context, tool


@tool(task="required", resumable=True, poll_interval=0.1)
async def dig(ctx: Context) -> str:
    \"\"\"Dig until the file says so.\"\"\"
    await ctx.once(begin)
    Path("pid").write_text(str(os.getpid()))
    while not Path("go").exists():
        await trio.sleep(0.02)
    return f"dug, begun {Path('begun').read_text()}"


async def begin() -> None:
    with Path("begun").open("a") as file:
        file.write("once")


@tool(task="optional")
async def quick() -> str:
    \"\"\"Answer.\"\"\"
    return "quick"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "digging.py").write_text(PLUGIN)
    return tmp_path


def command(folder: Path, *more: str, **env: str) -> Command:
    return Command(
        args=[sys.executable, "-m", "mcptrio", "serve", "--stdio", *more],
        cwd=folder,
        env=environment(**env),
    )


@asynccontextmanager
async def connected(target: Command | str) -> AsyncIterator[Client]:
    with trio.fail_after(60):
        async with connect(target, revision="2026-07-28") as client:
            yield client


async def begin_task(client: Client, folder: Path) -> str:
    """Return the id of a task whose handler runs."""
    created = await client.request("tools/call", {"name": "dig", "arguments": {}})
    while not (folder / "pid").exists():  # noqa: ASYNC110 - another process writes it
        await trio.sleep(0.02)
    return str(created.task_id)


async def resume_task(client: Client, folder: Path, id: str) -> None:
    (folder / "go").touch()
    assert (await client.task(id).result()).text == "dug, begun once"


async def test_task_survives_the_death_of_a_server_over_stdio(folder: Path) -> None:
    target = command(folder, "--plugin", "digging.py", "--store", "sqlite:tasks.sqlite")
    async with connected(target) as client:
        id = await begin_task(client, folder)
        os.kill(int((folder / "pid").read_text()), signal.SIGKILL)
    async with connected(target) as client:
        await resume_task(client, folder, id)


async def test_task_survives_the_end_of_the_input(folder: Path) -> None:
    (folder / "mcptrio.toml").write_text('[stores]\nurl = "sqlite:tasks.sqlite"\n')
    async with connected(command(folder, "--plugin", "digging.py")) as client:
        id = await begin_task(client, folder)
    async with connected(command(folder, "--plugin", "digging.py")) as client:
        await resume_task(client, folder, id)


@pytest.mark.skipif(sys.platform == "win32", reason="Unix sockets")
async def test_task_survives_the_death_of_a_server_on_a_socket(folder: Path) -> None:
    listen = ("--listen", "unix:socket", "--plugin", "digging.py", "--store", "sqlite:tasks.sqlite")
    with serving(*listen, cwd=folder) as first:
        await trio.to_thread.run_sync(first.until, "serving")
        async with connected(f"unix:{folder / 'socket'}") as client:
            id = await begin_task(client, folder)
            first.signal(signal.SIGKILL)
            first.end()
    (folder / "socket").unlink(missing_ok=True)
    with serving(*listen, cwd=folder) as second:
        await trio.to_thread.run_sync(second.until, "serving")
        async with connected(f"unix:{folder / 'socket'}") as client:
            await resume_task(client, folder, id)


async def test_isolated_plugin_leaves_the_store_to_its_parent(folder: Path) -> None:
    """Otherwise a task of the child would wait for workers, which do not know it."""
    (folder / "mcptrio.toml").write_text(
        '[server]\nrun_tasks = "workers"\n[stores]\nurl = "sqlite:tasks.sqlite"\n[plugins.digging]\nisolate = true\n'
    )
    options = ("serve", "--stdio", "--isolated", "--plugin", "digging.py")
    isolated = Command(args=[sys.executable, "-m", "mcptrio", *options], cwd=folder, env=environment())

    async with connected(isolated) as client:
        assert (await client.call_tool("quick")).text == "quick"
    assert not (folder / "tasks.sqlite").exists()


def test_store_that_cannot_be_opened_ends_the_server(folder: Path) -> None:
    result = run("serve", "--stdio", "--plugin", "digging.py", "--store", "sqlite:missing/tasks.sqlite", cwd=folder)

    assert result.returncode != 0
    assert "Traceback" not in result.stderr
    assert "missing/tasks.sqlite" in result.stderr
