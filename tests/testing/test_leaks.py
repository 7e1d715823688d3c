"""The leak check finds each kind of leak, and reports nothing else."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from mcptrio.testing import Holdings, nothing_left

__all__: list[str] = []

CONFTEST = """
import pytest
from mcptrio.testing import adopt_orphans, nothing_left

adopt_orphans()

@pytest.fixture(autouse=True)
def checked():
    with nothing_left(grace=%g):
        yield
"""

LEAKS = """
import os, socket, subprocess, sys, threading, time
import pytest, trio

kept = []
SLEEP = [sys.executable, "-c", "import time; time.sleep(60)"]

def test_descriptor():
    kept.append(os.open(__file__, os.O_RDONLY))

def test_socket():
    kept.append(socket.socket())

def test_pipe_under_a_number_that_was_in_use():
    os.close(kept[0])
    kept.append(os.pipe())

def test_thread():
    threading.Thread(target=time.sleep, args=(60,), name="leaked-thread", daemon=True).start()

def test_process():
    kept.append(subprocess.Popen(SLEEP, stdin=subprocess.DEVNULL))

def test_orphan():
    subprocess.run(["sh", "-c", '"$0" "$@" >/dev/null 2>&1 & echo', *SLEEP], check=True, stdout=subprocess.DEVNULL)

def test_abandoned_trio_thread():
    begun = threading.Event()
    def work():
        begun.set()
        time.sleep(60)
    async def main():
        async with trio.open_nursery() as nursery:
            nursery.start_soon(lambda: trio.to_thread.run_sync(work, abandon_on_cancel=True))
            await trio.to_thread.run_sync(begun.wait)
            nursery.cancel_scope.cancel()
    trio.run(main)
"""

CLEAN = """
import os, socket, subprocess, sys, threading, time
import pytest, trio

@pytest.fixture(scope="module")
def server():
    with subprocess.Popen([sys.executable, "-c", "import time; time.sleep(60)"]) as process:
        yield process
        process.kill()

def test_all_is_given_back(server):
    with open(__file__), socket.socket(), socket.socket():
        thread = threading.Thread(target=time.sleep, args=(0.01,))
        thread.start()
        subprocess.run([sys.executable, "-c", ""], check=True)
        thread.join()

def test_late_but_gone(server):
    threading.Thread(target=time.sleep, args=(0.2,)).start()

def test_idle_trio_thread():
    trio.run(trio.to_thread.run_sync, time.monotonic)

def test_garbage_in_a_cycle():
    class Holder:
        def __del__(self):
            os.close(self.fd)
    holder = Holder()
    holder.fd, holder.self = os.open(__file__, os.O_RDONLY), holder
"""


pytestmark = pytest.mark.skipif(not Path("/proc/self/fd").exists(), reason="what is held is read from /proc")


@pytest.fixture
def adopted() -> Iterator[None]:
    """End the processes that the inner pytest leaks: they become children of this process when it ends."""
    before = Holdings.now()
    yield
    for id in Holdings.now().processes.keys() - before.processes.keys():
        os.kill(id, signal.SIGKILL)


def run(directory: Path, tests: str, *, grace: float = 30.0) -> tuple[int, str]:
    """Run a test file in a separate pytest; return its exit status and output."""
    (directory / "conftest.py").write_text(CONFTEST % grace)
    (directory / "test_it.py").write_text(tests)
    (directory / "pytest.ini").write_text("[pytest]\n")
    result = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-rE", "-p", "no:cacheprovider", directory],
        cwd=directory,
        env={**os.environ, "COLUMNS": "400"},
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        text=True,
        timeout=180,
        check=False,
    )
    return result.returncode, result.stdout


@pytest.mark.usefixtures("adopted")
def test_each_kind_of_leak_is_found(tmp_path: Path) -> None:
    status, output = run(tmp_path, LEAKS, grace=0.1)
    errors = dict(
        re.findall(r"^ERROR test_it\.py::test_(\w+) - AssertionError: left behind: (.*)$", output, re.MULTILINE)
    )

    assert status == 1, output
    assert set(errors) == set(re.findall(r"def test_(\w+)", LEAKS)), output
    assert "test_it.py" in errors["descriptor"]
    assert "socket:" in errors["socket"]
    assert "pipe:" in errors["pipe_under_a_number_that_was_in_use"]
    assert "leaked-thread" in errors["thread"]
    assert "time.sleep(60)" in errors["process"]
    assert "time.sleep(60)" in errors["orphan"]
    assert "thread" in errors["abandoned_trio_thread"]


def test_closed_resources_are_not_reported_as_leaks(tmp_path: Path) -> None:
    status, output = run(tmp_path, CLEAN)

    assert status == 0, output
    assert "4 passed" in output


def test_resources_opened_before_the_test_are_not_leaks(tmp_path: Path) -> None:
    with open(tmp_path / "a", "w"), nothing_left():
        pass


def test_failing_test_is_not_checked_for_leaks(tmp_path: Path) -> None:
    kept: list[int] = []

    def fail() -> None:
        with nothing_left(grace=0):
            kept.append(os.open(tmp_path, os.O_RDONLY))
            raise KeyError

    with pytest.raises(KeyError):
        fail()
    os.close(kept[0])
