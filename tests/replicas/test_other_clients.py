"""The clients of the official SDKs and of FastMCP through a proxy that sends each request to either of two replicas.

The expectations are those of tests/clients, where the clients use one process.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import AsyncIterator, Callable, Mapping, Sequence
from contextlib import ExitStack, asynccontextmanager
from functools import partial
from pathlib import Path
from typing import TypeAlias

import pytest
import trio
from attrs import frozen

from tests.clients.behaviours import MODERN, SSE, Run, expected, runs_of
from tests.clients.running import HERE, problems_in, run_script, serve_command
from tests.node import find_node
from tests.processes import held_port
from tests.replicas.engines import engine_of
from tests.replicas.processes import Replica, nginx
from tests.servers.environment import install

__all__: list[str] = []

REVISIONS = (*SSE, MODERN)
"""The first and the last revision with a handshake, and the one without; tests/clients has all of them."""
FASTMCP = HERE.parent / "coming_from" / "fastmcp.txt"
"""The packages of FastMCP, which are no packages of these tests: they would replace some."""

Command: TypeAlias = Callable[[], Sequence[str | Path]]


def python_client() -> Sequence[str | Path]:
    return sys.executable, "-m", "tests.clients.python_sdk"


def fastmcp_client() -> Sequence[str | Path]:
    return install(FASTMCP, ["fastmcp"]), "-m", "tests.clients.fastmcp_client"


def typescript_client(version: str) -> Sequence[str | Path]:
    node, folder = find_node(), HERE / "typescript"
    return node.binary, folder / f"{version}.mjs", node.install(folder)


CLIENTS: Mapping[str, tuple[Command, Sequence[Run]]] = {
    "python": (python_client, runs_of("asyncio", REVISIONS, sse=SSE, routed=True)),
    "fastmcp": (fastmcp_client, runs_of("fastmcp", REVISIONS, sse=SSE, routed=True)),
    "typescript v1": (partial(typescript_client, "v1"), runs_of("typescript-1", SSE, sse=SSE, routed=True)),
    "typescript v2": (partial(typescript_client, "v2"), runs_of("typescript-2", REVISIONS, sse=SSE, routed=True)),
}
"""The command of each client's script, which installs its packages if they are missing, and the runs of the script."""


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


async def test_each_client_sees_one_server(tmp_path: Path, subtests: pytest.Subtests) -> None:
    """One client after the other: some of them watch the same resource."""
    async with service(tmp_path) as served:
        for name, (command, runs) in CLIENTS.items():
            with subtests.test(name):
                script = await trio.to_thread.run_sync(command)
                reports = await trio.to_thread.run_sync(run_script, script, runs, served.url, tmp_path / "client.log")
                for run in runs:
                    for behaviour, saw in reports[str(run)].items():
                        with subtests.test(f"{run} {behaviour}"):
                            assert saw == {"saw": expected(behaviour, run)}, saw.get("failed", "")
