"""A server as a whole process on standard input and output, as hosts start it."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest
import trio

from tests.interaction.applies import REVISIONS
from tests.interaction.client import CAPABILITIES, VERSION, Peer
from tests.interaction.wires import PipeWire

ROOT = Path(__file__).resolve().parent.parent.parent

PLUGIN = '''
import logging, sys, trio
from contextlib import asynccontextmanager
from mcptrio import Context, hookimpl, tool

print("stray: imported")

@hookimpl
def lifespan(server):
    return live()

@asynccontextmanager
async def live():
    yield
    print("lifespan left", file=sys.stderr)

@tool
async def echo(text: str) -> str:
    """Echo."""
    print("stray: called", flush=True)
    return text

@tool
async def wait(ctx: Context, seconds: float) -> str:
    """Wait."""
    await ctx.report_progress(1)
    await trio.sleep(seconds)
    return "waited"

@tool
async def ask(ctx: Context) -> str:
    """Ask."""
    return await ctx.ask("Name?", str)
'''


@asynccontextmanager
async def _process(tmp_path: Path, revision: str, **options: Any) -> AsyncIterator[tuple[Peer, trio.Process]]:
    plugin = tmp_path / "plugin.py"
    plugin.write_text(PLUGIN)
    command = [sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin", str(plugin)]
    env = os.environ | {"MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN": "600"}
    async with trio.open_nursery() as nursery:
        process = await trio.lowlevel.open_process(
            command, cwd=ROOT, env=env, stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        assert isinstance(process.stdin, trio.lowlevel.FdStream)
        assert isinstance(process.stdout, trio.lowlevel.FdStream)
        peer = Peer(
            revision=revision,
            wire=PipeWire(process.stdout, process.stdin),
            nursery=nursery,
            capabilities={"elicitation": {}},
            answers={"elicitation/create": lambda params: {"action": "accept", "content": {"value": "Ann"}}},
            seconds=60,
            **options,
        )
        try:
            await nursery.start(peer.run)
            with trio.fail_after(150):
                await peer.begin()
                yield peer, process
        finally:
            with trio.CancelScope(shield=True), trio.move_on_after(30):
                process.kill()
                await process.wait()
                await peer.wire.aclose()  # type: ignore[union-attr]
                assert process.stderr is not None
                await process.stderr.aclose()
        nursery.cancel_scope.cancel()


async def _errors(process: trio.Process) -> str:
    assert process.stderr is not None
    text = b""
    async for chunk in process.stderr:
        text += chunk
    return text.decode()


@pytest.mark.parametrize("revision", REVISIONS[-2:])
async def test_process_serves_until_its_input_ends(tmp_path: Path, revision: str) -> None:
    async with _process(tmp_path, revision) as (peer, process):
        assert await peer.text("echo", {"text": "a"}) == "a"
        assert isinstance(peer.wire, PipeWire)
        await peer.wire.half_close()
        errors = await _errors(process)

        assert await process.wait() == 0
        assert "lifespan left" in errors
        assert "stray: imported" in errors
        assert "stray: called" in errors


async def test_both_eras_are_served_by_one_process(tmp_path: Path) -> None:
    async with _process(tmp_path, "2025-11-25") as (peer, _):
        modern = await peer.call("echo", {"text": "a"}, meta={VERSION: "2026-07-28", CAPABILITIES: {}})
        asked = await peer.text("ask")

        assert modern["resultType"] == "complete"
        assert asked == "Ann"


async def test_running_calls_finish_after_sigterm(tmp_path: Path) -> None:
    async with _process(tmp_path, "2026-07-28") as (peer, process):
        call = await peer.start_call("wait", {"seconds": 0.3}, meta={"progressToken": 1})
        await peer.until("notifications/progress")

        process.send_signal(signal.SIGTERM)

        assert (await call.result())["content"][0]["text"] == "waited"
        await peer.ended.wait()
        assert await process.wait() == 0


async def test_second_signal_ends_the_process_at_once(tmp_path: Path) -> None:
    async with _process(tmp_path, "2026-07-28") as (peer, process):
        await peer.start_call("wait", {"seconds": 1000}, meta={"progressToken": 1})
        await peer.until("notifications/progress")

        process.send_signal(signal.SIGTERM)
        while "error" not in await (await peer.start("tools/list")).wait():
            pass  # the process has not handled the first signal yet
        process.send_signal(signal.SIGTERM)

        with trio.fail_after(60):
            assert await process.wait() != 0


async def test_invalid_input_does_not_end_the_process(tmp_path: Path) -> None:
    async with _process(tmp_path, "2025-11-25") as (peer, _):
        for line in (b"", b"{", b"\xff\xfe\x00", b"[]", b"null", os.urandom(64).replace(b"\n", b"")):
            await peer.send_bytes(line)

        assert await peer.text("echo", {"text": "a"}) == "a"
