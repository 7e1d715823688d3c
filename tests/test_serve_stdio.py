"""``mcptrio serve --stdio`` as a process: how it ends, and that nothing but the protocol is on its standard output."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.processes import HELLO, WAIT_TIMEOUT, Served, line, serving

__all__: list[str] = []

ROOT = Path(__file__).resolve().parent.parent
STOPS = [signal.SIGTERM, signal.SIGINT]

PLUGIN = '''
import ctypes, os, subprocess, sys, threading, time
from contextlib import asynccontextmanager

import trio
from mcptrio import hookimpl, tool

print("printed at import")
os.system("echo echoed at import")
if os.environ.get("SLOW_IMPORT"):
    print("importing", file=sys.stderr, flush=True)
    time.sleep(float(os.environ["SLOW_IMPORT"]))


@hookimpl
def lifespan(server):
    @asynccontextmanager
    async def live():
        print("entering", flush=True)
        if os.environ.get("ENTER_HANGS"):
            await trio.sleep_forever()
        async with trio.open_nursery() as nursery:
            yield
            print("leaving", file=sys.stderr, flush=True)
            if os.environ.get("EXIT_HANGS"):
                with trio.CancelScope(shield=True):
                    await trio.sleep_forever()
            await trio.sleep(0)
            print("left", file=sys.stderr, flush=True)

    return live()


@tool
async def nap(seconds: float = 0, until: str = "") -> str:
    """Sleep, maybe until there is a file, and say so."""
    print("napping", file=sys.stderr, flush=True)
    await trio.sleep(seconds)
    while until and not os.path.exists(until):
        await trio.sleep(0.02)
    return "slept"


@tool
def doze(seconds: float) -> str:
    """Sleep in a thread, which cannot be cancelled."""
    print("dozing", file=sys.stderr, flush=True)
    time.sleep(seconds)
    return "dozed"


@tool
async def block(seconds: float) -> str:
    """Do what no tool should: hold the event loop up."""
    print("blocking", file=sys.stderr, flush=True)
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        time.sleep(0.01)
    return "blocked"


@tool
async def noise() -> str:
    """Write to standard output in every way there is."""
    print("printed by Python")
    sys.stdout.write("written by Python")
    os.write(1, b"written by the system")
    ctypes.CDLL(None).puts(b"put by C")
    subprocess.run(["echo", "echoed by a child"])
    threading.Thread(target=print, args=("printed by a thread",)).start()
    return "quiet"


@tool
async def crash() -> str:
    """End the process, if only one could."""
    sys.exit(3)
'''


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    (tmp_path / "own.py").write_text(PLUGIN)
    return tmp_path


@pytest.fixture
def served(folder: Path) -> Iterator[Served]:
    """A server after its handshake."""
    with serving("--stdio", "--plugin=own.py", cwd=folder, env={"MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN": "4"}) as served:
        served.greet()
        yield served


def test_initialize_is_answered_soon(folder: Path) -> None:
    """A busy machine gets several attempts; a server that waits for something is too slow each time."""
    took: list[float] = []
    while not took or (took[-1] >= 3 and len(took) < 20):
        began = time.monotonic()
        with serving("--stdio", "--plugin=own.py", cwd=folder) as served:
            assert served.greet()["protocolVersion"] == "2025-11-25"
            took.append(time.monotonic() - began)

    assert took[-1] < 3, took


# The end of the input


def test_server_ends_with_its_input(folder: Path) -> None:
    """It ends at once if no request is in flight."""
    with serving("--stdio", "--plugin=own.py", cwd=folder, env={"MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN": "600"}) as served:
        served.greet()
        served.close_input()

        assert served.rest() == []
        assert served.end()[0] == 0
        assert "leaving\nleft\n" in served.stderr


def test_calls_finishing_in_time_after_end_of_input_are_answered(served: Served, folder: Path) -> None:
    short, long, thread = (
        served.start_call("nap", until="woken"),
        served.start_call("nap", seconds=600),
        served.start_call("doze", seconds=600),
    )
    served.until("napping\n(.*\n)*napping")
    served.until("dozing")
    served.close_input()
    (folder / "woken").touch()
    answers = served.rest()

    assert [each["result"]["content"][0]["text"] for each in answers if each["id"] == short] == ["slept"]
    assert not [each for each in answers if each["id"] in (long, thread) and "result" in each]
    assert served.end()[0] == 0
    assert "left" in served.stderr


def test_requests_right_before_the_end_of_input_are_answered(folder: Path) -> None:
    """The input is like that from a file or a here-document."""
    list_tools = {"jsonrpc": "2.0", "id": 1, "method": "tools/list", "params": {}}
    with serving("--stdio", "--plugin=own.py", cwd=folder) as served:
        served.send(HELLO, {"jsonrpc": "2.0", "method": "notifications/initialized"}, list_tools)
        served.close_input()

        assert [each["id"] for each in served.rest()] == [0, 1]
        assert served.end()[0] == 0


def test_server_ends_when_its_parent_process_ends(folder: Path) -> None:
    """All three descriptors of a dead client are broken; the exit code is still that of a proper end."""
    parent = f"""
