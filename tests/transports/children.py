"""Servers for the tests of the child transport: small scripts, run as real processes.

A script reports events by messages and exit statuses, so that no test has to guess a waiting time.
"""

from __future__ import annotations

import os
import sys
import textwrap
import time
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from mcptrio.protocol.messages import Notification
from mcptrio.transports import child, child_process, child_stderr, line_channel
from mcptrio.transports.child import ChildChannel, ChildTimeouts

__all__ = ["PATIENT", "WAIT_TIMEOUT", "heard", "is_kept", "lives", "patient", "reap", "server"]

WAIT_TIMEOUT = 60.0
"""Seconds; only a failing test waits this long."""
PATIENT = 30.0
"""Timeout of the tested code in these tests, for messages that arrive."""

_BEGIN = """
import json, os, signal, subprocess, sys, time

def say(**params):
    sys.stdout.write(json.dumps({"jsonrpc": "2.0", "method": "said", "params": params}) + "\\n")
    sys.stdout.flush()

def ignore(*numbers):
    for number in numbers:
        signal.signal(number, signal.SIG_IGN)

def echo():
    for line in sys.stdin:
        sys.stdout.write(line)
        sys.stdout.flush()
"""


@pytest.fixture(autouse=True)
def patient(monkeypatch: pytest.MonkeyPatch) -> None:
    """Raise the timeouts: the start and the end of a process take longer on a slow machine."""
    monkeypatch.setattr(child, "ChildTimeouts", lambda: ChildTimeouts(exit=PATIENT, terminate=PATIENT))
    for name in ("EXIT_CODE_TIMEOUT", "STDERR_TIMEOUT", "KILL_TIMEOUT"):
        monkeypatch.setattr(child, name, PATIENT)
    monkeypatch.setattr(child_process, "KILL_TIMEOUT", PATIENT)
    monkeypatch.setattr(child_stderr, "_WRITE_TIMEOUT", PATIENT)
    monkeypatch.setattr(line_channel, "FINISH_TIMEOUT", PATIENT)


def server(folder: Path, code: str = "echo()") -> list[str]:
    """Return the command for a script, which may use ``say``, ``ignore`` and ``echo``."""
    path = folder / f"server{len(list(folder.iterdir()))}.py"
    path.write_text(_BEGIN + textwrap.dedent(code))
    return [sys.executable, "-S", "-E", str(path)]


async def heard(channel: ChildChannel) -> dict[str, Any]:
    """Return the script's next message."""
    (message,) = await channel.receive()
    assert isinstance(message, Notification), message
    return message.params or {}


def lives(pid: int) -> bool:
    """Return whether the process runs; a zombie does not."""
    try:
        return Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0] != "Z"
    except (FileNotFoundError, ProcessLookupError):
        return False


def reap(pid: int) -> None:
    """Wait until a process has ended that is a child of this process, perhaps since its parent has died."""
    deadline = time.monotonic() + WAIT_TIMEOUT
    while lives(pid):
        assert time.monotonic() < deadline, f"process {pid} lives"
        time.sleep(0.01)
    with suppress(ChildProcessError):
        os.waitpid(pid, 0)


def is_kept(pid: int) -> bool:
    """Return whether the process is a zombie child of this process."""
    try:
        return os.waitid(os.P_PID, pid, os.WEXITED | os.WNOHANG | os.WNOWAIT) is not None
    except ChildProcessError:
        return False
