"""docs/tasks.md: its commands run unchanged, and a killed server loses nothing."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from contextlib import AbstractContextManager
from pathlib import Path

import pytest

from tests.processes import WAIT_TIMEOUT, Served, environment, held_port, serving
from tests.test_readme import blocks_of

__all__: list[str] = []

PAGE = (Path(__file__).resolve().parents[1] / "docs" / "tasks.md").read_text("utf-8")
BLOCKS = list(blocks_of(PAGE, "docs/tasks.md"))
SCRIPTS = f"{Path(sys.executable).parent}{os.pathsep}{os.environ['PATH']}"
SERVE, WORK = (block.text for block in BLOCKS if block.language == "sh")
CALL, QUEUE = (block.text for block in BLOCKS if block.language == "console")


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    plugin = next(block.text for block in BLOCKS if block.language == "python")
    (tmp_path / "survey.py").write_text(plugin)
    return tmp_path


def started(script: str, folder: Path, port: str = "0") -> AbstractContextManager[Served]:
    return serving(
        command=["bash", "-c", f"exec {script}"], cwd=folder, env={"PATH": SCRIPTS, "MCPTRIO_HTTP_PORT": port}
    )


def start_call(example: str, folder: Path, port: int, hectares: int = 3) -> subprocess.Popen[str]:
    [command] = re.findall(r"^\$ (.*)$", example, re.MULTILINE)
    command = command.replace("127.0.0.1:8000", f"127.0.0.1:{port}").replace("hectares=3", f"hectares={hectares}")
    return subprocess.Popen(
        ["bash", "-c", command],
        cwd=folder,
        env=environment(PATH=SCRIPTS),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        text=True,
    )


def output(process: subprocess.Popen[str]) -> str:
    printed, errors = process.communicate(timeout=WAIT_TIMEOUT)
    assert process.returncode == 0, errors
    return printed.strip()


def shown(example: str) -> str:
    return "\n".join(line for line in example.splitlines() if not line.startswith("$ "))


def until_counted(folder: Path, hectares: int) -> None:
    deadline = time.monotonic() + WAIT_TIMEOUT
    file = folder / "counted.txt"
    while not file.exists() or len(file.read_text().split()) < hectares:
        assert time.monotonic() < deadline, "the server counts nothing"
        time.sleep(0.02)


def test_call_survives_a_killed_server_and_repeats_nothing_that_is_stored(folder: Path) -> None:
    with held_port() as port:
        pass
    with started(SERVE, folder, str(port)) as server:
        server.until("serving")
        assert output(start_call(CALL, folder, port)) == shown(CALL)
        (folder / "counted.txt").unlink()
        call = start_call(CALL, folder, port, hectares=8)
        until_counted(folder, 3)
        server.signal(signal.SIGKILL)
        server.end()
    with started(SERVE, folder, str(port)):
        printed = output(call)
    counted = (folder / "counted.txt").read_text().split()
    assert printed == "3600 trees"
    assert sorted({*counted}) == [f"{hectare}" for hectare in range(1, 9)]
    assert len(counted) <= 9, "what is stored is not counted again"


def test_worker_runs_what_a_server_queues(folder: Path) -> None:
    configuration, _ = [block.text for block in BLOCKS if block.language == "toml"]
    (folder / "mcptrio.toml").write_text(configuration)
    with started(SERVE, folder) as server, started(WORK, folder) as worker:
        worker.until("waiting for tasks")
        port = int(server.until(r"serving http://[^/]+:(\d+)/mcp")[1])
        assert output(start_call(CALL, folder, port)) == shown(CALL)
    result = subprocess.run(
        ["bash", "-c", QUEUE.splitlines()[0].removeprefix("$ ")],
        cwd=folder,
        env=environment(PATH=SCRIPTS),
        capture_output=True,
        text=True,
        timeout=WAIT_TIMEOUT,
        check=True,
    )
    assert result.stdout.strip() == shown(QUEUE)