import json, os, subprocess, sys
child = subprocess.Popen(
    [sys.executable, "-c", "import os, sys; code = os.spawnv(os.P_WAIT, sys.executable, sys.argv[1:]);"
     "open('code', 'w').write(str(code))", sys.executable, "-m", "mcptrio", "serve", "--stdio", "--plugin=own.py"],
    env=os.environ | {{"MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN": "1"}},
    stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.PIPE)
child.stdin.write({line(HELLO)!r}); child.stdin.flush()
child.stdout.readline()
params = {{"name": "nap", "arguments": {{"seconds": 600}}}}
nap = {{"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": params}}
child.stdin.write(json.dumps(nap).encode() + b"\\n"); child.stdin.flush()
os._exit(0)
"""
    code = folder / "code"
    with serving(cwd=folder, command=[sys.executable, "-c", parent], env={"PYTHONPATH": str(ROOT)}) as served:
        served.end()
        begin = time.monotonic()
        while not (code.exists() and code.read_text()):
            assert time.monotonic() - begin < WAIT_TIMEOUT
            time.sleep(0.02)

    assert code.read_text() == "0"


# Signals


@pytest.mark.parametrize("number", STOPS)
def test_signal_runs_exit_handlers_and_answers_finished_calls(
    served: Served, folder: Path, number: signal.Signals
) -> None:
    short, long = served.start_call("nap", until="woken"), served.start_call("nap", seconds=600)
    served.until("napping\n(.*\n)*napping")
    served.signal(number)
    served.until("stopping")
    late = served.start("ping")
    (folder / "woken").touch()
    answers = {each["id"]: each for each in served.rest()}

    assert answers[short]["result"]["content"][0]["text"] == "slept"
    assert "result" not in answers.get(long, {})
    assert answers[late]["error"]["message"] == "the server is stopping"
    assert served.end()[0] == 0
    assert f"{number.name}: stopping" in served.stderr
    assert "leaving\nleft\n" in served.stderr


@pytest.mark.parametrize("number", STOPS)
def test_idle_server_ends_at_once_on_a_signal(folder: Path, number: signal.Signals) -> None:
    with serving("--stdio", "--plugin=own.py", cwd=folder, env={"MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN": "600"}) as served:
        served.greet()
        served.signal(number)

        assert served.end()[0] == 0
        assert served.rest() == []
        assert "left" in served.stderr


@pytest.mark.parametrize("number", STOPS)
def test_second_signal_ends_the_server_at_once(folder: Path, number: signal.Signals) -> None:
    env = {"EXIT_HANGS": "1", "MCPTRIO_SERVER_TIMEOUTS_SHUTDOWN": "600"}
    with serving("--stdio", "--plugin=own.py", cwd=folder, env=env) as served:
        served.greet()
        served.signal(signal.SIGTERM)
        served.until("leaving")
        served.signal(number)
        code, _ = served.end()

    assert code == 128 + number


def test_second_signal_ends_a_server_with_a_blocked_event_loop(served: Served) -> None:
    served.start_call("block", seconds=600)
    served.until("blocking")
    # Two of one number, one behind the other, may be one to a process; of these SIGTERM is handled last in any case.
    served.signal(signal.SIGINT)
    served.signal(signal.SIGTERM)
    code, _ = served.end()

    assert code == 128 + signal.SIGTERM


def test_signal_during_a_plugin_import_ends_the_start(folder: Path) -> None:
    with serving("--stdio", "--plugin=own.py", cwd=folder, env={"SLOW_IMPORT": "0.5"}) as served:
        served.until("importing")
        served.signal(signal.SIGTERM)

        assert served.end()[0] == 0
        assert served.rest() == []


def test_signal_during_a_lifespan_entry_ends_the_start(folder: Path) -> None:
    with serving("--stdio", "--plugin=own.py", cwd=folder, env={"ENTER_HANGS": "1"}) as served:
        served.until("entering")
        served.signal(signal.SIGTERM)

        assert served.end()[0] == 0


def test_listen_stream_gets_its_final_result(folder: Path) -> None:
    meta = {
        "io.modelcontextprotocol/protocolVersion": "2026-07-28",
        "io.modelcontextprotocol/clientInfo": {"name": "raw", "version": "1"},
        "io.modelcontextprotocol/clientCapabilities": {},
    }
    with serving("--stdio", "--plugin=own.py", cwd=folder) as served:
        id = served.start("subscriptions/listen", notifications={"toolsListChanged": True}, _meta=meta)
        assert served.receive()["method"] == "notifications/subscriptions/acknowledged"
        served.signal(signal.SIGTERM)
        [final] = served.rest()

        assert final["id"] == id
        assert final["result"]["_meta"]["io.modelcontextprotocol/subscriptionId"] == id
        assert served.end()[0] == 0


# Standard output is for messages


def test_nothing_else_reaches_standard_output(served: Served) -> None:
    assert served.call("noise") == "quiet"
    served.close_input()

    assert served.rest() == []
    assert served.end()[0] == 0
    for message in (
        "printed at import",
        "echoed at import",
        "entering",
        "printed by Python",
        "written by Python",
        "written by the system",
        "put by C",
        "echoed by a child",
        "printed by a thread",
    ):
        assert message in served.stderr


def test_tool_cannot_end_the_process(served: Served) -> None:
    assert "error executing tool crash" in served.call("crash")
    assert served.call("nap", seconds=0) == "slept"


def test_line_over_the_limit_is_answered_and_the_next_one_served(folder: Path) -> None:
    with serving("--stdio", "--plugin=own.py", cwd=folder, env={"MCPTRIO_SERVER_MESSAGE_BYTES": "2000"}) as served:
        served.greet()
        id = served.start("ping", padding="x" * 200_000)
        answer = served.receive()
        assert answer["id"] == id
        assert "2000" in answer["error"]["message"]

        assert served.call("nap", seconds=0) == "slept"


# Kinds of standard input

SESSION: list[dict[str, Any]] = [
    HELLO,
    {"jsonrpc": "2.0", "method": "notifications/initialized"},
    {"jsonrpc": "2.0", "id": 1, "method": "tools/call", "params": {"name": "nap", "arguments": {"seconds": 0.1}}},
]


def test_input_from_a_file_is_served(folder: Path) -> None:
    session = folder / "session"
    session.write_bytes(b"".join(line(message) for message in SESSION))
    with session.open("rb") as file, serving("--stdio", "--plugin=own.py", cwd=folder, stdin=file.fileno()) as served:
        answers = served.rest()

        assert [each["id"] for each in answers] == [0, 1]
        assert served.end()[0] == 0


def test_output_to_a_file_is_written(folder: Path) -> None:
    with (folder / "out").open("wb") as file:
        with serving("--stdio", "--plugin=own.py", cwd=folder, stdout=file.fileno()) as served:
            served.send(*SESSION)
            served.close_input()

            assert served.end()[0] == 0
    assert [json.loads(each)["id"] for each in (folder / "out").read_text().splitlines()] == [0, 1]


def test_input_from_the_null_device_ends_the_server(folder: Path) -> None:
    with serving("--stdio", "--plugin=own.py", cwd=folder, stdin=subprocess.DEVNULL) as served:
        assert served.rest() == []
        assert served.end()[0] == 0


def test_server_runs_on_a_terminal(folder: Path) -> None:
    """Ctrl-D is the end of the input there."""
    ours, theirs = os.openpty()
    try:
        with serving("--stdio", "--plugin=own.py", cwd=folder, stdin=theirs, stdout=theirs) as served:
            os.write(ours, b"".join(line(message) for message in SESSION))
            received = read_until(ours, b'"slept"')
            os.write(ours, b"\x04")

            assert served.end()[0] == 0
    finally:
        os.close(ours)
        os.close(theirs)
    # A terminal echoes what is typed.
    answers: list[dict[str, Any]] = [json.loads(each) for each in received.splitlines() if b'"result"' in each]
    assert [each["id"] for each in answers] == [0, 1]


def read_until(fd: int, end: bytes) -> bytes:
    received = b""
    deadline = time.monotonic() + WAIT_TIMEOUT
    os.set_blocking(fd, False)
    while end not in received or not received.endswith(b"\n"):
        assert time.monotonic() < deadline, received
        try:
            received += os.read(fd, 65536)
        except BlockingIOError:
            time.sleep(0.01)
    os.set_blocking(fd, True)
    return received
