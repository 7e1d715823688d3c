"""The clients of the official SDKs through a proxy that sends each request to either of two replicas.

They must see what they see of one process: the expectations are those of tests/clients.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Sequence
from contextlib import ExitStack, asynccontextmanager
from pathlib import Path

import pytest
import trio
from attrs import frozen

from tests.clients.behaviours import MODERN, SSE, Run, expected, runs_of
from tests.clients.running import HERE, problems_in, run_script, serve_command
from tests.node import find_node
from tests.processes import held_port
from tests.replicas.engines import engine_of
from tests.replicas.processes import Replica, nginx

__all__: list[str] = []

REVISIONS = (*SSE, MODERN)
"""The first and the last revision with a handshake, and the one without; tests/clients has all of them."""
PYTHON = runs_of("asyncio", REVISIONS, sse=SSE, routed=True)
TYPESCRIPT = {
    "v1": runs_of("typescript-1", SSE, sse=SSE, routed=True),
    "v2": runs_of("typescript-2", REVISIONS, sse=SSE, routed=True),
}


@frozen
class Service:
    url: str
    replicas: Sequence[Replica]


@asynccontextmanager
async def service(folder: Path) -> AsyncIterator[Service]:
    """Two replicas over Redis, behind nginx. They end in order, or the test fails."""
    hall = folder / "hall"
    hall.mkdir()
    async with engine_of("redis", folder) as engine:
        with ExitStack() as stack:
            front, *ports = [stack.enter_context(held_port()) for _ in range(3)]
            env = {
                "SHARED_FOLDER": str(hall),
                "MCPTRIO_KEYS": "a key that all replicas share",
                "MCPTRIO_SERVER_AUDIENCE": "clients",
                "MCPTRIO_HTTP_SESSION_RATE": "0",
                **engine.settings,
            }
            replicas = []
            for port in ports:
                command = [*serve_command("http"), "--port", str(port), "--store", engine.url]
                each = Replica(command, HERE.parents[1], folder / f"{port}.log", env, port=port)
                each.start()
                stack.callback(each.end)
                replicas.append(each)
            for each in replicas:
                assert await each.until_ready(), each.log.read_text()[-2000:]
            async with nginx(folder, front, ports):
                yield Service(f"http://127.0.0.1:{front}/mcp", replicas)
                for each in replicas:
                    each.signal(signal.SIGTERM)
                for each in replicas:
                    await each.wait()
            assert not [problem for each in replicas for problem in problems_in(each.log)]


async def check(command: Sequence[str | Path], runs: Sequence[Run], folder: Path, subtests: pytest.Subtests) -> None:
    """Run a client's script against two replicas, and compare what it has seen with the expectations."""
    async with service(folder) as served:
        reports = await trio.to_thread.run_sync(run_script, command, runs, served.url, folder / "client.log")
    for run in runs:
        for behaviour, saw in reports[str(run)].items():
            with subtests.test(f"{run} {behaviour}"):
                assert saw == {"saw": expected(behaviour, run)}, saw.get("failed", "")


async def test_python_client_sees_one_server(tmp_path: Path, subtests: pytest.Subtests) -> None:
    await check([sys.executable, "-m", "tests.clients.python_sdk"], PYTHON, tmp_path, subtests)


@pytest.mark.parametrize("version", TYPESCRIPT)
async def test_typescript_client_sees_one_server(version: str, tmp_path: Path, subtests: pytest.Subtests) -> None:
    node, folder = find_node(), HERE / "typescript"
    command = [node.binary, folder / f"{version}.mjs", node.install(folder)]
    await check(command, TYPESCRIPT[version], tmp_path, subtests)
