"""A server that mounts another one is killed or stopped while it follows a task. Its next process follows it again."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import ExitStack, contextmanager
from functools import partial
from pathlib import Path

import pytest
import trio

import mcptrio
from mcptrio import MCPError
from mcptrio.client import Form, Handlers
from tests.processes import Served, held_port, serving

__all__: list[str] = []

NEW = "2026-07-28"

PLUGIN = """
from pathlib import Path

import trio
from mcptrio import Context, tool


async def until(name: str) -> None:
    while not Path(name).exists():
        await trio.sleep(0.02)


def note(text: str) -> None:
    with Path("log").open("a") as file:
        file.write(text + "\\n")


@tool(task="required", poll_interval=0.2)
async def dig(ctx: Context) -> str:
    "Dig in a task."
    note("dig")
    try:
        await until("go")
    except trio.Cancelled:
        note("cancelled")
        raise
    return f"{await ctx.ask('Who?', str)} and {await ctx.ask('Who else?', str)}"


@tool
async def walk(ctx: Context) -> str:
    "Walk in a plain call."
    note("walk")
    await until("go")
    return "walked"
"""


@pytest.fixture
def folder(tmp_path: Path) -> Iterator[Path]:
    """A folder with the configuration of a proxy, for a mounted server that runs in it."""
    (tmp_path / "inner.py").write_text(PLUGIN)
    with serving("--http", "--port", "0", "--plugin", "inner.py", cwd=tmp_path) as inner:
        (tmp_path / "mcptrio.toml").write_text(
            "[server.timeouts]\ntask_after = 0.2\n"
            '[stores]\nurl = "sqlite:state.sqlite"\n'
            f'[mount.up]\nurl = "http://127.0.0.1:{inner.port}/mcp"\n'
        )
        yield tmp_path


@contextmanager
def proxies(folder: Path) -> Iterator[Proxies]:
    with held_port() as port, ExitStack() as stack:
        yield Proxies(folder, port, stack)


class Proxies:
    """The processes of the proxy, one after another."""

    def __init__(self, folder: Path, port: int, stack: ExitStack) -> None:
        self.url = f"http://127.0.0.1:{port}/mcp"
        self._start = partial(self._run, folder, port, stack)
        self.current = self._start()

    @staticmethod
    def _run(folder: Path, port: int, stack: ExitStack) -> Served:
        served = stack.enter_context(serving("--http", "--port", str(port), cwd=folder))
        served.until("serving http")
        return served

    def restart(self, how: signal.Signals | None = None) -> None:
        if how is not None:
            self.current.signal(how)
        self.current.end()
        self.current = self._start()


def log(folder: Path) -> list[str]:
    return (folder / "log").read_text().split() if (folder / "log").exists() else []


async def until_logged(folder: Path, line: str) -> None:
    while line not in log(folder):  # noqa: ASYNC110 - another process writes it
        await trio.sleep(0.02)


@pytest.mark.parametrize("how", [signal.SIGKILL, signal.SIGTERM])
async def test_task_of_the_mounted_server_is_picked_up(folder: Path, how: signal.Signals) -> None:
    asked: list[str] = []

    async def fill_in(form: Form) -> dict[str, str]:
        asked.append(form.message)
        if len(asked) == 2:
            await trio.to_thread.run_sync(running.restart, how)
        return {"value": f"{form.message[:-1]}!"}

    with trio.fail_after(60), proxies(folder) as running:
        handlers = Handlers(elicit=fill_in)
        async with mcptrio.connect(running.url, revision=NEW, handlers=handlers) as client:
            async with client.start_tool("up_dig") as call:
                await until_logged(folder, "dig")
                id = await call.detach()
            assert id is not None
            await trio.to_thread.run_sync(running.restart, how)
            (folder / "go").touch()
            result = await client.task(id).result()

    assert result.text == "Who! and Who else!"
    assert log(folder) == ["dig"], "it is neither called again nor cancelled"
    assert asked == ["Who?", "Who else?"], "the first answer is stored"


async def test_plain_call_of_a_killed_proxy_is_not_repeated(folder: Path) -> None:
    with trio.fail_after(60), proxies(folder) as running:
        async with mcptrio.connect(running.url, revision=NEW) as client:
            async with client.start_tool("up_walk") as call:
                id = await call.detach()
            assert id is not None
            await trio.to_thread.run_sync(running.restart, signal.SIGKILL)
            with pytest.raises(MCPError, match="the process that ran this task has ended"):
                await client.task(id).result()

    assert log(folder) == ["walk"]


async def test_plain_call_of_a_stopping_proxy_may_end(folder: Path) -> None:
    """The call cannot be resumed, so the process ends it before its shutdown timeout."""
    with trio.fail_after(60), proxies(folder) as running:
        async with mcptrio.connect(running.url, revision=NEW) as client:
            async with client.start_tool("up_walk") as call:
                id = await call.detach()
            assert id is not None
            running.current.signal(signal.SIGTERM)
            await trio.to_thread.run_sync(running.current.until, "SIGTERM: stopping")
            (folder / "go").touch()
            await trio.to_thread.run_sync(running.restart)

            assert (await client.task(id).result()).text == "walked"
